// @ts-check
/** Actions on messages: one request per mailbox, a result for each message, and an undo. */
import { ask, at, get } from "../../api.js";
import { html, useEffect, useId, useState } from "../../html.js";
import { Dialog, sure } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { done, failed, warn } from "../../ui/notices.js";
import { count, list } from "../../words.js";
import { inOrder, ROLES } from "./view.js";

/** @typedef {import("./listing.js").Message} Message */
/** @typedef {{folder?: string, labels?: string[]}} More */
/** @typedef {{succeeded: Message[], failed: {message: Message, code: string}[], uncertain: Message[], errors: unknown[], undo?: Step}} Outcome `undo`: the step that undoes the action, if it can be undone */
/** @typedef {{action: string, more?: More, messages: Message[], tokens?: Map<string, string>}} Step `tokens`: those of an undo, by mailbox */

/** The participle of each action. @type {Record<string, string>} */
const KNOWN = {
  markRead: "marked as read",
  markUnread: "marked as unread",
  star: "starred",
  unstar: "no longer starred",
  archive: "archived",
  trash: "moved to the trash",
  untrash: "moved out of the trash",
  delete: "deleted permanently",
  move: "moved",
  addLabels: "labeled",
  removeLabels: "unlabeled",
  undo: "restored",
};
/** @type {Record<string, string>} */
const REASONS = {
  not_found: "no longer there",
  changed: "changed since",
  identity_changed: "changed on the mail server",
  folder_not_found: "the folder no longer exists",
  label_invalid: "the mail server rejects this label",
  unsupported_capability: "the mail server cannot do this",
  provider_rejected: "the mail server rejected it",
  provider_unavailable: "the mail server was unavailable",
};

/**
 * Perform an action. An error in one mailbox does not stop the others.
 * @param {Step} step
 * @returns {Promise<Outcome>}
 */
export async function perform({ action, messages, more, tokens }) {
  /** @type {Outcome} */
  const outcome = { succeeded: [], failed: [], uncertain: [], errors: [] };
  /** @type {Map<string, string>} */
  const undos = new Map();
  for (const [accountId, those] of byAccount(messages)) {
    const known = new Map(those.map((one) => [one.id, one]));
    const of = (/** @type {string[]} */ ids) => ids.flatMap((id) => known.get(id) ?? []);
    const path = at`/accounts/${accountId}/messages/actions`;
    try {
      const { data, undo } = tokens
        ? await ask("POST", `${path}/undo`, { body: { token: tokens.get(accountId) } })
        : await ask("POST", path, { body: { action, messageIds: [...known.keys()], ...more } });
      outcome.succeeded.push(...of(data.succeededIds));
      outcome.uncertain.push(...of(data.uncertainIds));
      for (const { messageId, code } of data.failed)
        outcome.failed.push(...of([messageId]).map((message) => ({ message, code })));
      if (undo) undos.set(accountId, undo.token);
    } catch (error) {
      outcome.errors.push(error);
    }
  }
  const restorable = outcome.succeeded.filter((one) => undos.has(one.accountId));
  if (restorable.length) outcome.undo = { action: "undo", messages: restorable, tokens: undos };
  return outcome;
}

/** @param {Message[]} messages @returns {Map<string, Message[]>} */
function byAccount(messages) {
  return Map.groupBy(messages, (one) => one.accountId);
}

/** Undo an action and show the result. @param {Step} step @param {(step: Step) => Promise<Outcome>} [run] */
export async function takeBack(step, run = perform) {
  tell(step, await run(step), {});
}

/** Ask before an action that cannot be undone. @param {Step} step */
export function isMeant({ action, messages: { length } }) {
  if (action !== "delete") return true;
  const title = `Delete ${length === 1 ? "this message" : `these ${length} messages`} permanently?`;
  const text = `${length === 1 ? "It is" : "They are"} also deleted on the mail server. This cannot be undone.`;
  return sure({ title, text, action: "Delete permanently", danger: true });
}

/** Return the change of a message by an action that keeps it in its folder. @param {Step} step @returns {(message: Message) => Message} */
export function changed({ action, more }) {
  const given = more?.labels ?? [];
  /** @type {Record<string, (message: Message) => Partial<Message>>} */
  const changes = {
    markRead: ({ flags }) => ({ flags: { ...flags, read: true } }),
    markUnread: ({ flags }) => ({ flags: { ...flags, read: false } }),
    star: ({ flags }) => ({ flags: { ...flags, starred: true } }),
    unstar: ({ flags }) => ({ flags: { ...flags, starred: false } }),
    addLabels: ({ labels = [] }) => ({ labels: [...new Set([...labels, ...given])] }),
    removeLabels: ({ labels = [] }) => ({ labels: labels.filter((one) => !given.includes(one)) }),
  };
  return (message) => ({ ...message, ...changes[action]?.(message) });
}

/** Whether the action moves messages out of their folder. @param {string} action */
export function leaves(action) {
  return ["archive", "trash", "untrash", "delete", "move"].includes(action);
}

/**
 * Show the result of an action. `where`: the name of the target folder.
 * @param {Step} step
 * @param {Outcome} outcome
 * @param {{where?: string, undo?: () => void}} how
 * @returns {(() => void) | undefined} closes the notice
 */
