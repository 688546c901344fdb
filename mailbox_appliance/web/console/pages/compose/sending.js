// @ts-check
/**
 * Sending a message at most once. One idempotency key stands for one content until the outcome is known:
 *
 *     refused, not sent ....... the same content is sent again with the same key, other content with a new key
 *     no response ............. `unknown`: only the same request is repeated, with its key
 *     a response .............. it is shown; no other request follows automatically
 *
 * Keys belong to a session. After the session has ended, a key no longer identifies the first attempt. A saved draft still
 * does (the API never sends a draft twice); a forward does not, so it is not sent again.
 */
import * as api from "../../api.js";
import { member } from "../../session.js";
import { Shared } from "../../shared.js";
import { isInUse } from "./saving.js";

const KEPT = "mailbox-appliance.sending";

/** `isDraft`: for a saved draft, which the API sends only once; `digest`: of the preview that the message must match. @typedef {{accountId: string, path: string, body: any, mark: string, isDraft: boolean, digest?: string}} Request */
/**
 * `subject`: the ID of the draft or message; `at`: the time of the last attempt, in milliseconds;
 * `request`: null if it was not kept.
 * @typedef {{key: string, subject: string, accountId: string, credential: string, isOpen: boolean, at: number, request: Request | null}} Attempt
 */
/** @typedef {{operationId: string, accountId: string, kind: string, status: "queued" | "sending" | "succeeded" | "failed" | "uncertain", result?: {id: string, threadId: string, warnings?: string[]}, error?: {code: string}, scheduleId?: string}} Delivery */
/** @typedef {{kind: "idle" | "busy" | "unknown" | "refused" | "answered", error?: unknown, isUnsaved?: boolean, isStranger?: boolean, delivery?: Delivery, warnings?: string[]}} State */

export class Sending {
  /**
   * @param {string} subject
   * @param {Attempt | null} [earlier] an attempt before the page was loaded, with an unknown outcome
   */
  constructor(subject, earlier = null) {
    this.subject = subject;
    /** @type {State} */
    const first = earlier ? { kind: "unknown", isStranger: earlier.request === null } : { kind: "idle" };
    this.state = new Shared(first);
    this.attempt = earlier;
    this.request = earlier?.request ?? null;
  }

  /** Whether the message may be sent although no response confirmed it. */
  get isOpen() {
    return this.state.value.kind === "busy" || this.state.value.kind === "unknown";
  }

  /** Whether sending has finished. */
  get isOver() {
    const { kind, delivery } = this.state.value;
    return kind === "answered" && delivery?.status !== "failed";
  }

  /** Send new content. Does nothing while the outcome of other content is unknown. @param {() => Promise<Request>} prepare for example saves the draft */
  async send(prepare) {
    if (this.isOpen || this.isOver) return;
    this.state.set({ kind: "busy" });
    try {
      const request = await prepare();
      if (this.request?.mark !== request.mark || this.attempt === null) this.attempt = this.begun(request);
      this.request = request;
    } catch (error) {
      return void this.state.set({ kind: "refused", error, isUnsaved: true });
    }
    await this.post(this.request);
  }

  /** Repeat the same request after a lost response. */
  async again() {
    if (this.state.value.kind !== "unknown" || this.request === null) return;
    this.state.set({ kind: "busy" });
    await this.post(this.request);
  }

  /** @param {Request} request @returns {Attempt} */
  begun({ accountId }) {
    const { subject } = this;
    return { key: api.newKey(), subject, accountId, credential: "", isOpen: false, at: 0, request: null };
  }

