// @ts-check
/** The progress of saving and sending a message. The page of the delivery shows the outcome. */
import * as api from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { go, to } from "../../router.js";
import { useShared } from "../../shared.js";
import { refresh } from "../../status.js";
import { Dialog, sure } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded, Problem, useLoad } from "../../ui/load.js";
import { Facts, Progress, Warnings } from "../../ui/values.js";
import * as words from "../../words.js";
import { reason } from "../deliveries/wording.js";
import { people } from "./recipients.js";
import { isInUse, leftOut } from "./saving.js";

const SHOWN_WITHIN = 120_000; // milliseconds; the API lists a delivery only after its first response, after at most 25 s

/** The save status of the message. @param {{saving: import("./saving.js").Saving}} props */
export function SaveState({ saving }) {
  const { kind, error } = useShared(saving.state);
  const left = kind === "saved" && leftOut(saving.values);
  return html`<span role="status" class="muted">${kind === "lost" ? html`<${Lost} saving=${saving} error=${error} />` : WORDS[kind]}${left && ` without ${left}`}
    ${kind === "failed" && html` <span class="wrong">${/** @type {any} */ (error).message}</span>`}</span>`;
}

/** @type {Record<string, string>} */
const WORDS = {
  changed: "Not saved yet",
  busy: "Saving…",
  saved: "Saved in Drafts",
  failed: "Not saved.",
};

/** A link to one delivery, or to all deliveries of a mailbox. @param {{accountId: string, id?: string | null, children?: any}} props */
function Deliveries({ accountId, id, children = "Show the delivery" }) {
  return html`<a href=${to(`/deliveries/${accountId}${id ? `/${id}` : ""}`)}>${children}</a>`;
}

/** @param {{saving: import("./saving.js").Saving, error: unknown}} props */
function Lost({ saving, error }) {
  const id = isInUse(error);
  const accountId = saving.values.accountId;
  if (id)
    return html`This draft is being sent, is scheduled, or may have been sent. <${Deliveries} accountId=${accountId} id=${id} />`;
  const keep = () => void saving.saveAsNew().catch(() => undefined);
  return html`This draft is no longer being saved: ${error instanceof Error && error.message} It may have been sent, changed or deleted in another program. Check <${Deliveries} accountId=${accountId}>Deliveries<//> before you send it as a new message.${" "}
    <button type="button" class="secondary outline small" onClick=${keep}>Save as a new draft</button>`;
}

/**
 * @param {{sending: import("./sending.js").Sending, accountId: string, goOn?: () => void}} props
 *   `goOn`: opens the message, if the page does not show it
 */
export function Handing({ sending, accountId, goOn }) {
  const { kind, error, isUnsaved, isStranger, delivery, warnings } = useShared(sending.state);
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (kind !== "idle") element.current?.focus();
    if (!sending.isOver || !delivery) return;
    void refresh();
    go(`/deliveries/${delivery.accountId}/${delivery.operationId}`, {}, { replace: true });
  }, [kind]);
  const id = isInUse(error);
  return html`<div ref=${element} class="handing" tabindex="-1">
    ${kind === "busy" && html`<div role="status"><${Progress} label="Sending…" /></div>`}
    ${
      kind === "refused" &&
      html`<${Problem} error=${error} /><p>${
        id
          ? html`It will not be sent a second time. <${Deliveries} accountId=${accountId} id=${id} />`
          : `${isUnsaved ? "The draft could not be saved, so the message was not sent." : "This attempt sent nothing."}${goOn ? "" : " Your text is still here."}`
      }</p>`
    }
    ${kind === "unknown" && html`<${Unknown} sending=${sending} accountId=${accountId} isStranger=${isStranger} error=${error} goOn=${goOn ?? (() => sending.reset())} />`}
    ${
      kind === "answered" &&
      delivery?.status === "failed" &&
      html`<div class="problem" role="alert"><p><strong>The message was not sent. Nobody received it.</strong> ${reason(/** @type {any} */ (delivery))}</p>
        <${Warnings} of=${warnings} />
        <p>Your text is still here. Correct it, then send it again. <${Deliveries} accountId=${accountId} id=${delivery.operationId} /></p></div>`
    }
    ${goOn && (kind === "refused" || kind === "answered") && html`<button type="button" onClick=${goOn}>Open the message</button>`}
  </div>`;
}

/** @param {{sending: import("./sending.js").Sending, accountId: string, isStranger?: boolean, error: unknown, goOn: () => void}} props */
function Unknown({ sending, accountId, isStranger, error, goOn }) {
  const [isHeld, setHeld] = useState(true);
  useEffect(() => {
    const over = (sending.attempt?.at ?? 0) + SHOWN_WITHIN;
    const timer = setTimeout(() => setHeld(false), Math.min(over - Date.now(), SHOWN_WITHIN));
    return () => clearTimeout(timer);
  }, [isStranger]);
  const anew = async () => {
    const question = {
      title: "Keep editing?",
      text: "If the first attempt succeeded, sending again delivers it twice. Check Deliveries first.",
      action: "Keep editing",
      danger: true,
    };
    if (await sure(question)) goOn();
  };
  return html`<div class="problem" role="alert"><p><strong>It is unknown whether this message was sent.</strong> ${error instanceof Error && error.message}</p>
    ${
      isStranger
        ? html`<p>The page was reloaded or your session ended, so a retry cannot be matched to the first attempt.
            Check <${Deliveries} accountId=${accountId}>Deliveries<//>: an accepted message appears within two minutes. You can keep editing after that.</p>
          <button type="button" class="secondary" disabled=${isHeld} onClick=${anew}>Keep editing…</button>`
        : html`<p>A retry repeats the same request. If the message was already accepted, it is not sent a second time.</p>
          <div class="actions"><button type="button" onClick=${() => sending.again()}>Retry</button>
            ${sending.request?.isDraft && html`<button type="button" class="secondary outline" onClick=${goOn}>Keep editing</button>`}</div>`
    }</div>`;
}

/** The question before the page is left, if there is one. @param {import("./sending.js").Sending} sending @param {boolean} isUnsaved */
export function whyStay(sending, isUnsaved) {
  if (sending.isOpen) return "It is unknown whether your message was sent. Leave this page anyway?";
  return isUnsaved && !sending.isOver ? "Your latest changes are not saved yet. Leave this page anyway?" : null;
}

// --- The preview of a message as the API prepared it, and the choice of a time ---

/**
 * @param {{prepare: () => Promise<{path: string, body: any}>, onClose: () => void, onSend: (digest: string) => void}} props
 *   `prepare`: saves the message and returns the path and body that send it; `onSend`: sends exactly what is shown
 */
export function Preview({ prepare, onClose, onSend }) {
  const loading = useLoad(async () => {
    const { path, body } = await prepare();
    return api.ask("POST", `${path}/preview`, { body });
  }, []);
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
          <button type="button" onClick=${() => onSend(data.previewDigest)}>Send</button>
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
