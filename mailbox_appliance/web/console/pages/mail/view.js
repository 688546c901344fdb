// @ts-check
/** The message list that an address stands for: `/mail?account=ID&folder=ROLE-or-ID&q=WORDS&show=unread`. */
import { at } from "../../api.js";
import { to } from "../../router.js";

/** The names of folders with a role, in display order. @type {Record<string, string>} */
export const ROLES = {
  inbox: "Inbox",
  drafts: "Drafts",
  sent: "Sent",
  archive: "Archive",
  spam: "Spam",
  trash: "Trash",
};
/** Stands for all folders except spam and trash. */
export const EVERYWHERE = "any";
/** The filters of the list. @type {Record<string, [label: string, query: Record<string, boolean>]>} */
export const SHOWS = {
  all: ["All messages", {}],
  unread: ["Unread", { unread: true }],
  starred: ["Starred", { starred: true }],
  files: ["With attachments", { hasAttachment: true }],
};

/**
 * @typedef {object} View
 * @property {string | null} accountId null: every mailbox
 * @property {string} folder a role, an id, or EVERYWHERE
 * @property {string} q
 * @property {string} show
 * @property {string} key identical for identical lists
 * @property {string} href
 */

/**
 * Return the view of an address. Without a folder it is the inbox, or all folders if there is a search.
 * @param {Record<string, string>} query of the address
 * @param {import("../../accounts.js").Account[]} accounts
 * @returns {View}
 */
export function viewOf(query, accounts) {
  const only = accounts.length === 1 ? accounts[0]?.id : undefined;
  const accountId = accounts.find((one) => one.id === query.account)?.id ?? only ?? null;
  const q = (query.q ?? "").trim();
  const folder = query.folder || (q ? EVERYWHERE : "inbox");
  const show = query.show && query.show in SHOWS ? query.show : "all";
  const href = hrefOf({ accountId, folder, q, show });
  return { accountId, folder, q, show, key: `${accountId} ${href}`, href };
}

/** @param {{accountId: string | null, folder?: string, q?: string, show?: string}} view */
export function hrefOf({ accountId, folder, q, show }) {
  const usual = q ? EVERYWHERE : "inbox";
  return to("/mail", {
    account: accountId,
    folder: folder === usual ? undefined : folder,
    q,
    show: show === "all" ? undefined : show,
  });
}

/** Return the request for a view. @param {View} view @returns {[path: string, query: import("../../api.js").Query]} */
export function requestOf({ accountId, folder, q, show }) {
  const path = accountId === null ? "/messages" : at`/accounts/${accountId}/messages`;
  const narrowed = SHOWS[show]?.[1] ?? {};
  return [path, { folder: folder === EVERYWHERE ? undefined : folder, q, text: soughtText(q), ...narrowed }];
}

/**
 * Return the word or phrase of a query to show in context: the longest one without an operator.
 * @param {string} q
 */
export function soughtText(q) {
  const pieces = [...q.matchAll(/([A-Za-z]+:)?(?:["“”„]([^"“”„]*)(?:["“”„]|$)(\*?)|([^\s"“”„]+))/g)];
  const texts = pieces
    .filter(([, key, , star]) => !key && !star)
    .map(([, , phrase, , word]) => phrase?.trim() ?? word ?? "")
    .filter((text) => /[\p{L}\p{N}]/u.test(text) && !/[:*]/.test(text));
  return texts.sort((one, other) => other.length - one.length)[0];
}

/** @typedef {{id: string, name: string, path: string, role?: string, unreadCount: number, totalCount: number}} Folder */

/** Return the name of the folder of a view. @param {View} view @param {Folder[]} folders of its mailbox, if they are loaded */
export function placeName({ folder }, folders) {
  if (folder === EVERYWHERE) return "All mail";
  return ROLES[folder] ?? folders.find((one) => one.id === folder)?.path ?? "Folder";
}

/** Return folders in display order: roles first, then by path. @param {Folder[]} folders */
export function inOrder(folders) {
  const order = Object.keys(ROLES);
  const rank = (/** @type {Folder} */ one) => (one.role && order.includes(one.role) ? order.indexOf(one.role) : 99);
  return [...folders].sort((one, other) => rank(one) - rank(other) || one.path.localeCompare(other.path));
}

// --- The last message list and the position in it, kept as long as the tab is open ---

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
