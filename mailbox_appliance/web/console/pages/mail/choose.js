// @ts-check
/** The dialogs of two actions: the target folder, and the labels. */
import { at, get } from "../../api.js";
import { html, useEffect, useId, useState } from "../../html.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { count } from "../../words.js";
import { byAccount } from "./actions.js";
import { inOrder, ROLES } from "./view.js";

/** @typedef {import("./listing.js").Message} Message */
/** @typedef {(action: string, more: import("./actions.js").More, where?: string) => void} Chosen */

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