  /** @param {Request} request */
  async post(request) {
    const attempt = this.attempt ?? this.begun(request);
    const before = attempt.isOpen;
    try {
      const credential = (await api.get("/me")).credential.id;
      if (before && !request.isDraft && credential !== attempt.credential) return this.strange(attempt);
      this.attempt = { ...attempt, credential, isOpen: true, at: Date.now(), request };
    } catch (error) {
      return void this.state.set({ kind: before ? "unknown" : "refused", error });
    }
    remember(this.subject, this.attempt);
    try {
      /** @type {Record<string, string>} */
      const headers = { "Idempotency-Key": attempt.key };
      if (request.digest) headers["If-Match"] = `"${request.digest}"`;
      const { data, warnings } = await api.ask("POST", request.path, { body: request.body, headers });
      this.settled(null);
      this.state.set({ kind: "answered", delivery: data, warnings });
    } catch (error) {
      if (isDoubtful(error, before)) return void this.state.set({ kind: "unknown", error });
      this.settled({ ...attempt, isOpen: false });
      this.state.set({ kind: "refused", error });
    }
  }

  /** The key belongs to another session, so do not repeat the request. @param {Attempt} attempt */
  strange(attempt) {
    this.attempt = bare(attempt);
    this.request = null;
    remember(this.subject, this.attempt);
    this.state.set({ kind: "unknown", isStranger: true });
  }

  /** @param {Attempt | null} attempt */
  settled(attempt) {
    this.attempt = attempt;
    forget(this.subject);
  }

  /** Return to editing. If the API is sending the draft, it refuses the next save. */
  reset() {
    this.settled(null);
    this.request = null;
    this.state.set({ kind: "idle" });
  }
}

/**
 * Return the request that sends a saved draft. @param {string} accountId @param {string} draftId @param {string | null} sendAt RFC 3339; null: now
 * @param {string} version of its content @returns {Request}
 */
export function sendRequest(accountId, draftId, sendAt, version) {
  const body = { draftId, ...(sendAt && { sendAt }) };
  const mark = `${draftId} ${version} ${sendAt}`;
  return { accountId, path: api.at`/accounts/${accountId}/send`, body, mark, isDraft: true };
}

/**
 * Whether the request may have been accepted despite the error. After an earlier attempt, only errors that come after
 * the API has checked the key are certain.
 * @param {unknown} error
 * @param {boolean} isRetry
 */
function isDoubtful(error, isRetry) {
  if (!(error instanceof api.ApiError)) return true;
  if (isRetry) return ![400, 409, 422].includes(error.status) || isBeingDecided(error);
  return error.status === 0 || error.code === "foreign_answer" || error.status === 500 || isBeingDecided(error);
}

/** @param {api.ApiError} error */
function isBeingDecided(error) {
  const isChanged = error.details.some((one) => one.path === "header:If-Match"); // it is not what the preview showed
  return error.status === 409 && error.code === "conflict" && isInUse(error) === null && !isChanged;
}

/** Return an attempt of this tab with an unknown outcome. @param {string} subject @returns {Attempt | null} */
export function earlier(subject) {
  return all().find((one) => one.subject === subject) ?? null;
}

/** Forget an attempt that is finished, or that the person gave up. @param {string} subject */
export function forget(subject) {
  keep(all().filter((one) => one.subject !== subject));
}

/** Keep an attempt in place of the one before. @param {string} subject @param {Attempt} attempt */
function remember(subject, attempt) {
  const attempts = [...all().filter((one) => one.subject !== subject), attempt];
  try {
    keep(attempts);
  } catch {
    keep(attempts.map(bare)); // the storage is too small for this text
  }
}

/** @param {Attempt[]} attempts */
function keep(attempts) {
  if (attempts.length) sessionStorage.setItem(KEPT, JSON.stringify(attempts));
  else sessionStorage.removeItem(KEPT);
}

/** Return the attempt without its text, if the text is not needed. @param {Attempt} attempt @returns {Attempt} */
function bare(attempt) {
  return attempt.request?.isDraft ? attempt : { ...attempt, request: null };
}

member.watch((now) => now ?? keep(all().map(bare))); // at sign-out, no text is kept

/** @returns {Attempt[]} */
function all() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
  } catch {
    return [];
  }
}
