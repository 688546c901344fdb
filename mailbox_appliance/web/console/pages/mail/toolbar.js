// @ts-check
/** The actions of a message as buttons and keyboard shortcuts. */
import { useAccounts } from "../../accounts.js";
import { at } from "../../api.js";
import { html, useState } from "../../html.js";
import { go, to } from "../../router.js";
import { useShortcuts } from "../../shortcuts.js";
import { Badge } from "../../ui/values.js";
import { changed, isMeant, Labels, leaves, Move, perform, takeBack, tell } from "./actions.js";
import { listHref } from "./view.js";

/** @typedef {import("./listing.js").Message} Message */

/**
 * Perform an action on a message. Show a notice with undo if the message moves or the action fails.
 * @param {Message} message
 * @param {string} action
 * @param {{more?: import("./actions.js").More, where?: string, onUndone?: () => void}} [how]
 * @returns {Promise<((message: Message) => Message) | null>} the change to the shown message; null if nothing was done
 */
export async function act(message, action, { more, where, onUndone } = {}) {
  const step = { action, messages: [message], ...(more && { more }) };
  if (!(await isMeant(step))) return null;
  const outcome = await perform(step);
  const { undo: back } = outcome;
  const undo = async () => {
    if (back) await takeBack(back);
    onUndone?.();
  };
  if (leaves(action) || !outcome.succeeded.length)
    tell(step, outcome, { where, undo: back ? () => void undo() : undefined });
  return outcome.succeeded.length ? changed(step) : null;
}

/** @param {{message: Message, onChanged: (change: (message: Message) => Message) => void, onGone: () => void, hasKeys?: boolean}} props */
export function Toolbar({ message, onChanged, onGone, hasKeys = false }) {
  const [asking, setAsking] = useState(/** @type {"move" | "labels" | null} */ (null));
  const account = useAccounts().data?.find((one) => one.id === message.accountId);
  const { id, accountId, flags, folder, labels = [] } = message;
  const does = async (
    /** @type {string} */ action,
    /** @type {import("./actions.js").More} */ more = {},
    /** @type {string | undefined} */ where = undefined,
  ) => {
    setAsking(null);
    const change = await act(message, action, { more, where, onUndone: onGone });
    if (change === null) return;
    if (leaves(action)) onGone();
    else onChanged(change);
  };
  /** @type {[label: string, press: () => void, key?: string][]} */
  const buttons = [];
  const write = (/** @type {string} */ label, /** @type {Record<string, string | number>} */ what, key = "") =>
    buttons.push([label, () => go("/compose", { ...what, account: accountId }), key]);
  const doing = (/** @type {string} */ label, /** @type {string} */ action, key = "") =>
    buttons.push([label, () => void does(action), key]);
  if (flags.draft && folder?.role === "drafts") write("Edit draft", { draft: id });
  else {
    write("Reply", { reply: id }, "r");
    write("Reply all", { reply: id, replyAll: 1 }, "a");
    write("Forward", { forward: id }, "f");
  }
  if (folder?.role === "trash") {
    doing("Move out of trash", "untrash");
    doing("Delete permanently", "delete");
  } else {
    if (folder?.role !== "archive" && !flags.draft) doing("Archive", "archive", "e");
    doing("Move to trash", "trash", "#");
  }
  buttons.push(["Move…", () => setAsking("move"), "m"]);
  if (account?.capabilities.labels) buttons.push(["Labels…", () => setAsking("labels"), "l"]);
  if (flags.starred) doing("Remove star", "unstar", "s");
  else doing("Star", "star", "s");
  if (flags.read) doing("Mark as unread", "markUnread", "u");
  else doing("Mark as read", "markRead", "u");
  const keys = buttons.flatMap(([label, press, key]) => (hasKeys && key ? [[key, [label, press]]] : []));
  useShortcuts(Object.fromEntries(keys), [message, hasKeys, account]);
  return html`<div class="actions mail-actions" role="toolbar" aria-label="Message actions">
      ${buttons.map(
        ([label, press], index) => html`<button key=${label} type="button"
        class=${`small ${index === 0 ? "" : "secondary outline"}`} onClick=${press}>${label}</button>`,
      )}
      ${asking && html`<${asking === "move" ? Move : Labels} messages=${[message]} onClose=${() => setAsking(null)} onChosen=${does} />`}
    </div>
    <p class="mail-labels">${labels.map((one) => html`<${Badge} key=${one}>${one}<//>`)}</p>`;
}

/** The link back to the list. */
export function BackToList() {
  return html`<p class="mail-back"><a href=${listHref()}>← Back to list</a></p>`;
}

/** @param {Message & {threadId: string}} message */
export function threadHref(message) {
  return to(at`/threads/${message.accountId}/${message.threadId}`);
}
