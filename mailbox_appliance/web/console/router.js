// @ts-check
/** Addresses of the console: what stands behind the `#` is never sent to a server (RFC 3986 3.5). */
import { Shared } from "./shared.js";

const LINK = /^#([a-z]+)=([^&]*)(?:&to=(\/.*))?$/;

/** @typedef {{path: string, query: Record<string, string>}} Place */
/** @type {Shared<Place>} */
export const place = new Shared(read());

/** @type {Set<() => string | null>} */
const guards = new Set();

/** @returns {Place} */
function read() {
  const [, path = "", query = ""] = /^#?([^?]*)\??(.*)$/s.exec(location.hash) ?? [];
  return { path: path.startsWith("/") ? path : "/", query: Object.fromEntries(new URLSearchParams(query)) };
}

/**
 * An address: to(at`/mail/${accountId}`), or with a query to("/mail", {q: "x"}).
 * @param {string} path
 * @param {Record<string, string | number | boolean | null | undefined>} [query]
 */
export function to(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#${path}${text && `?${text}`}`;
}

/** Goes there. @param {string} path @param {Parameters<typeof to>[1]} [query] @param {{replace?: boolean}} [how] */
export function go(path, query, how = {}) {
  const hash = to(path, query);
  if (!how.replace) location.hash = hash;
  else if (mayLeave()) {
    history.replaceState(null, "", hash);
    place.set(read());
  }
}

/** A link that is good once: its kind, token and page, which are nowhere in the address or the history any more. */
export function takeLink() {
  const [, kind, token, path] = LINK.exec(location.hash) ?? [];
  if (!kind || token === undefined) return null;
  history.replaceState(null, "", to(place.value.path, place.value.query));
  return { kind, token, path };
}

/** Asks before the page is left while `reason` gives one. @param {() => string | null} reason @returns {() => void} ends it */
export function guard(reason) {
  guards.add(reason);
  return () => void guards.delete(reason);
}

/** Whether something would be lost if the page were left. */
export function isUnsaved() {
  return [...guards].some((one) => one() !== null);
}

/** Whether nothing would be lost, or the person says that it may be. */
export function mayLeave() {
  const reason = [...guards].map((one) => one()).find((one) => one !== null);
  return !reason || confirm(reason);
}

function changed() {
  if (LINK.test(location.hash)) return; // no page of ours
  if (!mayLeave()) return void history.pushState(null, "", to(place.value.path, place.value.query));
  place.set(read());
}

addEventListener("hashchange", changed);
addEventListener("beforeunload", (event) => {
  if (isUnsaved()) event.preventDefault();
});

/**
 * The values of a pattern such as `/mail/:accountId/:messageId?`; null where it does not fit.
 * @param {string} pattern
 * @param {string} path
 * @returns {Record<string, string> | null}
 */
export function match(pattern, path) {
  const wanted = pattern.split("/");
  const given = path.replace(/\/$/, "").split("/");
  if (given.length > wanted.length) return null;
  /** @type {Record<string, string>} */
  const found = {};
  for (const [index, part] of wanted.entries()) {
    const value = given[index];
    if (part.startsWith(":")) {
      if (value === undefined && !part.endsWith("?")) return null;
      if (value !== undefined) found[part.slice(1).replace("?", "")] = decoded(value);
    } else if (part !== (value ?? "")) return null;
  }
  return found;
}

/** @param {string} value */
function decoded(value) {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
