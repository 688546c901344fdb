// @ts-check
/** Keys that do something. They can be turned off (WCAG 2.1.4), and do nothing while one types. */
import { useEffect } from "./html.js";
import { Shared } from "./shared.js";

const KEPT = "mailbox-appliance.shortcuts";

/** Key -> what it does, in words, and how. @typedef {Record<string, [label: string, act: () => void]>} Keys */
/** @type {Shared<Keys[]>} */
export const active = new Shared(/** @type {Keys[]} */ ([]));
export const isOn = new Shared(localStorage.getItem(KEPT) !== "off");
isOn.watch((on) => localStorage.setItem(KEPT, on ? "on" : "off"));

/** While the component is there. @param {Keys} keys @param {unknown[]} of they are made anew when one of these changes */
export function useShortcuts(keys, of) {
  useEffect(() => {
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
