// @ts-check
/** The choice of mailbox and folder: a list beside the mail, or two fields on narrow screens. */
import { nameOf } from "../../accounts.js";
import { html, useEffect, useState } from "../../html.js";
import { Choice } from "../../ui/choice.js";
import { number } from "../../words.js";
import { EVERYWHERE, hrefOf, inOrder, ROLES } from "./view.js";

/** @typedef {import("../../accounts.js").Account} Account */
/** @typedef {{folder: string, name: string, depth: number, unread: number}} Entry */

const NARROW = matchMedia("(max-width: 60rem)");

/** @returns {boolean} whether the screen is too narrow for a list beside the mail */
function useNarrow() {
  const [isNarrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const heard = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", heard);
    return () => NARROW.removeEventListener("change", heard);
  }, []);
  return isNarrow;
}

/** @param {{view: import("./view.js").View, accounts: Account[], folders: import("./view.js").Folder[]}} props */
export function Places({ view, accounts, folders }) {
  const isNarrow = useNarrow();
  const entries = [
    ...(view.accountId === null ? ofAll(accounts) : ofOne(folders)),
    { folder: EVERYWHERE, name: "All mail", depth: 0, unread: 0 },
  ];
  const { accountId } = view;
  const kept = view.folder in ROLES || view.folder === EVERYWHERE ? view.folder : undefined;
  const toMailbox = (/** @type {string} */ id) => {
    location.hash = hrefOf({ ...view, accountId: id || null, folder: kept });
  };
  const toFolder = (/** @type {string} */ folder) => {
    location.hash = hrefOf({ accountId, folder });
  };
  return html`<aside class="places" aria-label="Mailboxes and folders">
    ${
      accounts.length > 1 &&
      html`<${Choice} label="Mailbox" every="All mailboxes" value=${accountId ?? ""} onChoose=${toMailbox}
        options=${accounts.map((one) => [one.id, nameOf(one)])} />`
    }
    ${
      isNarrow
        ? html`<${Choice} label="Folder" value=${view.folder} onChoose=${toFolder} options=${entries.map(optionOf)} />`
        : html`<${FolderList} view=${view} entries=${entries} />`
    }
  </aside>`;
}

/** @param {Entry} entry @returns {[string, string]} */
function optionOf({ folder, name, depth, unread }) {
  return [folder, `${"\u2003".repeat(depth)}${name}${unread > 0 ? ` (${number(unread)} unread)` : ""}`];
}

/** @param {{view: import("./view.js").View, entries: Entry[]}} props */
function FolderList({ view, entries }) {
  return html`<nav aria-label="Folders"><ul>
    ${entries.map(
      ({ folder, name, depth, unread }) => html`<li key=${folder}>
        <a href=${hrefOf({ accountId: view.accountId, folder })} aria-current=${folder === view.folder ? "page" : undefined}
          style=${{ paddingLeft: `${0.5 + depth * 0.8}rem` }}>
          <span>${name}</span>${unread > 0 && html`<small>${number(unread)}<span class="said"> unread</span></small>`}</a></li>`,
    )}
  </ul></nav>`;
}

/** @param {Account[]} accounts @returns {Entry[]} roles for which at least one mailbox has a folder */
function ofAll(accounts) {
  const has = (/** @type {string} */ role) =>
    role === "inbox" || accounts.some((one) => one.folders[/** @type {"sent"} */ (role)]);
  const roles = Object.entries(ROLES).filter(([role]) => has(role));
  return roles.map(([folder, name]) => ({ folder, name, depth: 0, unread: 0 }));
}

/** @param {import("./view.js").Folder[]} folders @returns {Entry[]} */
function ofOne(folders) {
  const entries = inOrder(folders).map((one) => ({
    folder: one.role && one.role in ROLES ? one.role : one.id,
    name: (one.role && ROLES[one.role]) || one.name,
    depth: one.role
      ? 0
      : folders.filter((other) => one.path !== other.path && !other.role && isWithin(one.path, other.path)).length,
    unread: one.role === "trash" || one.role === "drafts" ? 0 : one.unreadCount,
  }));
  return entries.length ? entries : [{ folder: "inbox", name: "Inbox", depth: 0, unread: 0 }];
}

/** @param {string} path @param {string} above */
function isWithin(path, above) {
  return path.startsWith(above) && /[^\p{L}\p{N}\s]/u.test(path[above.length] ?? "");
}
