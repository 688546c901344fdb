// @ts-check
/**
 * Following a restore. The appliance responds with 503 while it restarts on the restored store, and records the result in
 * its audit log. Until the log has the result, this polls for as long as a restore is running.
 */
import * as api from "../../api.js";
import { useEffect, useState } from "../../html.js";
import * as session from "../../session.js";

export const LEAVING = "The restore continues without this page. Leave the page that shows its progress?";
const EVERY = 600; // milliseconds
const PATIENCE = 12; // polls without a running restore and without a log event

/** @typedef {"preparing" | "away" | "signed-out" | "success" | "failure" | "unknown"} Phase the last three are final */
/** @typedef {{phase: Phase, now?: import("./work.js").Underway}} Going */

/** Return the newest audit event about restores of a backup. @param {string} backupId @returns {Promise<{id: string, outcome: string} | undefined>} */
export async function newestRow(backupId, get = api.get) {
  const { items } = await get("/admin/audit-events?action=backup.restore&limit=100");
  return items.find((/** @type {any} */ row) => row.target?.id === backupId);
}

/** @param {string} backupId @param {string} after the event before the restore, or "-" @returns {Going} */
export function useRestore(backupId, after) {
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
