// @ts-check
/** The message list with selection, actions and keyboard shortcuts. */
import { ApiError } from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { useShortcuts } from "../../shortcuts.js";
import { Choice } from "../../ui/form.js";
import { Busy, Empty, Pager, Problem } from "../../ui/load.js";
import { number } from "../../words.js";
import { changed, isMeant, Labels, leaves, Move, perform, takeBack, tell } from "./actions.js";
import { focusedId, focusRow, Rows, useKeptFocus, useListing } from "./listing.js";
import { EVERYWHERE, hrefOf, SHOWS } from "./view.js";

/** @typedef {import("./listing.js").Message} Message */
/** @typedef {import("./view.js").View} View */

/** @param {{view: View, place: string, accounts: import("../../accounts.js").Account[], onChanged: () => void}} props */
export function Messages({ view, place, accounts, onChanged }) {
  const listing = useListing(view);
  const items = listing.shown?.items ?? [];
  const selection = useSelection(items, listing.number);
  const [asking, setAsking] = useState(/** @type {{what: "move" | "labels", messages: Message[]} | null} */ (null));
  const { act, undo, pending } = useActions(view, listing, selection, onChanged);
  const meant = () =>
    selection.map.size ? [...selection.map.values()] : items.filter((one) => one.id === focusedId());
  const ask = (/** @type {"move" | "labels"} */ what) => setAsking({ what, messages: meant() }); // the dialog takes the focus
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useKeys({ items, meant, act, undo, selection, listing, ask });
  useReturn(listing, list);
  if (!listing.shown)
    return listing.error === undefined ? html`<${Busy} what="the messages" />` : html`<${Refused} of=${listing} />`;
  const chosen = (
    /** @type {string} */ action,
    /** @type {import("./actions.js").More} */ more,
    /** @type {string | undefined} */ where,
  ) => {
    setAsking(null);
    void act(action, asking?.messages ?? [], more, where);
  };
  const opened = (/** @type {Message} */ one) => {
    listing.trail.at = one.id;
  };
  const mailboxOf = (/** @type {Message} */ { accountId }) =>
    view.accountId === null ? (accounts.find((one) => one.id === accountId)?.email ?? null) : null;
  return html`<div ref=${list} class="list">
    <${Refused} of=${listing} />
    ${listing.shown.warnings.map((one) => html`<p key=${one} class="muted"><small>${one}</small></p>`)}
    <${Toolbar} view=${view} listing=${listing} selected=${selection.map} onAll=${selection.toggleAll} isBusy=${pending.size > 0}
      onAct=${(/** @type {string} */ action) => act(action, meant())} onAsk=${ask} />
    ${
      items.length
        ? html`<${Rows} messages=${items} view=${view} selected=${selection.ids} pending=${pending} onSelect=${selection.toggle}
          onAct=${act} onOpen=${opened} mailboxOf=${mailboxOf} />`
        : html`<${Nothing} view=${view} place=${place} />`
    }
    <${Pager} of=${listing} label="Pages of messages" />
    ${asking && html`<${asking.what === "move" ? Move : Labels} messages=${asking.messages} onClose=${() => setAsking(null)} onChosen=${chosen} />`}
  </div>`;
}

/** The error of the list. An invalid search has its own message and no retry. @param {{of: import("./listing.js").Listing}} props */
function Refused({ of: { error, refresh } }) {
  const [wrong] = error instanceof ApiError && error.code === "invalid_request" ? error.details : [];
  return html`<${Problem} error=${wrong?.message ?? error} again=${wrong ? undefined : refresh} />`;
}

/** @param {{view: View, place: string}} props */
function Nothing({ view, place }) {
  if (view.q)
    return html`<${Empty} title="No messages match">
      <p>Search finds whole words. Add * to match the beginning of words. See “Search tips”.</p>
    <//>`;
  if (view.show !== "all")
    return html`<${Empty} title=${`No such messages in ${place}`}><a href=${hrefOf({ ...view, show: "all" })}>Show all messages</a><//>`;
  return html`<${Empty} title=${`${place} is empty`}>
    <p>${view.folder === "inbox" && "New mail appears here automatically. "}${view.folder !== EVERYWHERE && html`<a href=${hrefOf({ ...view, folder: EVERYWHERE })}>Show all mail</a>`}</p><//>`;
}

/**
 * @param {View} view
 * @param {import("./listing.js").Listing} listing
 * @param {ReturnType<typeof useSelection>} selection
 * @param {() => void} onChanged
 */
