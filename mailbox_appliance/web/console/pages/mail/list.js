// @ts-check
/** The mail page: mailboxes, folders, and the messages of one folder. */
import { nameOf, useAccounts } from "../../accounts.js";
import { at, get } from "../../api.js";
import { about } from "../../changes.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { go, to } from "../../router.js";
import { Choice } from "../../ui/form.js";
import { Empty, Loaded, useLoad } from "../../ui/load.js";
import { Title } from "../../ui/values.js";
import { number } from "../../words.js";
import { Messages } from "./messages.js";
import { EVERYWHERE, hrefOf, inOrder, placeName, ROLES, viewOf } from "./view.js";

const EVERY = 20_000; // milliseconds, without the stream of changes

/** @typedef {import("../../accounts.js").Account} Account */

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  const accounts = useAccounts();
  return html`<${Loaded} of=${accounts} what="your mailboxes">${(/** @type {Account[]} */ all) =>
    all.length ? html`<${Mail} accounts=${all} query=${query} />` : html`<${NoMailbox} />`}<//>`;
}

function NoMailbox() {
  return html`<${Title}>Mail<//>
    <${Empty} title="No mailbox is connected yet">
      <p>Connect one of your mailboxes, or ask a member to share one with you.</p>
      <a role="button" href=${to("/mailboxes/connect")}>Connect a mailbox</a>
    <//>`;
}

/** @param {{accounts: Account[], query: Record<string, string>}} props */
function Mail({ accounts, query }) {
  const view = viewOf(query, accounts);
  const account = accounts.find((one) => one.id === view.accountId);
  const folders = useLoad(
    async (signal) => (account ? get(at`/accounts/${account.id}/folders`, {}, signal) : []),
    [view.accountId],
    { on: about("message", view.accountId), every: EVERY },
  );
  const place = placeName(view, folders.data ?? []);
  return html`<${Title}>${`Mail: ${view.q ? "search" : place}`}<//>
    <div class="mail">
      <${Places} view=${view} accounts=${accounts} folders=${folders.data ?? []} />
      <section aria-label=${place}>
        <${Search} view=${view} place=${place} isWanted=${query.search === "1"} />
        ${(account ? [account] : accounts).map((one) => html`<${Doubt} key=${one.id} account=${one} />`)}
        <${Messages} key=${view.key} view=${view} place=${place} accounts=${accounts} onChanged=${folders.reload} />
      </section>
    </div>`;
}

/** The reason why a mailbox gets no new mail. @param {{account: Account}} props */
function Doubt({ account }) {
  if (account.status !== "reauth_required" && account.status !== "error") return null;
  return html`<p class="warning">${account.email}: ${account.error?.message ?? "This mailbox cannot be synced."} The messages shown may be out of date.
    ${" "}<a href=${to(at`/mailboxes/${account.id}`)}>Open this mailbox</a></p>`;
}

// --- The search field and its tips ---

/** @type {[query: string, finds: string][]} */
const TIPS = [
  ["invoice march", "messages that contain both words"],
  ["“due date”", "this exact phrase"],
  ["inv*", "words that start with “inv”"],
  ["from:ada", "sender; to: and subject: work the same way"],
  ["after:2026-01-31", "on or after this date; before: excludes its date"],
  ["is:unread", "also is:read and is:starred"],
  ["has:attachment", "messages with attachments"],
  ["label:work", "messages with a label"],
];

/** @param {{view: import("./view.js").View, place: string, isWanted: boolean}} props `isWanted`: whether the field gets the focus */
function Search({ view, place, isWanted }) {
  const [typed, setTyped] = useState(view.q);
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => setTyped(view.q), [view.q]);
  useEffect(() => void (isWanted && input.current?.focus()), [isWanted]);
  const search = (/** @type {Event} */ event) => {
    event.preventDefault();
    const q = typed.trim();
    go("/mail", { account: view.accountId, q, show: q && view.show !== "all" ? view.show : undefined });
  };
  return html`<form role="search" class="find" onSubmit=${search}>
      <input ref=${input} type="search" name="q" value=${typed} placeholder="Search mail" aria-label="Search mail" maxlength="1000" autocomplete="off"
        onInput=${(/** @type {any} */ event) => setTyped(event.currentTarget.value)} />
      <button type="submit">Search</button>
    </form>
    <details class="tips">
      <summary>Search tips</summary>
      <p>All terms must match. Search ignores case and accents.</p>
      <dl>${TIPS.map(([query, finds]) => html`<div><dt><code>${query}</code></dt><dd>${finds}</dd></div>`)}</dl>
    </details>
    ${view.q && html`<${Scope} view=${view} place=${place} />`}`;
}

/** The searched folders, with links to search elsewhere or to clear the search. @param {{view: import("./view.js").View, place: string}} props */
function Scope({ view, place }) {
  const isEverywhere = view.folder === EVERYWHERE;
  const elsewhere = [
    isEverywhere ? ["inbox", "Search only the inbox"] : [EVERYWHERE, "Search all folders"],
    ["trash", "search the trash"],
  ];
  return html`<p class="scope">
    Results from ${isEverywhere ? "all folders except spam and trash" : place}.${" "}
    ${elsewhere.map(([folder, name]) => folder !== view.folder && html`<a key=${folder} href=${hrefOf({ ...view, folder })}>${name}</a>, `)}
    <a href=${hrefOf({ accountId: view.accountId, folder: isEverywhere ? "inbox" : view.folder })}>clear the search</a>.
  </p>`;
}

// --- The choice of mailbox and folder: a list beside the mail, or two fields on narrow screens ---

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
function Places({ view, accounts, folders }) {
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
