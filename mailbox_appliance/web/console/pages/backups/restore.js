// @ts-check
/** The steps of a restore: dry run, effects, confirmation, result. */
import * as api from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { go, guard, to } from "../../router.js";
import { Title } from "../../title.js";
import { sure } from "../../ui/dialog.js";
import { Loaded, Problem, useLoad } from "../../ui/load.js";
import { About, Contents, Look, moment } from "./backup.js";
import { Consequences } from "./consequences.js";
import { Outcome } from "./outcome.js";
import { LEAVING, newestRow } from "./waiting.js";
import { Working } from "./work.js";

/** @typedef {import("./backup.js").Backup} Backup */
/** @typedef {{summary: import("./backup.js").Summary, passphrase: string, took: number}} Looked `took`: milliseconds */

/** @param {{backupId: string, after: string | null}} props `after`: set once the restore has started; the event in the audit log before it, or "-" */
export function Restore({ backupId, after }) {
  return html`<${Title}>Restore a backup<//>
    ${after === null ? html`<${Prepare} backupId=${backupId} />` : html`<${Outcome} backupId=${backupId} after=${after} />`}`;
}

/** @param {{backupId: string}} props */
function Prepare({ backupId }) {
  const loading = useLoad((signal) => find(backupId, signal), [backupId]);
  const [looked, setLooked] = useState(/** @type {Looked | null} */ (null));
  return html`<p><a href=${to("/backups")}>All backups</a></p>
    <${Loaded} of=${loading} what="the backup">${(/** @type {Backup} */ backup) => html`
      <article><${About} backup=${backup} /></article>
      ${
        looked === null
          ? html`<h2>Step 1: Dry run</h2><${Look} backup=${backup} action="Start dry run" path="/admin/restore" body=${{ backupId, dryRun: true }}
              found=${(/** @type {Looked["summary"]} */ summary, /** @type {string} */ passphrase, /** @type {number} */ took) => setLooked({ summary, passphrase, took })} />`
          : html`<${Decide} backup=${backup} looked=${looked} />`
      }`}<//>`;
}

/** @param {string} id @param {AbortSignal} signal @returns {Promise<Backup>} */
async function find(id, signal) {
  let cursor = null;
  do {
    /** @type {{items: Backup[], nextCursor: string | null}} */
    const page = await api.get("/admin/backups", { limit: 100, cursor }, signal);
    const found = page.items.find((one) => one.id === id);
    if (found) return found;
    cursor = page.nextCursor;
  } while (cursor !== null);
  throw new Error("This backup no longer exists.");
}

/** @param {{backup: Backup, looked: Looked}} props */
function Decide({ backup, looked }) {
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const [state, setState] = useState(/** @type {{isBusy: boolean, error?: unknown}} */ ({ isBusy: false }));
  const isHere = useRef(true);
  useEffect(() => {
    heading.current?.focus();
    return () => {
      isHere.current = false;
    };
  }, []);
  const begin = async () => {
    if (state.isBusy || !(await agreed(backup))) return;
    setState({ isBusy: true });
    const release = guard(() => LEAVING);
    try {
      const after = await restore(backup.id, looked.passphrase);
      release();
      if (isHere.current) go("/backups", { restore: backup.id, after }, { replace: true });
    } catch (error) {
      release();
      setState({ isBusy: false, error });
    }
  };
  return html`<h2 ref=${heading} tabindex="-1">Step 2: Review and restore</h2>
    <p>The dry run succeeded. The backup is intact.</p>
    <${Contents} summary=${looked.summary} />
    <${Consequences} summary=${looked.summary} took=${looked.took} />
    ${state.error !== undefined && html`<${Problem} error=${state.error} /><p><strong>Nothing was restored.</strong> Nothing was changed.</p>`}
    ${state.isBusy && html`<${Working} label="Reading the backup again" />`}
    <div class="actions">
      <button type="button" class="danger" aria-disabled=${state.isBusy} aria-busy=${state.isBusy} onClick=${begin}>
        ${state.isBusy ? "Restoring…" : "Restore this backup"}</button>
      ${!state.isBusy && html`<a role="button" class="secondary" href=${to("/backups")}>Cancel</a>`}
    </div>`;
}

/** @param {Backup} backup */
function agreed(backup) {
  return sure({
    title: "Restore this backup?",
    text: `The appliance returns to its state of ${moment(backup)}. The current store is kept as a backup.`,
    action: "Restore backup",
    danger: true,
  });
}

/**
 * Start the restore; return the last event in the audit log before it. After a lost response the restore may still run.
 * @param {string} backupId
 * @param {string} passphrase
 */
async function restore(backupId, passphrase) {
  const after = (await newestRow(backupId))?.id ?? "-";
  try {
    await api.post("/admin/restore", { backupId, ...(passphrase && { passphrase }) });
  } catch (error) {
    if (!(error instanceof api.ApiError) || !["unreachable", "foreign_answer"].includes(error.code)) throw error;
  }
  return after;
}
