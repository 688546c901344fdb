// @ts-check
/** The rows of the message list. */
import { at } from "../../api.js";
import { html, useLayoutEffect, useRef } from "../../html.js";
import { to } from "../../router.js";
import { Badge, Time } from "../../ui/values.js";
import { count, list, person, straight } from "../../words.js";
import { soughtText } from "./view.js";

/** @typedef {import("./listing.js").Message} Message */
/**
 * @typedef {object} RowsProps
 * @property {Message[]} messages
 * @property {import("./view.js").View} view
 * @property {Set<string>} selected
 * @property {Set<string>} pending IDs of messages with a running action
 * @property {(message: Message, isRange: boolean) => void} onSelect
 * @property {(action: string, messages: Message[]) => void} onAct
 * @property {(message: Message) => void} onOpen
 * @property {(message: Message) => string | null} mailboxOf the mailbox of a message, if the list has several
 */

/** Labels that mail programs set for internal use; they are not shown. */
const INTERNAL = /^(\$|(non|not)?junk$)/i;

/** @param {RowsProps} props */
export function Rows({ messages, view, selected, pending, onSelect, onAct, onOpen, mailboxOf }) {
  const sought = soughtText(view.q) ?? "";
  return html`<ul class="messages" aria-label="Messages">
    ${messages.map(
      (message) => html`<li key=${message.id} data-id=${message.id}
        class=${`${message.flags.read ? "" : "unread"} ${selected.has(message.id) ? "selected" : ""} ${pending.has(message.id) ? "pending" : ""}`}>
        <input type="checkbox" checked=${selected.has(message.id)} aria-label=${`Select ${nameOf(message)}`}
          onClick=${(/** @type {MouseEvent} */ event) => onSelect(message, event.shiftKey)} />
        <button type="button" class="star" aria-pressed=${message.flags.starred} aria-label=${`Star ${nameOf(message)}`}
          onClick=${() => onAct(message.flags.starred ? "unstar" : "star", [message])}>${message.flags.starred ? "★" : "☆"}</button>
        <a href=${addressOf(message)} onClick=${() => onOpen(message)}>
          ${!message.flags.read && html`<span class="said">Unread. </span>`}
          <span class="from"><bdi>${people(message)}</bdi></span><span class="said">: </span>
          <span class="about"><bdi>${straight(message.subject) || "(no subject)"}</bdi> <${Context} message=${message} sought=${sought} /></span>
        </a>
        <span class="marks"><${Marks} message=${message} view=${view} mailbox=${mailboxOf(message)} /></span>
        <${Time} at=${message.date} />
      </li>`,
    )}
  </ul>`;
}

/** @param {Message} message */
function nameOf(message) {
  return `“${straight(message.subject) || "no subject"}” from ${people(message)}`;
}

/** Return the sender, or the recipients of sent messages and drafts. @param {Message} message */
function people({ from, to: recipients, folder, flags }) {
  const isOwn = folder?.role === "sent" || folder?.role === "drafts" || flags.draft;
  if (isOwn) return recipients.length ? `To ${list(recipients.slice(0, 3).map(person))}` : "No recipients yet";
  return from ? person(from) : "Unknown sender";
}

/** Return the address that opens a message: the editor for drafts. @param {Message} message */
export function addressOf({ accountId, id, folder }) {
  if (folder?.role === "drafts") return to("/compose", { account: accountId, draft: id });
  return to(at`/mail/${accountId}/${id}`);
}

/** The excerpt with the search terms, or the beginning of the message. @param {{message: Message, sought: string}} props */
function Context({ message, sought }) {
  const excerpt = message.searchContext?.excerpt;
  if (excerpt === undefined)
    return message.snippet ? html`<span class="snippet-text" dir="auto">${message.snippet}</span>` : null;
  return html`<span class="excerpt" dir="auto">${marked(excerpt, sought)}</span>`;
}

/** @param {string} text @param {string} sought @returns {any[]} */
function marked(text, sought) {
  if (!sought) return [text];
  const words = sought.split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const pieces = text.split(new RegExp(`(${words.join("\\s+")})`, "iu"));
  return pieces.map((piece, index) => (index % 2 ? html`<mark>${piece}</mark>` : piece));
}

/** @param {{message: Message, view: import("./view.js").View, mailbox: string | null}} props */
function Marks({ message, view, mailbox }) {
  const files = (message.attachments ?? []).filter((one) => one.disposition !== "inline").length;
  const labels = (message.labels ?? []).filter((one) => !INTERNAL.test(one));
  const place = view.folder === "any" && message.folder?.role !== "inbox" ? message.folder?.name : null;
  return html`${message.flags.draft && html`<${Badge} kind="busy">Draft<//>`}
    ${mailbox && html`<small class="muted">${mailbox}</small>`}
    ${place && html`<${Badge}>${place}<//>`}
    ${labels.map((label) => html`<${Badge} key=${label} kind="good">${label}<//>`)}
    ${files > 0 && html`<small class="muted">${count(files, "file")}</small>`}`;
}

/** Return the message ID of the focused row, or null. @returns {string | null} */
export function focusedId() {
  return document.activeElement?.closest("[data-id]")?.getAttribute("data-id") ?? null;
}

/** @param {string | undefined} id */
export function focusRow(id) {
  if (id === undefined) return;
  const link = document.querySelector(`.messages [data-id="${CSS.escape(id)}"] > a`);
  if (link instanceof HTMLElement) link.focus();
}

/**
 * Keep the focus in the list: when the focused message disappears, the one in its place gets the focus.
 * @param {Message[] | undefined} messages
 * @returns {(id: string) => void} call it with the ID of the message that will disappear
 */
export function useKeptFocus(messages) {
  const place = useRef(/** @type {number | null} */ (null));
  useLayoutEffect(() => {
    if (place.current === null || !messages) return;
    const isLost = !document.activeElement || document.activeElement === document.body;
    if (!isLost) return;
    const next = messages[Math.min(place.current, messages.length - 1)];
    if (next) focusRow(next.id);
    else document.querySelector("h1")?.focus();
    place.current = null;
  });
  return (id) => {
    const found = messages?.findIndex((one) => one.id === id) ?? -1;
    place.current = found < 0 ? null : found;
  };
}
