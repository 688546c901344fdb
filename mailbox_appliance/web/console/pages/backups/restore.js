// @ts-check
/** The steps of a restore: dry run, effects, confirmation, result. */
import * as accounts from "../../accounts.js";
import * as api from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { go, guard, to } from "../../router.js";
import * as session from "../../session.js";
import { refresh, useStatus } from "../../status.js";
import { sure } from "../../ui/dialog.js";
import { Loaded, Problem, useLoad } from "../../ui/load.js";
import { Facts, Title, Warnings } from "../../ui/values.js";
import * as words from "../../words.js";
import { About, Bar, Contents, Look, moment, Working } from "./backup.js";

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

// --- The effects of a restore, shown before the person confirms it ---

/** @param {{summary: import("./backup.js").Summary, took: number}} props `took`: how long the verification took, in milliseconds */
function Consequences({ summary, took }) {
  const now = useLoad(countNow, []).data;
  return html`<h2>What happens when you restore it</h2>
    <${Facts} wide of=${[
      [
        "Replaced",
        `Members, mailboxes, mail, settings and config.toml return to their state of ${moment(summary)}. ${now ? `There are ${now} now. ` : ""}Everything added since then is removed from the appliance. Your mail servers are not changed, and mail is fetched again.`,
      ],
      [
        "Not changed",
        "No message is sent twice. Keys, sessions and members revoked or removed since then stay that way. Passwords and HTTPS settings stay as they are now.",
      ],
      ["Kept", "The current store is first saved as a backup, “Before a restore”. Restore that backup to undo."],
      [
        "Duration",
        `Reading the backup took ${duration(took)} and is repeated. The appliance then does not respond for some seconds, or longer with much mail. This page waits and shows the result.`,
      ],
      [
        "If it fails",
        "Nothing is changed. If the restored store cannot be opened, the appliance puts the current one back automatically.",
      ],
      [
        "Afterwards",
        "You stay signed in if the backup contains your account. Otherwise, sign in as a member it contains. If the backup undoes a restore, or is newer than the current store, everyone signs in again, members and passwords are those of the backup, and scheduled messages are on hold.",
      ],
    ]} />`;
}

/** @param {AbortSignal} signal @returns {Promise<string>} */
async function countNow(signal) {
  const [members, accounts] = await Promise.all(
    ["/admin/members", "/admin/accounts"].map((path) => api.get(path, {}, signal)),
  );
  return `${words.count(members.length, "member")} and ${words.count(accounts.length, "mailbox", "mailboxes")}`;
}

/** @param {number} milliseconds */
function duration(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 2) return "a second or less";
  return seconds < 90 ? `${seconds} seconds` : words.count(Math.round(seconds / 60), "minute");
}

// --- The progress and the result of a restore ---

const SIGN_IN =
  "The appliance is back, but your session has ended. Sign in as a member in the backup, with the current password, to see the result.";

/** Heading and text of each phase. @type {Record<Phase, [string, any]>} */
const TOLD = {
  preparing: ["Restoring", "Keep this page open. You do not have to do anything."],
  away: ["The appliance is restarting", "This is part of the restore. This page continues automatically."],
  "signed-out": ["Your session has ended", SIGN_IN],
  success: ["Backup restored", "Messages sent and credentials revoked since the backup stay sent and revoked."],
  failure: [
    "The restore failed",
    html`<strong>Nothing was changed</strong>. Run <code>mailbox-appliance logs</code> on the appliance’s computer to see the reason.`,
  ],
  unknown: [
    "The result of the restore is unknown",
    html`The <a href=${to("/audit")}>audit log</a> has no <code>backup.restore</code> event for it. If none appears, nothing was restored.`,
  ],
};

/** @param {{backupId: string, after: string}} props */
function Outcome({ backupId, after }) {
  const { phase, now } = useRestore(backupId, after);
  const isWaiting = phase === "preparing" || phase === "away";
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => (isWaiting ? guard(() => LEAVING) : heading.current?.focus()), [isWaiting]);
  useEffect(() => {
    session.why.set(SIGN_IN); // another request of the page may get the 401 first
    return () => session.why.set("");
  }, []);
  const [title, text] = TOLD[phase];
  return html`<div role="status"><h2 ref=${heading} tabindex="-1">${title}</h2><p>${text}</p></div>
    ${isWaiting && html`<${Bar} label="Restoring" now=${now} />`}
    ${phase === "success" && html`<${Restored} />`}
    ${(phase === "failure" || phase === "unknown") && html`<p><a role="button" href=${to("/backups", { restore: backupId })}>Try again</a></p>`}
    ${!isWaiting && html`<p><a href=${to("/backups")}>All backups</a></p>`}`;
}

