// @ts-check
/**
 * Handing a message over, at most once. One idempotency key stands for one content until it is known what became of it:
 *
 *     refused, nobody got it .. the same content goes again under the same key, another one under a new key
 *     no answer ............... `unknown`: only the very same request is made again, under its key
 *     an answer ............... it is told; no other request follows by itself
 *
 * Keys belong to a session. Where that has ended meanwhile, a key says nothing about the first try any more: a saved draft
 * still does (the API sends none twice), a forward does not, and is not sent again.
 */
import * as api from "../../api.js";
import { member } from "../../session.js";
import { Shared } from "../../shared.js";
import { isInUse } from "./saving.js";

const KEPT = "mailbox-appliance.sending";

/** `isDraft`: of a saved draft, which the API sends but once. @typedef {{accountId: string, path: string, body: any, mark: string, isDraft: boolean}} Request */
/**
 * `subject`: the draft or the message that it is about; `at`: when it was handed over last, in milliseconds;
 * `request`: null where it was not kept.
 * @typedef {{key: string, subject: string, accountId: string, credential: string, isOpen: boolean, at: number, request: Request | null}} Attempt
 */
/** @typedef {{operationId: string, accountId: string, kind: string, status: "queued" | "sending" | "succeeded" | "failed" | "uncertain", result?: {id: string, threadId: string, warnings?: string[]}, error?: {code: string}, scheduleId?: string}} Delivery */
/** @typedef {{kind: "idle" | "busy" | "unknown" | "refused" | "answered", error?: unknown, isUnsaved?: boolean, isStranger?: boolean, delivery?: Delivery, warnings?: string[]}} State */

export class Sending {
  /**
   * @param {string} subject
   * @param {Attempt | null} [earlier] one before the page was loaded, of which nothing is known
   */
  constructor(subject, earlier = null) {
    this.subject = subject;
    /** @type {State} */
    const first = earlier ? { kind: "unknown", isStranger: earlier.request === null } : { kind: "idle" };
    this.state = new Shared(first);
    this.attempt = earlier;
    this.request = earlier?.request ?? null;
  }

  /** Whether somebody may get the message without our having been told. */
  get isOpen() {
    return this.state.value.kind === "busy" || this.state.value.kind === "unknown";
  }

  /** Whether nothing is left to be done here. */
  get isOver() {
    const { kind, delivery } = this.state.value;
    return kind === "answered" && delivery?.status !== "failed";
  }

  /** A new content; while another one is in doubt nothing happens. @param {() => Promise<Request>} prepare saves it, for instance */
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

  /** The same request again, where no answer came. */
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
      const headers = { "Idempotency-Key": attempt.key };
      const { data, warnings } = await api.ask("POST", request.path, { body: request.body, headers });
      this.settled(null);
      this.state.set({ kind: "answered", delivery: data, warnings });
    } catch (error) {
      if (isDoubtful(error, before)) return void this.state.set({ kind: "unknown", error });
      this.settled({ ...attempt, isOpen: false });
      this.state.set({ kind: "refused", error });
    }
  }

  /** Its key is another session's: it is not made again. @param {Attempt} attempt */
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

  /** One writes on; where the API has the draft under way it says so. */
  reset() {
    this.settled(null);
    this.request = null;
    this.state.set({ kind: "idle" });
  }
}

/**
 * What sends a saved draft. @param {string} accountId @param {string} draftId @param {string | null} sendAt RFC 3339; null: now
 * @param {string} version of its content @returns {Request}
 */
export function sendRequest(accountId, draftId, sendAt, version) {
  const body = { draftId, ...(sendAt && { sendAt }) };
  const mark = `${draftId} ${version} ${sendAt}`;
  return { accountId, path: api.at`/accounts/${accountId}/send`, body, mark, isDraft: true };
}

/**
 * Whether the request may have been taken all the same. After an earlier try only those answers tell that come after
 * the API has looked for the key.
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
  return error.status === 409 && error.code === "conflict" && isInUse(error) === null;
}

/** An attempt of which this tab knows no outcome. @param {string} subject @returns {Attempt | null} */
export function earlier(subject) {
  return all().find((one) => one.subject === subject) ?? null;
}

/** What was tried of it is over, or the person says so. @param {string} subject */
export function forget(subject) {
  keep(all().filter((one) => one.subject !== subject));
}

/** In place of what was tried of it before. @param {string} subject @param {Attempt} attempt */
function remember(subject, attempt) {
  const attempts = [...all().filter((one) => one.subject !== subject), attempt];
  try {
    keep(attempts);
  } catch {
    keep(attempts.map(bare)); // there is no room for a text of this length
  }
}

/** @param {Attempt[]} attempts */
function keep(attempts) {
  if (attempts.length) sessionStorage.setItem(KEPT, JSON.stringify(attempts));
  else sessionStorage.removeItem(KEPT);
}

/** Ids and the key, nothing of what was written. @param {Attempt} attempt @returns {Attempt} */
function bare(attempt) {
  return attempt.request?.isDraft ? attempt : { ...attempt, request: null };
}

member.watch((now) => now ?? keep(all().map(bare))); // no text outlives who wrote it

/** @returns {Attempt[]} */
function all() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
  } catch {
    return [];
  }
}
