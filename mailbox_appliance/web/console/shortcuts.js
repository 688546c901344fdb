// @ts-check
/** Keyboard shortcuts. They can be turned off (WCAG 2.1.4), and do nothing while the person types. */
import { useLayoutEffect } from "./html.js";
import { Shared } from "./shared.js";

const KEPT = "mailbox-appliance.shortcuts";

/** Key -> the description of its action, and the action. @typedef {Record<string, [label: string, act: () => void]>} Keys */
/** @type {Shared<Keys[]>} */
export const active = new Shared(/** @type {Keys[]} */ ([]));
export const isOn = new Shared(localStorage.getItem(KEPT) !== "off");
isOn.watch((on) => localStorage.setItem(KEPT, on ? "on" : "off"));

/** Add shortcuts while the component is shown. @param {Keys} keys @param {unknown[]} of values that change the actions */
export function useShortcuts(keys, of) {
  // At once, so that no key is lost that is pressed as soon as the page shows its button.
  useLayoutEffect(() => {
    active.set([...active.value, keys]);
    return () => active.set(active.value.filter((one) => one !== keys));
  }, of);
}

addEventListener("keydown", (event) => {
  if (!isOn.value || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = /** @type {HTMLElement} */ (event.target);
  if (target.closest("input, textarea, select, dialog, [contenteditable]")) return;
  const found = active.value.findLast((keys) => event.key in keys)?.[event.key];
  if (!found) return;
  event.preventDefault();
  found[1]();
});