function Restored() {
  const status = useStatus();
  const kept = useLoad(newestKept, []).data;
  useEffect(() => {
    void accounts.reload(); // the mailboxes are now those of the backup
    void refresh();
  }, []);
  return html`${kept && html`<p>The previous store is kept as ${kept.fileName}. To undo, <a href=${to("/backups", { restore: kept.id })}>restore that backup</a>.</p>`}
    ${
      (status?.deliveries.uncertain ?? 0) > 0 &&
      html`<p class="warning">Some messages may or may not have been sent. None is resent automatically. <a href=${to("/deliveries")}>Review the deliveries</a></p>`
    }
    <${Warnings} of=${status?.warnings ?? []} />
    <p><a role="button" href=${to("/mail")}>Go to your mail</a></p>`;
}

/** @param {AbortSignal} signal @returns {Promise<import("./backup.js").Backup | undefined>} the backup of the previous store */
async function newestKept(signal) {
  const { items } = await api.get("/admin/backups", { limit: 20 }, signal);
  return items.find((/** @type {import("./backup.js").Backup} */ one) => one.reason === "pre-restore");
}

// --- Following a restore ---
//
// The appliance responds with 503 while it restarts on the restored store, and records the result in its audit log.
// Until the log has the result, this polls for as long as a restore is running.

const LEAVING = "The restore continues without this page. Leave the page that shows its progress?";
const EVERY = 600; // milliseconds
const PATIENCE = 12; // polls without a running restore and without a log event

/** @typedef {"preparing" | "away" | "signed-out" | "success" | "failure" | "unknown"} Phase the last three are final */
/** @typedef {{phase: Phase, now?: import("./backup.js").Underway}} Going */

/** Return the newest audit event about restores of a backup. @param {string} backupId @returns {Promise<{id: string, outcome: string} | undefined>} */
async function newestRow(backupId, get = api.get) {
  const { items } = await get("/admin/audit-events?action=backup.restore&limit=100");
  return items.find((/** @type {any} */ row) => row.target?.id === backupId);
}

/** @param {string} backupId @param {string} after the event before the restore, or "-" @returns {Going} */
function useRestore(backupId, after) {
  const [going, setGoing] = useState(/** @type {Going} */ ({ phase: "preparing" }));
  useEffect(() => {
    const stop = new AbortController();
    void follow(() => look(backupId, after), setGoing, stop.signal);
    return () => stop.abort();
  }, [backupId, after]);
  return going;
}

/** @param {() => Promise<Going | null>} look @param {(going: Going) => void} tell @param {AbortSignal} signal */
async function follow(look, tell, signal) {
  for (let silent = 0; !signal.aborted; ) {
    const going = await look().catch((error) => ({ phase: phaseOf(error) }));
    silent = going === null ? silent + 1 : 0;
    const now = going ?? (silent > PATIENCE ? { phase: /** @type {Phase} */ ("unknown") } : null);
    if (now !== null && !signal.aborted) tell(now);
    if (now !== null && ["success", "failure", "unknown"].includes(now.phase)) return;
    // This waits until the person signs in again. Signing in as another member reloads this address.
    if (now?.phase === "signed-out") await api.get("/status").catch(() => null);
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

/** @param {string} backupId @param {string} after @returns {Promise<Going | null>} null: the appliance responds, but has no information about the restore */
async function look(backupId, after) {
  const now = (await asked("/status")).store.progress;
  if (now?.kind === "restore") return { phase: "preparing", now };
  const row = await newestRow(backupId, asked);
  return row === undefined || row.id === after ? null : { phase: row.outcome === "success" ? "success" : "failure" };
}

/** @param {unknown} error @returns {Phase} */
function phaseOf(error) {
  const status = error instanceof api.ApiError ? error.status : 0; // the connection may end during a response
  if (status === 401) return "signed-out";
  return status === 0 || status === 429 || status >= 500 ? "away" : "unknown";
}

/** Request data without opening the sign-in dialog: this page explains first why the session ended. @param {string} path */
async function asked(path) {
  const headers = { Authorization: `Bearer ${session.token()}` };
  return (await api.ask("GET", path, { headers, isAnonymous: true })).data;
}
