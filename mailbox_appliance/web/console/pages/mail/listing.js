// @ts-check
/** One page of messages, kept up to date. Only one page is kept. */
import { at, whole } from "../../api.js";
import { about, useChanges } from "../../changes.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../html.js";
import { to } from "../../router.js";
import { Badge, Time } from "../../ui/values.js";
import { count, list, person, straight } from "../../words.js";
import { requestOf, soughtText, trailOf } from "./view.js";

const EVERY = 10_000; // milliseconds, without the stream of changes
const LIMIT = 50;

/**
 * @typedef {object} Message an item of GET /messages
 * @property {string} id
 * @property {string} threadId
 * @property {string} accountId
 * @property {{id: string, name: string, role?: string}} [folder]
 * @property {string[]} [labels]
 * @property {{email: string, name?: string}} [from]
 * @property {{email: string, name?: string}[]} to
 * @property {string} subject
 * @property {string} date
 * @property {string} [snippet]
 * @property {{status: string, excerpt?: string}} [searchContext]
 * @property {{disposition?: string}[]} [attachments]
 * @property {{read: boolean, starred: boolean, draft: boolean}} flags
 */
/** @typedef {{items: Message[], nextCursor: string | null, warnings: string[]}} Shown */
/** @typedef {{shown: Shown | null, cursors: (string | null)[], error: unknown, isTurning: boolean}} State */

/** The list of a view. The calling component must have the view's key. @param {import("./view.js").View} view */
export function useListing(view) {
  const trail = trailOf(view.key, view.href);
  const [state, setState] = useState(
    /** @type {State} */ ({ shown: null, cursors: trail.cursors, error: undefined, isTurning: true }),
  );
  const latest = useRef({ state, wanted: state.cursors, isGone: false, stop: new AbortController() });
  latest.current.state = state;

  const load = async (/** @type {(string | null)[]} */ cursors) => {
    if (latest.current.isGone) return;
    latest.current.stop.abort();
    latest.current.wanted = cursors;
    const stop = new AbortController();
    latest.current.stop = stop;
    try {
      const shown = await asked(view, cursors, stop.signal);
      if (stop.signal.aborted) return;
      if (shown.items.length === 0 && cursors.length > 1) return void load(cursors.slice(0, -1));
      trail.cursors = cursors;
      trail.shown = shown.items.map(({ accountId, id }) => ({ accountId, id }));
      setState({ shown, cursors, error: undefined, isTurning: false });
    } catch (error) {
      if (stop.signal.aborted) return;
      latest.current.wanted = latest.current.state.cursors;
      setState((before) => ({ ...before, error, isTurning: false }));
    }
  };
  const refresh = () => load(latest.current.wanted);
  const turn = (/** @type {(string | null)[]} */ cursors) => {
    setState((before) => ({ ...before, isTurning: true }));
    void load(cursors);
  };
  useEffect(() => {
    void refresh();
    return () => {
      latest.current.stop.abort();
      latest.current.isGone = true;
    };
  }, []);
  useChanges(refresh, { on: about("message", view.accountId), every: EVERY });

  /** Change the shown messages before the server responds. @param {(items: Message[]) => Message[]} change */
  const change = (change) => {
    latest.current.stop.abort(); // a running request would bring the old state
    setState((before) =>
      before.shown ? { ...before, shown: { ...before.shown, items: change(before.shown.items) } } : before,
    );
  };
  const { cursors, shown } = state;
  const next = shown?.nextCursor ?? null;
  return {
    ...state,
    trail,
    number: cursors.length,
    next: next === null ? null : () => turn([...cursors, next]),
    previous: cursors.length < 2 ? null : () => turn(cursors.slice(0, -1)),
    refresh,
    change,
  };
}

/** @typedef {ReturnType<typeof useListing>} Listing */

/** @param {import("./view.js").View} view @param {(string | null)[]} cursors @param {AbortSignal} signal @returns {Promise<Shown>} */
async function asked(view, cursors, signal) {
  const [path, query] = requestOf(view);
  const cursor = cursors.at(-1);
  return whole(path, { ...query, limit: LIMIT, cursor }, signal);
}

// --- The rows of the message list ---

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
function addressOf({ accountId, id, folder }) {
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
