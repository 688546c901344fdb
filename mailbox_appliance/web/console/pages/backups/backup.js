// @ts-check
/** The description of a backup and its contents. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { useLoad } from "../../ui/load.js";
import { Badge, Facts, Progress } from "../../ui/values.js";
import * as words from "../../words.js";

/**
 * @typedef {object} Backup
 * @property {string} id
 * @property {string} fileName
 * @property {string} createdAt
 * @property {"manual" | "daily" | "migration" | "pre-restore"} reason
 * @property {string} version the release that created it
 * @property {number} sizeBytes
 * @property {boolean} passphraseProtected
 * @property {boolean} verified
 */
/** @typedef {{ok: boolean, createdAt: string, format: number, version: string, members: number, accounts: number, messages: number}} Summary */

const REASONS = {
  manual: "Manual backup",
  daily: "Daily backup",
  migration: "Before an upgrade",
  "pre-restore": "Before a restore",
};

/** Return when a backup was created: "3 Jun 2026, 10:12". @param {{createdAt: string}} backup */
export function moment(backup) {
  return words.exactTime(backup.createdAt);
}

/** The kind, date, size and protection of a backup. @param {{backup: Backup}} props */
export function About({ backup }) {
  return html`<div>
    <strong>${REASONS[backup.reason]}</strong>, ${moment(backup)} <small class="muted">(${words.ago(backup.createdAt)})</small>
    <div><small>${words.size(backup.sizeBytes)}, version ${backup.version}</small> <${Badge} kind=${backup.verified ? "good" : "bad"}>${backup.verified ? "Verified" : "Damaged"}<//> <${Badge}>${backup.passphraseProtected ? "Passphrase" : "No passphrase"}<//></div>
    <small class="muted">${backup.fileName}</small>
  </div>`;
}

/** The contents of a backup, after it was verified. @param {{summary: Summary}} props */
export function Contents({ summary }) {
  return html`<${Facts} of=${[
    ["Created", moment(summary)],
    ["Members", words.number(summary.members)],
    ["Mailboxes", words.number(summary.accounts)],
    ["Messages", words.number(summary.messages)],
    ["Version", `${summary.version}, store format ${summary.format}`],
  ]} />`;
}

/**
 * The form that reads a whole backup. `found` gets its contents, the passphrase, and the duration in milliseconds.
 * @param {{backup: Backup, action: string, path: string, body?: object, found: (summary: Summary, passphrase: string, took: number) => void}} props
 */
export function Look({ backup, action, path, body, found }) {
  const form = useForm({ passphrase: "" }, async ({ passphrase }) => {
    const began = performance.now();
    const summary = await api.post(path, { ...body, ...(passphrase && { passphrase }) });
    found(summary, passphrase, performance.now() - began);
  });
  return html`<p>The appliance reads and checks the whole backup. <strong>Nothing is changed.</strong></p>
    <${Form} of=${form} action=${action} busy="Reading the backup…" label=${action}>
      ${
        backup.passphraseProtected &&
        html`<${Field} of=${form} name="passphrase" label="Backup passphrase" type="password" autocomplete="off"
          hint="The passphrase set when the backup was created." />`
      }
      ${form.isBusy && html`<${Working} label="Reading the backup" />`}
    <//>`;
}

// --- The progress of a maintenance task. Only one runs at a time, and GET /status reports it ---

const EVERY = 700; // milliseconds

/** @typedef {{kind: string, work: string, step: string, done: number, total: number}} Underway */

/** The progress bar of the running task. @param {{label: string}} props its name, such as "Creating the backup" */
export function Working({ label }) {
  const { data } = useLoad((signal) => api.get("/status", {}, signal), [], { every: EVERY });
  return html`<${Bar} label=${label} now=${data?.store.progress} />`;
}

/** @param {{label: string, now?: Underway}} props */
export function Bar({ label, now }) {
  const step = now?.step ? `: ${now.step}` : "";
  return html`<${Progress} label=${`${label}${step}`} done=${now?.done} total=${now?.total} />`;
}
