// @ts-check
/** Values loaded from the API, with their states: busy, failed, empty, loaded. */
import { ApiError } from "../api.js";
import { useChanges } from "../changes.js";
import { html, useCallback, useEffect, useRef, useState } from "../html.js";
import { ApiText } from "./values.js";

/**
 * @template T
 * @typedef {object} Loading
 * @property {T | undefined} data the last value, also while it is loaded again
 * @property {unknown} error
 * @property {boolean} isBusy
 * @property {() => Promise<void>} reload
 * @property {(data: T) => void} set
 */

/**
 * Load a value now, again when one of `of` changes, and when `how` requires it. Late responses are dropped.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {unknown[]} of
 * @param {import("../changes.js").Refreshing} [how]
 * @returns {Loading<T>}
 */
export function useLoad(load, of, how = {}) {
  const [state, setState] = useState(/** @type {{data?: T, error?: unknown, isBusy: boolean}} */ ({ isBusy: true }));
  const latest = useRef({ load, stop: new AbortController() });
  latest.current.load = load;
  const reload = useCallback(async () => {
    latest.current.stop.abort();
    const stop = new AbortController();
    latest.current.stop = stop;
    setState((before) => ({ ...before, isBusy: true }));
    try {
      const data = await latest.current.load(stop.signal);
      if (!stop.signal.aborted) setState({ data, isBusy: false });
    } catch (error) {
      if (!stop.signal.aborted) setState((before) => ({ data: before.data, error, isBusy: false }));
    }
  }, []);
  useEffect(() => {
    setState({ isBusy: true });
    void reload();
    return () => latest.current.stop.abort();
  }, of);
  useChanges(reload, how);
  const set = useCallback((/** @type {T} */ data) => {
    latest.current.stop.abort(); // an earlier request would bring the old value
    setState({ data, isBusy: false });
  }, []);
  return { data: state.data, error: state.error, isBusy: state.isBusy, reload, set };
}

/**
 * The children, once the value is loaded: `<${Loaded} of=${loading}>${(data) => ...}<//>`.
 * @param {{of: Loading<any>, children: any, what?: string}} props `what`: the name of the value, such as "the messages"
 */
export function Loaded({ of: loading, children, what = "this page" }) {
  if (loading.data === undefined)
    return loading.error === undefined
      ? html`<${Busy} what=${what} />`
      : html`<${Problem} error=${loading.error} again=${loading.reload} />`;
  const draw = Array.isArray(children) ? children[0] : children;
  return html`<${Problem} error=${loading.error} again=${loading.reload} />${draw(loading.data)}`;
}

/** @param {{what?: string}} props */
export function Busy({ what = "this page" }) {
  return html`<p class="busy" role="status" aria-busy="true">Loading ${what}…</p>`;
}

/** An error message with its next step; nothing if `error` is undefined. @param {{error: unknown, again?: () => unknown}} props */
export function Problem({ error, again }) {
  if (error === undefined) return null;
  const known = error instanceof ApiError ? error : null;
  const isDenied = known?.code === "permission_denied"; // the message names the capabilities too
  const message = error instanceof Error ? error.message : String(error);
  const more = isDenied ? [] : (known?.details ?? []).filter((one) => !message.includes(one.message));
  return html`<div class="problem" role="alert">
    <p><${ApiText} text=${message} /></p>
    ${more.length > 0 && html`<ul>${more.map((one) => html`<li><${ApiText} text=${one.message} /></li>`)}</ul>`}
    ${known?.requestId && known.status >= 500 && html`<p><small>Request ID in the log: <code>${known.requestId}</code></small></p>`}
    ${again && !isDenied && html`<button type="button" class="secondary" onClick=${again}>Try again</button>`}
  </div>`;
}

/** The text for an empty list, with the next step. @param {{title: string, children?: any}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><p><strong>${title}</strong></p>${children}</div>`;
}

/**
 * A list that is loaded one page at a time. Only one page is kept, so memory does not grow.
 * @param {(query: {cursor: string | null}, signal: AbortSignal) => Promise<{items: any[], nextCursor: string | null}>} load
 * @param {unknown[]} of
 * @param {import("../changes.js").Refreshing} [how]
 */
export function usePages(load, of, how) {
  const list = JSON.stringify(of); // a cursor is valid only for the list that returned it
  const [way, setWay] = useState({ list, cursors: /** @type {(string | null)[]} */ ([null]) });
  const cursors = way.list === list ? way.cursors : [null];
  const setCursors = (/** @type {(string | null)[]} */ next) => setWay({ list, cursors: next });
  const cursor = cursors.at(-1) ?? null;
  const loading = useLoad(async (signal) => ({ ...(await load({ cursor }, signal)), cursor }), [...of, cursor], how);
  const next = loading.data?.cursor === cursor ? loading.data.nextCursor : null;
  return {
    ...loading,
    number: cursors.length,
    next: next === null ? null : () => setCursors([...cursors, next]),
    previous: cursors.length < 2 ? null : () => setCursors(cursors.slice(0, -1)),
  };
}

/** The buttons of such a list. @param {{of: ReturnType<typeof usePages>, newest?: string, label?: string}} props */
export function Pager({ of: pages, label = "Pages" }) {
  if (!pages.next && !pages.previous) return null;
  return html`<nav class="pager" aria-label=${label}>
    <button type="button" class="secondary outline" aria-disabled=${!pages.previous} onClick=${pages.previous}>Previous</button>
    <span>Page ${pages.number}</span>
    <button type="button" class="secondary outline" aria-disabled=${!pages.next} onClick=${pages.next}>Next</button>
  </nav>`;
}
