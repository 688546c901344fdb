// @ts-check
/** The preview of a message as the API prepared it, and the choice of a time. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { Facts, Warnings } from "../../ui/values.js";
import * as words from "../../words.js";
import { people } from "./addresses.js";

/**
 * @param {{accountId: string, prepare: () => Promise<any>, onClose: () => void, onSend: () => void}} props
 *   `prepare`: saves the message and returns the body of the request
 */
export function Preview({ accountId, prepare, onClose, onSend }) {
  const loading = useLoad(
    async () => api.ask("POST", api.at`/accounts/${accountId}/send/preview`, { body: await prepare() }),
    [],
  );
  return html`<${Dialog} title="Send this message?" wide onClose=${onClose}>
    <${Loaded} of=${loading} what="the preview">
      ${(/** @type {api.Answer} */ { data, warnings }) => html`
        <${Warnings} of=${warnings} />
        <p>This goes to <strong>${words.count(data.to.length + data.cc.length + data.bcc.length, "recipient")}</strong>.</p>
        <${Facts} of=${[
          ["From", data.from],
          ["To", people(data.to)],
          ["Cc", people(data.cc)],
          ["Bcc", data.bcc.length > 0 && `${people(data.bcc)} (hidden from other recipients)`],
          ["Subject", data.subject || "none"],
          ["Attachments", filesOf(data)],
        ]} />
        <footer>
          <button type="button" class="secondary" onClick=${onClose}>Keep editing</button>
          <button type="button" onClick=${onSend}>Send</button>
        </footer>`}
    <//>
  <//>`;
}

/** Return the names and sizes of attachments as text. @param {{attachments?: {filename: string, sizeBytes: number}[]}} message */
export function filesOf({ attachments = [] }) {
  return attachments.map((file) => `${file.filename} (${words.size(file.sizeBytes)})`).join(", ");
}

/** The dialog that asks for the time to send. @param {{onClose: () => void, onChosen: (sendAt: string) => void}} props `onChosen`: RFC 3339 */
export function Later({ onClose, onChosen }) {
  const form = useForm({ at: tomorrow() }, async ({ at }) => {
    if (!(new Date(at).getTime() > Date.now())) throw new Error("Choose a time in the future.");
    onChosen(new Date(at).toISOString());
  });
  return html`<${Dialog} title="Schedule this message?" onClose=${onClose}>
    <${Form} of=${form} action="Schedule" more=${html`<button type="button" class="secondary" onClick=${onClose}>Keep editing</button>`}>
      <${Field} of=${form} name="at" label="When" type="datetime-local" hint=${words.longTime(form.values.at)} />
      <p><small>You can cancel it under Scheduled until then. The appliance must be running at that time, or within the next 24 hours.</small></p>
    <//>
  <//>`;
}

/** Tomorrow at eight in local time, in the format of the field: to the minute, without a time zone. */
function tomorrow() {
  const at = new Date();
  at.setDate(at.getDate() + 1);
  at.setHours(8, 0, 0, 0);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
