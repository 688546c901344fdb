// @ts-check
/** Which messages an address means: `/mail?account=ID&folder=ROLE-or-ID&q=WORDS&show=unread`. Pure. */
import { at } from "../../api.js";
import { to } from "../../router.js";

/** Folders with a role, in the order and the words in which they are shown. @type {Record<string, string>} */
export const ROLES = {
  inbox: "Inbox",
  drafts: "Drafts",
  sent: "Sent",
  archive: "Archive",
  spam: "Spam",
  trash: "Trash",
};
/** In place of a folder: all of them but spam and trash. */
export const EVERYWHERE = "any";
/** What the list may be narrowed to. @type {Record<string, [label: string, query: Record<string, boolean>]>} */
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
 * @property {string} key the same for the same list
 * @property {string} href
 */

/**
 * A search goes everywhere unless a folder is named; without one it is the inbox.
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

/** The request for it. @param {View} view @returns {[path: string, query: import("../../api.js").Query]} */
export function requestOf({ accountId, folder, q, show }) {
  const path = accountId === null ? "/messages" : at`/accounts/${accountId}/messages`;
  const narrowed = SHOWS[show]?.[1] ?? {};
  return [path, { folder: folder === EVERYWHERE ? undefined : folder, q, text: soughtText(q), ...narrowed }];
}

/**
 * The word or phrase of a query that is most worth seeing in its place: the longest one that no key stands before.
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

/** What a place is called. @param {View} view @param {Folder[]} folders of its mailbox, as far as they are known */
export function placeName({ folder }, folders) {
  if (folder === EVERYWHERE) return "All mail";
  return ROLES[folder] ?? folders.find((one) => one.id === folder)?.path ?? "Folder";
}

/** Folders in the order in which they are shown: roles first, then by path. @param {Folder[]} folders */
export function inOrder(folders) {
  const order = Object.keys(ROLES);
  const rank = (/** @type {Folder} */ one) => (one.role && order.includes(one.role) ? order.indexOf(one.role) : 99);
  return [...folders].sort((one, other) => rank(one) - rank(other) || one.path.localeCompare(other.path));
}
