// @ts-check
/** The public API, as this page uses it: the same requests that any other program makes. */
import * as session from "./session.js";

const ROOT = "/api/v1";
const READ_WITHIN = 60_000; // milliseconds

/** @typedef {{path: string, message: string}} Detail */
/** @typedef {Record<string, string | number | boolean | null | undefined>} Query left out where null, undefined or "" */
/**
 * @typedef {object} Asked
 * @property {Query} [query]
 * @property {unknown} [body] sent as JSON
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 * @property {boolean} [isAnonymous] no session is needed: 401 is an answer like any other
 */
/** @typedef {{data: any, warnings: string[], status: number}} Answer */

/** What the API refused, or that it could not be reached (`code` is then `unreachable`, `status` 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{code: string, message: string, requestId?: string, details?: Detail[]}} error
   * @param {number} [retryAfter] seconds
   */
  constructor(status, error, retryAfter) {
    super(error.message);
    this.name = "ApiError";
    this.status = status;
    this.code = error.code;
    this.requestId = error.requestId ?? "";
    this.details = error.details ?? [];
    this.retryAfter = retryAfter ?? 0;
  }
}

/**
 * One request. Where the session has ended the person is asked to sign in, in place, and it is made again.
 * @param {string} method
 * @param {string} path below /api/v1; ids in it are encoded by `at`
 * @param {Asked} [asked]
 * @returns {Promise<Answer>}
 */
export async function ask(method, path, asked = {}) {
  const response = await fetched(method, path, { ...asked, signal: signalOf(method, asked) });
  try {
    const { data, warnings } = await response.json();
    return { data, warnings: warnings ?? [], status: response.status };
  } catch (problem) {
    if (asked.signal?.aborted) throw problem;
    throw unreachable(); // the answer broke off on its way
  }
}

/** The same for a file. @param {string} path @param {Asked} [asked] @returns {Promise<Response>} */
export async function file(path, asked = {}) {
  return fetched("GET", path, asked);
}

/** @param {string} path @param {Query} [query] @param {AbortSignal} [signal] @returns {Promise<any>} its data */
export async function get(path, query, signal) {
  return (await ask("GET", path, { query, signal })).data;
}

/** The same with the `warnings` of the answer. @param {string} path @param {Query} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function whole(path, query, signal) {
  const { data, warnings } = await ask("GET", path, { query, signal });
  return { ...data, warnings };
}

/** @param {string} path @param {unknown} [body] @param {Record<string, string>} [headers] @returns {Promise<any>} its data */
export async function post(path, body = {}, headers) {
  return (await ask("POST", path, { body, headers })).data;
}

/** @param {string} path @param {unknown} body @returns {Promise<any>} */
export async function patch(path, body) {
  return (await ask("PATCH", path, { body })).data;
}

/** @param {string} path @param {unknown} body @returns {Promise<any>} */
export async function put(path, body) {
  return (await ask("PUT", path, { body })).data;
}

/** @param {string} path @returns {Promise<any>} */
export async function remove(path) {
  return (await ask("DELETE", path)).data;
}

/** Ends a session at the appliance; one that has ended already is fine. @param {string | null} token */
export async function logOut(token) {
  try {
    await ask("POST", "/auth/logout", { headers: { Authorization: `Bearer ${token}` }, isAnonymous: true });
  } catch (problem) {
    if (problem instanceof ApiError && problem.status === 401) return;
    throw new Error("The appliance could not end this session. End it later under Profile, Sessions.");
  }
}

/**
 * A path whose values are encoded: at`/accounts/${id}/folders`.
 * @param {TemplateStringsArray} strings
 * @param {...string} values
 */
export function at(strings, ...values) {
  return String.raw({ raw: strings }, ...values.map(encodeURIComponent));
}

/** A key that nobody has used, for `Idempotency-Key`. */
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {string} method @param {string} path @param {Asked} asked @returns {Promise<Response>} one that is ok */
async function fetched(method, path, asked) {
  const url = ROOT + path + queryOf(asked.query);
  const body = asked.body === undefined ? undefined : JSON.stringify(asked.body);
  const whose = session.member.value?.id;
  for (;;) {
    const token = asked.isAnonymous ? null : session.token();
    const response = await sent(url, {
      method,
      body,
      headers: headersOf(asked, token),
      signal: asked.signal,
    });
    if (response.ok) return response;
    const error = await errorOf(response);
    if (error.code !== "unauthenticated" || asked.isAnonymous || !(await session.renewed(token))) throw error;
    if (session.member.value?.id !== whose) throw error; // nothing is done in somebody else's name
  }
}

/** @param {Asked} asked @param {string | null} token */
function headersOf(asked, token) {
  return {
    ...(asked.body === undefined ? {} : { "Content-Type": "application/json" }),
    ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
    ...asked.headers,
  };
}

/** Reading is given up after a while: the appliance may hang. @param {string} method @param {Asked} asked */
function signalOf(method, asked) {
  if (method !== "GET") return asked.signal;
  const late = AbortSignal.timeout(READ_WITHIN);
  return asked.signal ? AbortSignal.any([asked.signal, late]) : late;
}

function unreachable() {
  const message = "The appliance does not respond. It may be stopped or restarting. Try again in a moment.";
  return new ApiError(0, { code: "unreachable", message });
}

/** @param {string} url @param {RequestInit} init */
async function sent(url, init) {
  try {
    return await fetch(url, { ...init, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    throw unreachable();
  }
}

/** @param {Response} response */
async function errorOf(response) {
  const wait = Number(response.headers.get("Retry-After")) || 0;
  try {
    return new ApiError(response.status, (await response.json()).error, wait);
  } catch {
    const message = `A proxy between this page and the appliance returned ${response.status}.`;
    return new ApiError(response.status, { code: "foreign_answer", message }, wait);
  }
}

/** @param {Query} [query] */
function queryOf(query) {
  const given = Object.entries(query ?? {}).filter(
    ([, value]) => value !== null && value !== undefined && value !== "",
  );
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
}
