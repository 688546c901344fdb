// @ts-check
/** The last message list and the position in it, kept as long as the tab is open. */
import { to } from "../../router.js";

/** @typedef {{accountId: string, id: string}} Beside */
/**
 * @typedef {object} Trail
 * @property {string} key of the list
 * @property {string} href
 * @property {(string | null)[]} cursors of the pages up to the current one
 * @property {Beside[]} shown newest first
 * @property {string | null} at the ID of the last opened message
 */
/** @type {Trail} */
let trail = { key: "", href: to("/mail"), cursors: [null], shown: [], at: null };

/** Return the state of a list; the state of the previous list is dropped. @param {string} key @param {string} href */
export function trailOf(key, href) {
  if (trail.key !== key) trail = { key, href, cursors: [null], shown: [], at: null };
  return trail;
}

/** The address of the list, for "Back to the list". */
export function listHref() {
  return trail.href;
}

/** Return the messages before and after a message on the page of the list. @param {string} id @returns {{newer: Beside | null, older: Beside | null}} */
export function neighbours(id) {
  const at = trail.shown.findIndex((one) => one.id === id);
  if (at >= 0) trail.at = id;
  return { newer: trail.shown[at - 1] ?? null, older: (at >= 0 && trail.shown[at + 1]) || null };
}
