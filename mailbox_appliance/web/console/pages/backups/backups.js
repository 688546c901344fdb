// @ts-check
/** The page of backups: the list, or the steps of a restore (`?restore=ID`). */
import * as api from "../../api.js";
import { at } from "../../api.js";
import { about } from "../../changes.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { to } from "../../router.js";
import { Dialog } from "../../ui/dialog.js";
import { Check, Field, Form, useForm } from "../../ui/form.js";
import { Empty, Loaded, Pager, usePages } from "../../ui/load.js";
import { done } from "../../ui/notices.js";
import { Progress, Title, Warnings } from "../../ui/values.js";
import * as words from "../../words.js";
import { About, Contents, Look, moment, Working } from "./backup.js";
import { Restore } from "./restore.js";

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  if (!query.restore) return html`<${Backups} />`;
  return html`<${Restore} key=${query.restore} backupId=${query.restore} after=${query.after ?? null} />`;
}

// --- The list of backups, newest first, with the actions for each ---

/** @typedef {import("./backup.js").Backup} Backup */
/** @typedef {{kind: "create", isSealed?: boolean} | {kind: "check" | "download", backup: Backup} | null} Open the open dialog */

function Backups() {
  const pages = usePages(load, [], { on: about("backup") });
  const [open, setOpen] = useState(/** @type {Open} */ (null));
  const [told, setTold] = useState(/** @type {string[]} */ ([])); // warnings about the newest backup
  const close = () => {
    setOpen(null);
    void pages.reload(); // a backup may have been added or found damaged
  };
  const made = (/** @type {string[]} */ warnings) => {
    setTold(warnings);
    close();
  };
  return html`<${Title} actions=${html`<button type="button" onClick=${() => setOpen({ kind: "create" })}>Create a backup</button>`}>Backups<//>
    <p>The appliance creates a backup every day (<a href=${to("/settings")}>settings</a>). Create one yourself before large changes, and keep copies on
      another computer.</p>
    <${Loaded} of=${pages} what="the backups">${(/** @type {any} */ page) => html`
      <${Warnings} of=${[...told, ...page.warnings]} />
      ${page.items.length === 0 && html`<${Empty} title="No backups yet."><p>Create the first one now.</p><//>`}
      <ul class="entries" aria-label="Backups">${page.items.map((/** @type {Backup} */ one) => html`<${Entry} key=${one.id} backup=${one} open=${setOpen} />`)}</ul>`}<//>
    <${Pager} of=${pages} label="Pages of backups" />
    <details>
      <summary>Adding and deleting backup files</summary>
      <p>Backups are files in the folder <code>backups</code> of the data directory. Files that you copy there are listed here. Only old daily backups are deleted automatically.</p>
    </details>
    ${open?.kind === "create" && html`<${CreateBackup} onClose=${close} onMade=${made} isSealed=${open.isSealed} />`}
    ${open?.kind === "check" && html`<${CheckBackup} backup=${open.backup} onClose=${close} />`}
    ${
      open?.kind === "download" &&
      html`<${DownloadBackup} backup=${open.backup} onClose=${close} onSeal=${() => setOpen({ kind: "create", isSealed: true })} />`
    }`;
}

/** @param {{cursor: string | null}} query @param {AbortSignal} signal */
async function load(query, signal) {
  return api.whole("/admin/backups", { ...query, limit: 20 }, signal);
}

/** @param {{backup: Backup, open: (one: Open) => void}} props */
function Entry({ backup, open }) {
  const act = (/** @type {string} */ verb, /** @type {"check" | "download"} */ kind) =>
    html`<button type="button" class="secondary outline small" aria-label=${`${verb} the backup of ${moment(backup)}`} onClick=${() => open({ kind, backup })}>${verb}</button>`;
  return html`<li>
    <${About} backup=${backup} />
    <div class="actions">
      ${act("Verify", "check")} ${act("Download", "download")}
      <a role="button" class="secondary outline small" aria-label=${`Restore the backup of ${moment(backup)}`} href=${to("/backups", { restore: backup.id })}>Restore…</a>
    </div>
  </li>`;
}

// --- The dialog that verifies a backup and shows its contents ---

/** @param {{backup: import("./backup.js").Backup, onClose: () => void}} props */
function CheckBackup({ backup, onClose }) {
  const [summary, setSummary] = useState(/** @type {import("./backup.js").Summary | null} */ (null));
  return html`<${Dialog} title=${`Verify the backup of ${moment(backup)}?`} onClose=${onClose}>
    ${
      summary === null
        ? html`<${Look} backup=${backup} action="Verify backup" path=${at`/admin/backups/${backup.id}/verify`} found=${setSummary} />`
        : html`<p role="status"><strong>The backup is ${summary.ok ? "intact" : "damaged"}.</strong></p><${Contents} summary=${summary} />
          <footer><button type="button" onClick=${onClose}>Close</button></footer>`
    }
  <//>`;
}

// --- The dialog that creates a backup, with or without a passphrase ---

/**
 * @param {{onClose: () => void, onMade: (warnings: string[]) => void, isSealed?: boolean}} props
 *   `onMade` gets the warnings; `isSealed`: with a passphrase
 */
