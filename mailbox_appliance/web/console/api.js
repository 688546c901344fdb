// @ts-check
/** The client of the public API. The console makes the same requests as any other program. */
import * as session from "./session.js";

const ROOT = "/api/v1";
const READ_WITHIN = 60_000; // milliseconds

/** @typedef {{path: string, message: string}} Detail */
/** @typedef {Record<string, string | number | boolean | null | undefined>} Query null, undefined and "" are left out */
/**
 * @typedef {object} Asked
 * @property {Query} [query]
 * @property {unknown} [body] sent as JSON
 * @property {Blob} [blob] sent as it is, instead of `body`
 * @property {(sent: number) => void} [onProgress] called with the bytes of `blob` that were sent so far
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 * @property {boolean} [isAnonymous] no session is needed, so 401 does not ask for a new sign-in
 */
/** @typedef {{data: any, warnings: string[], undo?: {token: string, expiresAt: string}, status: number}} Answer */

/** An error of the API. If no response came, `code` is `unreachable` and `status` is 0. */
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
 * Make one request. If the session has ended, ask the person to sign in on this page, then repeat the request.
 * @param {string} method
 * @param {string} path below /api/v1; use `at` to encode the IDs in it
 * @param {Asked} [asked]
 * @returns {Promise<Answer>}
 */
export async function ask(method, path, asked = {}) {
  const response = await fetched(method, path, { ...asked, signal: signalOf(method, asked) });
  try {
    const { data, warnings, undo } = await response.json();
    return { data, warnings: warnings ?? [], undo, status: response.status };
  } catch (problem) {
    if (asked.signal?.aborted) throw problem;
    throw unreachable(); // the connection ended during the response
  }
}

/** Request a file. @param {string} path @param {Asked} [asked] @returns {Promise<Response>} */
export async function file(path, asked = {}) {
  return fetched("GET", path, asked);
}

/** Get data. @param {string} path @param {Query} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function get(path, query, signal) {
  return (await ask("GET", path, { query, signal })).data;
}

/** Get data, with the `warnings` of the response as one more field. @param {string} path @param {Query} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function whole(path, query, signal) {
  const { data, warnings } = await ask("GET", path, { query, signal });
  return { ...data, warnings };
}

/** @param {string} path @param {unknown} [body] @param {Record<string, string>} [headers] @returns {Promise<any>} the data */
export async function post(path, body = {}, headers) {
  return (await ask("POST", path, { body, headers })).data;
}

/**
 * Upload a file and return the ID by which an attachment names it.
 * @param {Blob} blob @param {string} filename @param {AbortSignal} signal @param {(sent: number) => void} onProgress
 * @returns {Promise<string>}
 */
export async function upload(blob, filename, signal, onProgress) {
  return (await ask("POST", "/uploads", { query: { filename }, blob, signal, onProgress })).data.uploadId;
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

/** End a session at the appliance. A session that has already ended is not an error. @param {string | null} token */
export async function logOut(token) {
  try {
    await ask("POST", "/auth/logout", { headers: { Authorization: `Bearer ${token}` }, isAnonymous: true });
  } catch (problem) {
    if (problem instanceof ApiError && problem.status === 401) return;
    throw new Error("The appliance could not end this session. End it later under Profile, Sessions.");
  }
}

/**
 * Return a path with its values encoded: at`/accounts/${id}/folders`.
 * @param {TemplateStringsArray} strings
 * @param {...string} values
 */
export function at(strings, ...values) {
  return String.raw({ raw: strings }, ...values.map(encodeURIComponent));
}

/** Return a new random key for the header `Idempotency-Key`. */
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {string} method @param {string} path @param {Asked} asked @returns {Promise<Response>} a successful response */
async function fetched(method, path, asked) {
  const url = ROOT + path + queryOf(asked.query);
  const body = asked.body === undefined ? undefined : JSON.stringify(asked.body);
  const whose = session.member.value?.id;
  for (;;) {
    const token = asked.isAnonymous ? null : session.token();
    const headers = headersOf(asked, token);
    const response = asked.blob
      ? await uploaded(method, url, headers, asked)
      : await sent(url, { method, body, headers, signal: asked.signal });
    if (response.ok) return response;
    const error = await errorOf(response);
    if (error.code !== "unauthenticated" || asked.isAnonymous || !(await session.renewed(token))) throw error;
    if (session.member.value?.id !== whose) throw error; // never repeat a request as a different member
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

/** The signal of a request: reads have a time limit, since the appliance may hang. @param {string} method @param {Asked} asked */
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

/**
 * Send a file. Unlike `fetch`, this reports the progress.
 * @param {string} method @param {string} url @param {Record<string, string>} headers @param {Asked} asked
 * @returns {Promise<Response>}
 */
function uploaded(method, url, headers, { blob, signal, onProgress }) {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const request = new XMLHttpRequest();
    request.open(method, url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    const after = request.getResponseHeader.bind(request, "Retry-After");
    request.upload.onprogress = (event) => onProgress?.(event.loaded);
    request.onload = () =>
      resolve(new Response(request.response, { status: request.status, headers: { "Retry-After": after() ?? "" } }));
    request.onerror = () => reject(unreachable());
    request.onabort = () => reject(signal?.reason);
    signal?.addEventListener("abort", () => request.abort());
    request.send(blob);
  });
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
