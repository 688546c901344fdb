// @ts-check
/** The status of the appliance, polled while the page is visible: much of it has no event. All components share one request. */
import * as api from "./api.js";
import { watch } from "./changes.js";
import { useEffect } from "./html.js";
import * as session from "./session.js";
import { Shared, useShared } from "./shared.js";

const EVERY = 15_000; // milliseconds
const WITHIN = 8_000; // milliseconds; a slower appliance counts as not responding

/**
 * @typedef {object} Status GET /status, with its warnings
 * @property {string} version
 * @property {number} uptimeSeconds
 * @property {{format: number, sizeBytes: number, freeBytes: number, progress?: {work: string, step: string, done: number, total: number}}} store
 * @property {{id: string, status: string, lastSyncAt: string | null, progress: string | null}[]} accounts
 * @property {{queued: number, sending: number, uncertain: number}} deliveries
 * @property {number} [disabledWebhooks] the member's own that failed
 * @property {number} [pendingApprovals] those that the member can give
 * @property {{at: string, signal: string, file: string}} [lastCrash] for administrators, until one dismisses it
 * @property {string[]} warnings
 * @property {string} asOf when the appliance responded
 */
/** @type {Shared<Status | null>} */
const status = new Shared(/** @type {Status | null} */ (null));
/** Why the last request failed; undefined after a success. @type {Shared<unknown>} */
export const failure = new Shared(/** @type {unknown} */ (undefined));
session.member.watch((member) => void (member ?? status.set(null)));
let watchers = 0;
let timer = 0;

/** Request the status now, for example after a change. */
export async function refresh() {
  const asked = session.member.value?.id;
  if (document.hidden || !asked || session.isLost.value) return;
  try {
    const { data, warnings } = await api.ask("GET", "/status", { signal: AbortSignal.timeout(WITHIN) });
    if (asked !== session.member.value?.id) return;
    status.set({ ...data, warnings, asOf: new Date().toISOString() });
    failure.set(undefined);
  } catch (error) {
    failure.set(error);
  }
}

document.addEventListener("visibilitychange", refresh); // the known status is out of date
watch(
  ({ type }) => watchers > 0 && /^(account|approval|delivery|backup)\./.test(type),
  () => (watchers > 0 ? refresh() : undefined),
);

/** @returns {Status | null} null before the first response */
export function useStatus() {
  useEffect(() => {
    watchers += 1;
    if (watchers === 1) {
      void refresh();
      timer = setInterval(refresh, EVERY);
    }
    return () => {
      watchers -= 1;
      if (watchers === 0) clearInterval(timer);
    };
  }, []);
  return useShared(status);
}
