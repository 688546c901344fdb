// @ts-check
/**
 * How a restore goes on that was begun. The appliance answers 503 while it starts again on what was restored, and says
 * in its audit log how it went. Without the log's word it is asked again, for as long as something is under way.
 */
import * as api from "../../api.js";
import { useEffect, useState } from "../../html.js";
import * as session from "../../session.js";

export const LEAVING = "The restore continues without this page. Leave the page that shows its progress?";
const EVERY = 600; // milliseconds
const PATIENCE = 12; // looks at an appliance that answers, does nothing long, and has no row in its log

/** @typedef {"preparing" | "away" | "signed-out" | "success" | "failure" | "unknown"} Phase the last three are the end */
/** @typedef {{phase: Phase, now?: import("./work.js").Underway}} Going */

/** The newest row about restores of a backup. @param {string} backupId @returns {Promise<{id: string, outcome: string} | undefined>} */
export async function newestRow(backupId, get = api.get) {
  const { items } = await get("/admin/audit-events?action=backup.restore&limit=100");
  return items.find((/** @type {any} */ row) => row.target?.id === backupId);
}

/** @param {string} backupId @param {string} after the row that was there before, or "-" @returns {Going} */
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
    // Until somebody has signed in again, in place; who does so as somebody else begins anew at this address.
    if (now?.phase === "signed-out") await api.get("/status").catch(() => null);
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

/** @param {string} backupId @param {string} after @returns {Promise<Going | null>} null: it answers, and says nothing of it */
async function look(backupId, after) {
  const now = (await asked("/status")).store.progress;
  if (now?.kind === "restore") return { phase: "preparing", now };
  const row = await newestRow(backupId, asked);
  return row === undefined || row.id === after ? null : { phase: row.outcome === "success" ? "success" : "failure" };
}

/** @param {unknown} error @returns {Phase} */
function phaseOf(error) {
  const status = error instanceof api.ApiError ? error.status : 0; // an answer may break off in the middle
  if (status === 401) return "signed-out";
  return status === 0 || status === 429 || status >= 500 ? "away" : "unknown";
}

/** One question that nobody is asked to sign in for: this page says first why. @param {string} path */
async function asked(path) {
  const headers = { Authorization: `Bearer ${session.token()}` };
  return (await api.ask("GET", path, { headers, isAnonymous: true })).data;
}