function useActions(view, listing, selection, onChanged) {
  const [pending, setPending] = useState(/** @type {Set<string>} */ (new Set()));
  const back = useRef(/** @type {(() => void) | undefined} */ (undefined));
  const keepFocus = useKeptFocus(listing.shown?.items);

  const run = async (/** @type {import("./actions.js").Step} */ step) => {
    setPending(new Set(step.messages.map((one) => one.id)));
    const outcome = await perform(step);
    setPending(new Set());
    const ids = new Set(outcome.succeeded.map((one) => one.id));
    const isGone =
      leaves(step.action) && (view.folder !== EVERYWHERE || step.action === "trash" || step.action === "delete");
    if (isGone) listing.change((items) => items.filter((one) => !ids.has(one.id)));
    else listing.change((items) => items.map((one) => (ids.has(one.id) ? changed(step)(one) : one)));
    if (leaves(step.action)) selection.drop(ids);
    void listing.refresh();
    onChanged();
    return outcome;
  };
  const act = async (
    /** @type {string} */ action,
    /** @type {Message[]} */ messages,
    /** @type {import("./actions.js").More} */ more = {},
    /** @type {string} */ where = "",
  ) => {
    const first = messages[0];
    const step = { action, messages, more };
    if (!first || pending.size || !(await isMeant(step))) return;
    keepFocus(first.id);
    const outcome = await run(step);
    const { undo: taken } = outcome;
    const undo = () => {
      close?.();
      if (back.current === undo) back.current = undefined;
      if (taken) void takeBack(taken, run);
    };
    const close = tell(step, outcome, { where, undo: taken && undo });
    if (close) back.current = taken && undo;
  };
  return { act, undo: () => back.current?.(), pending };
}

/**
 * @param {{items: Message[], meant: () => Message[], act: (action: string, messages: Message[]) => void, undo: () => void,
 *   selection: ReturnType<typeof useSelection>, listing: import("./listing.js").Listing, ask: (what: "move" | "labels") => void}} parts
 */
function useKeys(parts) {
  const now = useRef(parts);
  now.current = parts;
  const step = (/** @type {number} */ by) => {
    const { items, listing } = now.current;
    const at = items.findIndex((one) => one.id === (focusedId() ?? listing.trail.at));
    focusRow(items[at < 0 ? 0 : Math.min(Math.max(at + by, 0), items.length - 1)]?.id);
  };
  const act = (/** @type {(one: Message[]) => string} */ choose) => () => {
    const messages = now.current.meant();
    if (messages.length) now.current.act(choose(messages), messages);
  };
  const ask = (/** @type {"move" | "labels"} */ what) => () =>
    void (now.current.meant().length && now.current.ask(what));
  useShortcuts(
    {
      j: ["Next message", () => step(1)],
      k: ["Previous message", () => step(-1)],
      x: ["Select message", () => now.current.selection.toggleId(focusedId())],
      a: ["Select all on this page", () => now.current.selection.toggleAll()],
      e: ["Archive", act(() => "archive")],
      "#": ["Move to trash", act(() => "trash")],
      s: ["Add or remove star", act((those) => (those.some((one) => !one.flags.starred) ? "star" : "unstar"))],
      u: ["Mark as read or unread", act((those) => (those.some((one) => !one.flags.read) ? "markRead" : "markUnread"))],
      m: ["Move to a folder", ask("move")],
      l: ["Labels", ask("labels")],
      z: ["Undo", () => now.current.undo()],
      n: ["Older messages", () => now.current.listing.next?.()],
      p: ["Newer messages", () => now.current.listing.previous?.()],
    },
    [],
  );
}

/**
 * Focus the last opened message on return to the list; scroll to the top after a page change.
 * @param {import("./listing.js").Listing} listing
 * @param {{current: HTMLElement | null}} list
 */
function useReturn(listing, list) {
  const seen = useRef(0);
  useEffect(() => {
    if (!listing.shown || listing.isTurning) return;
    const isTurned = seen.current !== 0 && seen.current !== listing.number;
    if (seen.current === 0 && listing.trail.at) focusRow(listing.trail.at);
    seen.current = listing.number;
    if (!isTurned) return;
    const isBelow = document.activeElement?.closest(".pager") || document.activeElement === document.body;
    if (isBelow) focusRow(listing.shown.items[0]?.id);
    list.current?.scrollIntoView({ block: "start" });
  }, [listing.shown, listing.number, listing.isTurning]);
}

// --- The bar above the list: a filter, or the actions for the selected messages ---

/**
 * @typedef {object} Acting
 * @property {(action: string) => void} onAct
 * @property {(what: "move" | "labels") => void} onAsk
 * @property {boolean} isBusy
 */

/**
 * @param {{view: import("./view.js").View, listing: import("./listing.js").Listing, selected: Map<string, Message>,
 *   onAll: () => void} & Acting} props
 */