function CreateBackup({ onClose, onMade, isSealed = false }) {
  const form = useForm({ isSealed, passphrase: "", again: "" }, async ({ isSealed, passphrase, again }) => {
    if (isSealed && passphrase !== again) throw different();
    const { data, warnings } = await api.ask("POST", "/admin/backups", { body: isSealed ? { passphrase } : {} });
    done("Backup complete. The backup was verified.");
    onMade(warnings.map((one) => `${data.fileName}: ${one}`));
  });
  const field = { of: form, type: "password", autocomplete: "new-password" };
  return html`<${Dialog} title="Create a backup?" onClose=${onClose}>
    <p>The appliance saves everything in one file and keeps running.</p>
    <${Form} of=${form} action="Create backup" busy="Creating the backup…" label="Create a backup">
      <${Check} of=${form} name="isSealed" isSwitch label="Protect with a passphrase"
        hint="Without a passphrase, anyone with the file can open it, and you cannot download it here." />
      ${
        form.values.isSealed &&
        html`<${Field} ...${field} name="passphrase" label="Passphrase"
            hint="At least 12 characters. Keep it separate from the backup. Without it, the backup cannot be opened." />
          <${Field} ...${field} name="again" label="Repeat the passphrase" />`
      }
      ${form.isBusy && html`<${Working} label="Creating the backup" /><p><small>The backup continues if you close this window.</small></p>`}
    <//>
  <//>`;
}

/** The error for different passphrases, in the form of an API error. */
function different() {
  const details = [{ path: "/again", message: "The passphrases do not match." }];
  return new api.ApiError(400, { code: "invalid_request", message: "No backup was created.", details });
}

// --- The dialog that downloads a backup of any size ---

/** @param {{backup: import("./backup.js").Backup, onClose: () => void, onSeal: () => void}} props `onSeal`: opens the dialog for a new backup */
function DownloadBackup({ backup, onClose, onSeal }) {
  return html`<${Dialog} title=${`Download the backup of ${moment(backup)}?`} onClose=${onClose}>
    ${
      backup.passphraseProtected
        ? html`<${Saving} backup=${backup} />`
        : html`<p>This backup has no passphrase, so anyone with the file could read everything in it. You can download only backups with a passphrase.</p>
          <footer><button type="button" onClick=${onSeal}>Create a backup with a passphrase</button></footer>`
    }
  <//>`;
}

/** The download, which ends when the dialog closes. @param {{backup: import("./backup.js").Backup}} props */
function Saving({ backup }) {
  const [got, setGot] = useState(0);
  const [isSaved, setSaved] = useState(false);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const form = useForm({}, async () => setSaved(await save(backup, setGot, stop.current.signal)));
  return html`<p><code>${backup.fileName}</code>, ${words.size(backup.sizeBytes)}. You need its passphrase to open it.</p>
    <${Form} of=${form} action="Download" busy="Downloading…">
      ${form.isBusy && html`<${Progress} label="Downloading" done=${got} total=${backup.sizeBytes} />`}
      <p role="status">${isSaved && "Backup saved. Keep it and its passphrase in two different places."}</p>
    <//>`;
}

// --- Saving a large response of the API as a file ---
//
// If the browser lets a page write files, it is written piece by piece. Otherwise the browser keeps the pieces on disk,
// and they are saved as a download.

const PIECE = 1024 * 1024; // bytes that the page itself holds at most

/**
 * @param {import("./backup.js").Backup} backup
 * @param {(got: number) => void} tell gets the number of bytes so far
 * @param {AbortSignal} signal
 * @returns {Promise<boolean>} false: the person chose no file
 */
async function save(backup, tell, signal) {
  const place = await chosen(backup.fileName);
  if (place === null) return false;
  tell(0);
  const response = await api.file(api.at`/admin/backups/${backup.id}`, { signal });
  const file = await place?.createWritable();
  /** @type {Blob[]} */
  const kept = [];
  try {
    await inPieces(response, tell, async (piece) => void (file ? await file.write(piece) : kept.push(piece)));
    if (file) await file.close();
    else handOver(new Blob(kept, { type: "application/octet-stream" }), backup.fileName);
  } catch (problem) {
    await file?.abort().catch(() => {});
    if (signal.aborted) throw problem;
    const why = problem instanceof Error ? problem.message : String(problem);
    throw new Error(`The download stopped, and the saved part cannot be used. Try again. (${why})`);
  }
  return true;
}

/** @param {Response} response @param {(got: number) => void} tell @param {(piece: Blob) => Promise<void>} take */
async function inPieces(response, tell, take) {
  const reader = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (response.body).getReader();
  /** @type {Uint8Array<ArrayBuffer>[]} */
  let held = [];
  let size = 0;
  for (let got = 0, isDone = false; !isDone; ) {
    const next = await reader.read();
    isDone = next.done;
    if (next.value) held.push(next.value);
    size += next.value?.length ?? 0;
    if (size < PIECE && !isDone) continue;
    await take(new Blob(held));
    got += size;
    tell(got);
    held = [];
    size = 0;
  }
}

/** Ask for a file. undefined: the browser cannot ask; null: the person canceled. @param {string} name @returns {Promise<any>} */
async function chosen(name) {
  const choose = /** @type {any} */ (globalThis).showSaveFilePicker;
  if (!choose) return undefined;
  try {
    return await choose({ suggestedName: name });
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") return null;
    return undefined; // the browser does not allow it on this page
  }
}

/** @param {Blob} blob @param {string} name */
function handOver(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
