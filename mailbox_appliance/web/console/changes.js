// @ts-check
/**
 * Changes as they happen. While the tab is visible it has one stream of server-sent events (WHATWG HTML 9.2). A hidden
 * tab has none, since browsers open only six connections to an address. `EventSource` cannot send the session's token.
 */
import * as api from "./api.js";
import { useEffect, useRef } from "./html.js";
import * as session from "./session.js";
import { Shared, useShared } from "./shared.js";

const GAP = 1_000; // milliseconds between two refreshes of the same thing
const SELDOM = 60_000; // milliseconds between refreshes of what has no event, such as "3 minutes ago" and new folders
const RETRY = 3_000; // milliseconds
const SILENCE = 40_000; // milliseconds; the appliance sends a comment every 15 seconds

/** @typedef {{type: string, accountId: string | null, data: any}} Change an event of the API */
/** @typedef {(change: Change) => boolean} Concerns */

/** Whether the stream is open, so that nothing need be polled. */
export const isFollowing = new Shared(false);

/** Something shown that is refreshed: not twice at once, and at most once a second. */
class Watcher {
  isBusy = false;
  isDue = false;
  /** Whether it was last loaded without the stream, so that changes may be missing. */
  isStale = !isFollowing.value;

  /** @param {Concerns} concerns @param {() => unknown} load */
  constructor(concerns, load) {
    this.concerns = concerns;
    this.load = load;
  }

  async refresh() {
    this.isDue = true;
    if (this.isBusy) return;
    this.isBusy = true;
    while (this.isDue && watchers.has(this)) {
      this.isDue = false;
      this.isStale = !isFollowing.value;
      await Promise.all([this.load(), pause(GAP)]);
    }
    this.isBusy = false;
  }
}

/** @type {Set<Watcher>} */
const watchers = new Set();
/** The position of the last event. @type {string | null} */
let position = null;
/** Ends the stream; null if there is none. @type {AbortController | null} */
let stop = null;

session.member.watch(update);
document.addEventListener("visibilitychange", update);

/** Open or close the stream. */
function update() {
  const isWanted = session.member.value !== null && !document.hidden;
  if (session.member.value === null) position = null;
  if (isWanted === (stop !== null)) return;
  stop?.abort();
  isFollowing.set(false);
  stop = isWanted ? new AbortController() : null;
  if (stop) void follow(stop.signal);
}

/** Open the stream, and open it again whenever it ends. @param {AbortSignal} signal */
async function follow(signal) {
  while (!signal.aborted) {
    const failed = await read(signal).catch((problem) => problem);
    if (signal.aborted) return;
    isFollowing.set(false);
    await pause(Math.max(RETRY, 1000 * (failed?.retryAfter ?? 0)));
  }
}

/** Read the stream to its end. @param {AbortSignal} signal */
async function read(signal) {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE);
  try {
    const response = await api.file("/events/stream", {
      headers: position === null ? {} : { "Last-Event-ID": position },
      signal: AbortSignal.any([signal, silent.signal]),
    });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE);
      opened();
      const blocks = (rest + piece.value).split("\n\n");
      rest = blocks.pop() ?? "";
      for (const block of blocks) take(block);
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Load what may lack changes, now that the stream is known to pass on what the appliance sends. */
function opened() {
  if (isFollowing.value) return;
  isFollowing.set(true);
  for (const one of watchers) if (one.isStale || position === null) void one.refresh();
}

/** @param {string} block the lines of an event or a comment */
function take(block) {
  const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  if (!fields.event) return;
  position = fields.id;
  const change = fields.event === "reset" ? null : JSON.parse(fields.data);
  for (const one of watchers) if (change === null || one.concerns(change)) void one.refresh();
}

/** @param {number} milliseconds @returns {Promise<void>} */
function pause(milliseconds) {
  return new Promise((resolve) => void setTimeout(resolve, milliseconds));
}

/** Return a test for events: those of a kind, such as "message", and of a mailbox if one is given. @param {string} kind @param {string | null} [accountId] @returns {Concerns} */
export function about(kind, accountId) {
  return (change) => change.type.startsWith(`${kind}.`) && (!accountId || change.accountId === accountId);
}

/** Call `load`, which must not throw, after changes that concern it. @param {Concerns} concerns @param {() => unknown} load */
export function watch(concerns, load) {
  const watcher = new Watcher(concerns, load);
  watchers.add(watcher);
  return { refresh: () => watcher.refresh(), end: () => void watchers.delete(watcher) };
}

/**
 * When a component loads its value again.
 * @typedef {object} Refreshing
 * @property {Concerns} [on] changes after which it does so, within a second
 * @property {number} [every] milliseconds between loads while the tab is visible; with `on` only while there is no stream
 * @property {number} [seldom] milliseconds between loads while there is a stream
 */

/** Load again what a component shows, after changes and at intervals. @param {() => unknown} load @param {Refreshing} how */
export function useChanges(load, { on, every, seldom = SELDOM }) {
  const hasStream = useShared(isFollowing);
  const latest = useRef({ load, on });
  latest.current = { load, on };
  const interval = every && on && hasStream ? seldom : every;
  const watcher = useRef(/** @type {ReturnType<typeof watch> | null} */ (null));
  useEffect(() => {
    watcher.current = watch(
      (change) => latest.current.on?.(change) ?? false,
      () => latest.current.load(),
    );
    return watcher.current.end;
  }, []);
  useEffect(() => {
    if (!interval) return undefined;
    const timer = setInterval(() => void (document.hidden || watcher.current?.refresh()), interval);
    return () => clearInterval(timer);
  }, [interval]);
}
