// @ts-check
/** Addresses of the console. The part after the `#` is never sent to a server (RFC 3986 3.5). */
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
 * Return an address: to(at`/mail/${accountId}`), or with a query to("/mail", {q: "x"}).
 * @param {string} path
 * @param {Record<string, string | number | boolean | null | undefined>} [query]
 */
export function to(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#${path}${text && `?${text}`}`;
}

/** Go to an address. @param {string} path @param {Parameters<typeof to>[1]} [query] @param {{replace?: boolean}} [how] */
export function go(path, query, how = {}) {
  const hash = to(path, query);
  if (!how.replace) location.hash = hash;
  else if (mayLeave()) {
    history.replaceState(null, "", hash);
    place.set(read());
  }
}

/** Return the one-time link in the address, and remove it from the address and the history. */
export function takeLink() {
  const [, kind, token, path] = LINK.exec(location.hash) ?? [];
  if (!kind || token === undefined) return null;
  history.replaceState(null, "", to(place.value.path, place.value.query));
  return { kind, token, path };
}

/** Ask before the page is left, as long as `reason` returns a question. @param {() => string | null} reason @returns {() => void} removes the guard */
export function guard(reason) {
  guards.add(reason);
  return () => void guards.delete(reason);
}

/** Whether leaving the page would lose something. */
export function isUnsaved() {
  return [...guards].some((one) => one() !== null);
}

/** Whether the page may be left: nothing would be lost, or the person agrees. */
export function mayLeave() {
  const reason = [...guards].map((one) => one()).find((one) => one !== null);
  return !reason || confirm(reason);
}

function changed() {
  if (LINK.test(location.hash)) return; // a one-time link, not a page
  if (!mayLeave()) return void history.pushState(null, "", to(place.value.path, place.value.query));
  place.set(read());
}

addEventListener("hashchange", changed);
addEventListener("beforeunload", (event) => {
  if (isUnsaved()) event.preventDefault();
});

/**
 * Return the values of a pattern such as `/mail/:accountId/:messageId?`, or null if the path does not match.
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
