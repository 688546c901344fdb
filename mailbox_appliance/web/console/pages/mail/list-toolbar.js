// @ts-check
/** The bar above the list: a filter, or the actions for the selected messages. */
import { html } from "../../html.js";
import { Choice } from "../../ui/choice.js";
import { number } from "../../words.js";
import { hrefOf, SHOWS } from "./view.js";

/** @typedef {import("./listing.js").Message} Message */
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
export function Toolbar({ view, listing, selected, onAll, onAct, onAsk, isBusy }) {
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