export function tell({ action, more }, outcome, { where, undo }) {
  const participle = KNOWN[action] ?? action;
  const { succeeded, uncertain } = outcome;
  const to = where ? ` to ${where}` : more?.labels ? `: ${list(more.labels)}` : "";
  for (const error of outcome.errors) failed(error);
  if (outcome.failed.length)
    warn(`${count(outcome.failed.length, "message was", "messages were")} not ${participle}: ${reasons(outcome)}.`);
  if (uncertain.length)
    warn(
      `The connection ended before ${count(uncertain.length, "message was", "messages were")} confirmed as ${participle}. Check the messages that are still selected before you try again.`,
    );
  if (!succeeded.length) return undefined;
  const text = `${count(succeeded.length, "message")} ${participle}${to}.`;
  const close = done(
    html`${text} ${
      undo &&
      html`<button type="button" class="secondary outline small" onClick=${() => {
        close();
        undo();
      }}>Undo</button>`
    }`,
  );
  return close;
}

/** @param {Outcome} outcome */
function reasons(outcome) {
  const groups = Map.groupBy(outcome.failed, ({ code }) => REASONS[code] ?? code);
  return list([...groups].map(([reason, those]) => (groups.size > 1 ? `${reason} (${those.length})` : reason)));
}

// --- The dialogs of two actions: the target folder, and the labels ---

/** @typedef {(action: string, more: More, where?: string) => void} Chosen */

/** @param {{messages: Message[], onClose: () => void, onChosen: Chosen}} props */
export function Move({ messages, onClose, onChosen }) {
  const [accountId = "", another] = [...byAccount(messages).keys()];
  return html`<${Dialog} title=${`Move ${count(messages.length, "message")} to which folder?`} onClose=${onClose}>
    ${
      another
        ? html`<p>These messages are in several mailboxes. Select messages of one mailbox, then move them.</p>`
        : html`<${Targets} accountId=${accountId} messages=${messages} onChosen=${onChosen} />`
    }
  <//>`;
}

/** @param {{accountId: string, messages: Message[], onChosen: Chosen}} props */
function Targets({ accountId, messages, onChosen }) {
  const folders = useLoad((signal) => get(at`/accounts/${accountId}/folders`, {}, signal), [accountId]);
  const here = messages.every((one) => one.folder?.id === messages[0]?.folder?.id)
    ? messages[0]?.folder?.id
    : undefined;
  return html`<${Loaded} of=${folders} what="the folders">${(/** @type {import("./view.js").Folder[]} */ all) => {
    const others = inOrder(all).filter((one) => one.id !== here);
    return html`<ul class="targets">${others.map((one) => html`<li key=${one.id}><button type="button" class="secondary outline" onClick=${() => move(one, onChosen)}>${labelOf(one)}</button></li>`)}</ul>`;
  }}<//>`;
}

/** Move to a folder. The archive and the trash have separate actions. @param {import("./view.js").Folder} folder @param {Chosen} onChosen */
function move(folder, onChosen) {
  if (folder.role === "archive" || folder.role === "trash") onChosen(folder.role, {});
  else onChosen("move", { folder: folder.id }, labelOf(folder));
}

/** @param {import("./view.js").Folder} folder */
function labelOf(folder) {
  return (folder.role && ROLES[folder.role]) || folder.path;
}

/** @param {{messages: Message[], onClose: () => void, onChosen: Chosen}} props */
export function Labels({ messages, onClose, onChosen }) {
  const id = useId();
  const [known, setKnown] = useState(/** @type {string[]} */ ([]));
  const accountIds = [...byAccount(messages).keys()];
  useEffect(() => {
    Promise.all(accountIds.map((one) => get(at`/accounts/${one}/labels`))).then(
      (all) => setKnown([...new Set(all.flat().map((one) => one.name))]),
      () => {}, // these are only suggestions
    );
  }, []);
  const form = useForm({ label: "" }, async ({ label }) => {
    if (/[\s(){}%*"\\\]]/.test(label.trim()))
      throw new Error('A label must be one word without spaces or ( ) { } % * " \\ ].');
    if (label.trim()) onChosen("addLabels", { labels: [label.trim()] });
  });
  const had = [...new Set(messages.flatMap((one) => one.labels ?? []))];
  return html`<${Dialog} title=${`Change the labels of ${count(messages.length, "message")}?`} onClose=${onClose}>
    <${Form} of=${form} action="Add label" label="Add a label">
      <${Field} of=${form} name="label" label="Label" list=${id} autocomplete="off" autofocus hint="One word, for example “work”. New labels are created." />
      <datalist id=${id}>${known.map((name) => html`<option value=${name} />`)}</datalist>
    <//>
    ${
      had.length > 0 &&
      html`<h3>Remove a label</h3><ul class="targets">${had.map(
        (label) => html`<li key=${label}><button type="button" class="secondary outline"
      onClick=${() => onChosen("removeLabels", { labels: [label] })}>Remove “${label}”</button></li>`,
      )}</ul>`
    }
  <//>`;
}
