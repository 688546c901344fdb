// @ts-check
/** Short messages about finished or failed actions. Screen readers announce them. */
import { html } from "../html.js";
import { place } from "../router.js";
import { Shared, useShared } from "../shared.js";
import { ApiText } from "./values.js";

const STAYS = 8_000; // milliseconds; a warning stays until the person closes it or leaves its page
const OF_THE_NEXT_PAGE = 1_500; // milliseconds; a newer warning belongs to the next page

/** @typedef {{id: number, text: any, kind: "done" | "warning", at: number}} Notice */
/** @type {Shared<Notice[]>} */
const notices = new Shared(/** @type {Notice[]} */ ([]));
let last = 0;
let path = place.value.path;
place.watch((now) => {
  if (now.path === path) return;
  path = now.path;
  notices.set(notices.value.filter((one) => one.kind === "done" || Date.now() - one.at < OF_THE_NEXT_PAGE));
});

/** Show that something was done. @param {any} text @returns {() => void} closes the notice early, for example after an undo */
export function done(text) {
  const id = add(text, "done");
  setTimeout(() => close(id), STAYS);
  return () => close(id);
}

/** Show a warning. @param {any} text */
export function warn(text) {
  add(text, "warning");
}

/** Show an error that no form can show. @param {unknown} error */
export function failed(error) {
  warn(error instanceof Error ? error.message : String(error));
}

/** Run an action and show its error. @param {() => Promise<unknown>} act @returns {Promise<void>} */
export async function attempt(act) {
  try {
    await act();
  } catch (problem) {
    failed(problem);
  }
}

/** @param {any} text @param {Notice["kind"]} kind */
function add(text, kind) {
  last += 1;
  const same = notices.value.filter((one) => one.text !== text);
  notices.set([...same.slice(-3), { id: last, text, kind, at: Date.now() }]);
  return last;
}

/** Remove all notices, for example at sign-out. */
export function clear() {
  notices.set([]);
}

/** @param {number} id */
function close(id) {
  notices.set(notices.value.filter((one) => one.id !== id));
}

/** The place where notices appear: once, in the shell. */
export function Notices() {
  return html`<div class="notices" role="status" aria-live="polite">
    ${useShared(notices).map(
      (one) => html`<div key=${one.id} class=${`notice ${one.kind}`}>
        <span>${typeof one.text === "string" ? html`<${ApiText} text=${one.text} />` : one.text}</span>
        <button type="button" class="close" aria-label="Close this notice" onClick=${() => close(one.id)}>×</button>
      </div>`,
    )}
  </div>`;
}