function Toolbar({ view, listing, selected, onAll, onAct, onAsk, isBusy }) {
  const items = listing.shown?.items ?? [];
  const here = items.filter((one) => selected.has(one.id)).length;
  const isAll = items.length > 0 && here === items.length;
  const elsewhere = selected.size - here;
  return html`<div class=${`toolbar ${selected.size ? "chosen" : ""}`}>
    <label>
      <input type="checkbox" checked=${isAll} indeterminate=${here > 0 && !isAll} disabled=${items.length === 0}
        onChange=${onAll} aria-label="Select all on this page" />
      <span role="status">${selected.size > 0 && `${number(selected.size)} selected${elsewhere ? ` (${elsewhere} not on this page)` : ""}`}</span>
    </label>
    ${
      selected.size > 0
        ? html`<${Actions} messages=${[...selected.values()]} onAct=${onAct} onAsk=${onAsk} isBusy=${isBusy} />`
        : html`<${Show} view=${view} />`
    }
    <button type="button" class="secondary outline small" aria-label="Refresh" onClick=${listing.refresh}>↻</button>
  </div>`;
}

/** @param {{view: import("./view.js").View}} props */
function Show({ view }) {
  const choose = (/** @type {string} */ show) => {
    location.hash = hrefOf({ ...view, show });
  };
  return html`<${Choice} label="Show" value=${view.show} onChoose=${choose}
    options=${Object.entries(SHOWS).map(([show, [label]]) => [show, label])} />`;
}

/** @param {{messages: Message[]} & Acting} props */
function Actions({ messages, onAct, onAsk, isBusy }) {
  const areIn = (/** @type {string} */ role) => messages.every((one) => one.folder?.role === role);
  const isTrash = areIn("trash");
  const hasUnread = messages.some((one) => !one.flags.read);
  const hasPlain = messages.some((one) => !one.flags.starred);
  /** @type {(label: string, does: string | (() => void), key?: string) => any} */
  const button = (label, does, key = label) =>
    html`<button key=${key} type="button" class="secondary outline small" aria-disabled=${isBusy}
      onClick=${typeof does === "string" ? () => onAct(does) : does}>${label}</button>`;
  return html`<div class="actions">
    ${!areIn("archive") && !isTrash && button("Archive", "archive")}
    ${isTrash ? [button("Move out of trash", "untrash"), button("Delete permanently", "delete")] : button("Move to trash", "trash")}
    ${hasUnread ? button("Mark as read", "markRead", "read") : button("Mark as unread", "markUnread", "read")}
    ${hasPlain ? button("Star", "star", "star") : button("Remove star", "unstar", "star")}
    ${button("Move…", () => onAsk("move"))}
    ${button("Labels…", () => onAsk("labels"))}
  </div>`;
}

// --- The selected messages of one page, kept across refreshes ---

/** @param {Message[]} items of the page @param {number} page its number; a new page starts without a selection */
function useSelection(items, page) {
  const [map, setMap] = useState(/** @type {Map<string, Message>} */ (new Map()));
  const last = useRef(/** @type {string | null} */ (null));
  useEffect(() => setMap(new Map()), [page]);
  // Selected messages are updated by a refresh, and stay selected if it moves them to the next page.
  const current = new Map([...map].map(([id, old]) => [id, items.find((one) => one.id === id) ?? old]));

  const toggle = (/** @type {Message} */ message, isRange = false) => {
    const next = new Map(current);
    const between = isRange ? range(items, last.current, message.id) : [message];
    const isOn = !current.has(message.id);
    for (const one of between) isOn ? next.set(one.id, one) : next.delete(one.id);
    last.current = message.id;
    setMap(next);
  };
  return {
    map: current,
    ids: new Set(current.keys()),
    toggle,
    toggleId: (/** @type {string | null} */ id) => {
      const found = items.find((one) => one.id === id);
      if (found) toggle(found);
    },
    toggleAll: () => {
      const isAll = items.every((one) => current.has(one.id));
      setMap(new Map(isAll ? [] : items.map((one) => [one.id, one])));
    },
    /** Deselect messages that left the folder. @param {Set<string>} gone */
    drop: (gone) => setMap((before) => new Map([...before].filter(([id]) => !gone.has(id)))),
  };
}

/** @param {Message[]} items @param {string | null} from @param {string} to */
function range(items, from, to) {
  const [one, other] = [from, to].map((id) => items.findIndex((item) => item.id === id));
  if (one === undefined || other === undefined || one < 0) return items.filter((item) => item.id === to);
  return items.slice(Math.min(one, other), Math.max(one, other) + 1);
}
