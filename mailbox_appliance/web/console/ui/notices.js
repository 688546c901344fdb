// @ts-check
/** Short messages of what was done, or could not be; screen readers say them. */
import { html } from "../html.js";
import { place } from "../router.js";
import { Shared, useShared } from "../shared.js";

const STAYS = 8_000; // milliseconds; a warning stays until it is closed, or the page it was told on is left
const OF_THE_NEXT_PAGE = 1_500; // milliseconds before which a warning was told by what led there

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

/** @param {any} text @returns {() => void} takes it away before its time, such as when it is undone */
export function done(text) {
  const id = add(text, "done");
  setTimeout(() => close(id), STAYS);
  return () => close(id);
}

/** @param {any} text what a person should see to */
export function warn(text) {
  add(text, "warning");
}

/** What went wrong, where no form could show it. @param {unknown} error */
export function failed(error) {
  warn(error instanceof Error ? error.message : String(error));
}

/** Does it, and tells what went wrong. @param {() => Promise<unknown>} act @returns {Promise<void>} */
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

/** Nothing of who was signed in stays. */
export function clear() {
  notices.set([]);
}

/** @param {number} id */
function close(id) {
  notices.set(notices.value.filter((one) => one.id !== id));
}

/** Where they appear; once, in the shell. */
export function Notices() {
  return html`<div class="notices" role="status" aria-live="polite">
    ${useShared(notices).map(
      (one) => html`<div key=${one.id} class=${`notice ${one.kind}`}>
        <span>${one.text}</span>
        <button type="button" class="close" aria-label="Close this notice" onClick=${() => close(one.id)}>×</button>
      </div>`,
    )}
  </div>`;
}
