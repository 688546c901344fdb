// @ts-check
/** One page of messages, polled while it is visible. Only one page is kept. */
import { whole } from "../../api.js";
import { useEffect, useRef, useState } from "../../html.js";
import { trailOf } from "./came-from.js";
import { requestOf } from "./view.js";

const EVERY = 10_000; // milliseconds
const LIMIT = 50;

/**
 * @typedef {object} Message an item of GET /messages
 * @property {string} id
 * @property {string} threadId
 * @property {string} accountId
 * @property {{id: string, name: string, role?: string}} [folder]
 * @property {string[]} [labels]
 * @property {{email: string, name?: string}} [from]
 * @property {{email: string, name?: string}[]} to
 * @property {string} subject
 * @property {string} date
 * @property {string} [snippet]
 * @property {{status: string, excerpt?: string}} [searchContext]
 * @property {{disposition?: string}[]} [attachments]
 * @property {{read: boolean, starred: boolean, draft: boolean}} flags
 */
/** @typedef {{items: Message[], nextCursor: string | null, warnings: string[]}} Shown */
/** @typedef {{shown: Shown | null, cursors: (string | null)[], error: unknown, isTurning: boolean}} State */

/** The list of a view. The calling component must have the view's key. @param {import("./view.js").View} view */
export function useListing(view) {
  const trail = trailOf(view.key, view.href);
  const [state, setState] = useState(
    /** @type {State} */ ({ shown: null, cursors: trail.cursors, error: undefined, isTurning: true }),
  );
  const latest = useRef({ state, wanted: state.cursors, isGone: false, stop: new AbortController() });
  latest.current.state = state;

  const load = async (/** @type {(string | null)[]} */ cursors) => {
    if (latest.current.isGone) return;
    latest.current.stop.abort();
    latest.current.wanted = cursors;
    const stop = new AbortController();
    latest.current.stop = stop;
    try {
      const shown = await asked(view, cursors, stop.signal);
      if (stop.signal.aborted) return;
      if (shown.items.length === 0 && cursors.length > 1) return void load(cursors.slice(0, -1));
      trail.cursors = cursors;
      trail.shown = shown.items.map(({ accountId, id }) => ({ accountId, id }));
      setState({ shown, cursors, error: undefined, isTurning: false });
    } catch (error) {
      if (stop.signal.aborted) return;
      latest.current.wanted = latest.current.state.cursors;
      setState((before) => ({ ...before, error, isTurning: false }));
    }
  };
  const refresh = () => load(latest.current.wanted);
  const turn = (/** @type {(string | null)[]} */ cursors) => {
    setState((before) => ({ ...before, isTurning: true }));
    void load(cursors);
  };
  useEffect(() => {
    void refresh();
    const again = () => void (document.hidden || latest.current.state.isTurning || refresh());
    const timer = setInterval(again, EVERY);
    document.addEventListener("visibilitychange", again);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", again);
      latest.current.stop.abort();
      latest.current.isGone = true;
    };
  }, []);

  /** Change the shown messages before the server responds. @param {(items: Message[]) => Message[]} change */
  const change = (change) => {
    latest.current.stop.abort(); // a running request would bring the old state
    setState((before) =>
      before.shown ? { ...before, shown: { ...before.shown, items: change(before.shown.items) } } : before,
    );
  };
  const { cursors, shown } = state;
  const next = shown?.nextCursor ?? null;
  return {
    ...state,
    trail,
    number: cursors.length,
    next: next === null ? null : () => turn([...cursors, next]),
    previous: cursors.length < 2 ? null : () => turn(cursors.slice(0, -1)),
    refresh,
    change,
  };
}

/** @typedef {ReturnType<typeof useListing>} Listing */

/** @param {import("./view.js").View} view @param {(string | null)[]} cursors @param {AbortSignal} signal @returns {Promise<Shown>} */
async function asked(view, cursors, signal) {
  const [path, query] = requestOf(view);
  const cursor = cursors.at(-1);
  return whole(path, { ...query, limit: LIMIT, cursor }, signal);
}
