// @ts-check
/** The list one comes from, kept while the tab lives: where one was in it, and what stands beside a message. */
import { to } from "../../router.js";

/** @typedef {{accountId: string, id: string}} Beside */
/**
 * @typedef {object} Trail
 * @property {string} key of the list
 * @property {string} href
 * @property {(string | null)[]} cursors of the pages up to the one that is shown
 * @property {Beside[]} shown newest first
 * @property {string | null} at the message that was looked at last
 */
/** @type {Trail} */
let trail = { key: "", href: to("/mail"), cursors: [null], shown: [], at: null };

/** What is known of a list; the one before is forgotten. @param {string} key @param {string} href */
export function trailOf(key, href) {
  if (trail.key !== key) trail = { key, href, cursors: [null], shown: [], at: null };
  return trail;
}

/** The address of the list, for "Back to the list". */
export function listHref() {
  return trail.href;
}

/** What stands beside a message on that list's page. @param {string} id @returns {{newer: Beside | null, older: Beside | null}} */
export function neighbours(id) {
  const at = trail.shown.findIndex((one) => one.id === id);
  if (at >= 0) trail.at = id;
  return { newer: trail.shown[at - 1] ?? null, older: (at >= 0 && trail.shown[at + 1]) || null };
}
