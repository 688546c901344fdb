// @ts-check
/** The search field and its tips. */
import { html, useEffect, useRef, useState } from "../../html.js";
import { go } from "../../router.js";
import { EVERYWHERE, hrefOf } from "./view.js";

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
export function Search({ view, place, isWanted }) {
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
