// @ts-check
/** Saving a message as a draft of its mailbox during writing, one save at a time. */
import * as api from "../../api.js";
import { Shared } from "../../shared.js";
import { drop, encoded, total } from "./files.js";
import { given } from "./recipients.js";

const PAUSE = 2_000; // milliseconds without a change
const MORE_PER_BYTE = 1 / 1000; // milliseconds; each save uploads all attachments
const AGAIN = 15_000; // milliseconds between a failed save and the next

/**
 * @typedef {object} Values the content of a message
 * @property {string} accountId
 * @property {import("./recipients.js").Recipient[]} to
 * @property {import("./recipients.js").Recipient[]} cc
 * @property {import("./recipients.js").Recipient[]} bcc
 * @property {string} subject
 * @property {string} text
 * @property {string | null} html as another program wrote it; it is dropped when the text changes
 * @property {import("./files.js").Attached[]} files
 * @property {string | null} replyTo the ID of the message that this replies to
 */
/** @typedef {{accountId: string, draftId: string}} Place */
/** `lost`: the draft can no longer be saved; `error` is the reason. @typedef {{kind: "new" | "changed" | "busy" | "saved" | "failed" | "lost", error?: unknown}} State */

export class Saving {
  /** @param {Values} values @param {Place | null} place of the saved draft @param {(place: Place) => void} onPlace called when the draft has a new place */
  constructor(values, place, onPlace) {
    this.values = values;
    this.place = place;
    this.onPlace = onPlace;
    this.version = 0;
    this.saved = place ? 0 : -1;
    /** @type {Shared<State>} */
    this.state = new Shared(/** @type {State} */ ({ kind: place ? "saved" : "new" }));
    /** @type {Promise<void> | null} */
    this.running = null;
    this.timer = 0;
    this.isMoving = false;
    this.isStopped = false;
    this.isLeaving = false; // an earlier attempt may have deleted the draft of the previous mailbox
    this.reading = Promise.resolve();
    this.filesToRead = 0;
  }

  /** Whether some of the content exists only in this tab. */
  get isUnsaved() {
    if (this.isStopped) return false;
    return this.filesToRead > 0 || (this.version > 0 && (this.saved !== this.version || leftOut(this.values) !== ""));
  }

  /** @param {Values} values */
  change(values) {
    this.values = values;
    this.version += 1;
    if (this.state.value.kind === "lost") return;
    if (!this.running) this.state.set({ kind: "changed" });
    this.plan(PAUSE + total(values.files) * MORE_PER_BYTE);
  }

  /** @param {number} wait milliseconds */
  plan(wait) {
    clearTimeout(this.timer);
    if (!this.isStopped) this.timer = setTimeout(() => void this.save().catch(() => undefined), wait);
  }

  /** Stop saving, and stop changing the address, because the page is left. */
  stop() {
    this.isStopped = true;
    clearTimeout(this.timer);
  }

  /** Read files one at a time. Sending waits for them. @param {() => Promise<void>} read */
  async reads(read) {
    this.filesToRead += 1;
    this.reading = this.reading.then(read).finally(() => {
      this.filesToRead -= 1;
    });
    await this.reading;
  }

  /** Save the current content; returns when the server has it. Throws ApiError. @returns {Promise<Place>} */
  async save() {
    clearTimeout(this.timer);
    while (this.saved !== this.version || this.place === null) {
      this.running ??= this.once().finally(() => {
        this.running = null;
      });
      await this.running;
    }
    return this.place;
  }

  async once() {
    const { version, values } = this;
    this.state.set({ kind: "busy" });
    try {
      await this.put(values);
      this.saved = version;
      this.state.set({ kind: this.saved === this.version ? "saved" : "changed" });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") {
        this.state.set({ kind: "changed" }); // the person canceled an upload, which removes its file
        return;
      }
      const isLost =
        error instanceof api.ApiError && (isGone(error) || isInUse(error) || error.code === "sync_required");
      this.state.set({ kind: isLost ? "lost" : "failed", error });
      if (!isLost && error instanceof api.ApiError && (error.status === 0 || error.status >= 429)) this.plan(AGAIN);
      throw error;
    }
  }

  /** @param {Values} values */
  async put(values) {
    const body = await draftOf(values);
    try {
      await this.send(values.accountId, body);
    } catch (error) {
      drop(body.attachments); // the next save uploads them again
      throw error;
    }
  }

  /** @param {string} accountId @param {Awaited<ReturnType<typeof draftOf>>} body */
  async send(accountId, body) {
    const before = this.place;
    if (before?.accountId === accountId) {
      await api.put(api.at`/accounts/${accountId}/drafts/${before.draftId}`, body);
      return;
    }
    if (before) {
      // Delete the old draft first. The API refuses if it was sent or is being sent, so no second copy is created.
      await this.leave(before);
      this.place = null;
    }
    const made = await api.post(api.at`/accounts/${accountId}/drafts`, body);
    this.moved({ accountId, draftId: made.id });
  }

  /** Delete the draft. @param {Place} before @param {boolean} [isFine] whether it may already be deleted */
  async leave({ accountId, draftId }, isFine = this.isLeaving) {
    await api.remove(api.at`/accounts/${accountId}/drafts/${draftId}`).catch((error) => {
      this.isLeaving = error.status === 0; // no response, so it may be deleted
      if (error.status !== 404 || !isFine) throw error;
    });
  }

  /** @param {Place} place */
  moved(place) {
    this.place = place;
    if (this.isStopped) return;
    this.isMoving = true;
    this.onPlace(place);
    this.isMoving = false;
  }

  /** Save again to find out whether the draft still exists; the state shows the result. */
  async check() {
    this.saved = -1;
    await this.save().catch(() => undefined);
  }

  /** Save the content as a new draft. */
  async saveAsNew() {
    this.place = null;
    this.version += 1;
    await this.save();
  }
}

/** Whether the draft does not exist any more; an upload that has ended is sent again with the next save. @param {api.ApiError} error */
function isGone(error) {
  return error.status === 404 && !error.details.some(({ path }) => path.endsWith("/uploadId"));
}

/** The delivery operation that uses or has sent the draft, if the error names one. @param {unknown} error @returns {string | null} */
export function isInUse(error) {
  if (!(error instanceof api.ApiError) || error.status !== 409) return null;
  return error.details.find((one) => one.path === "operation")?.message ?? null;
}

/** The invalid addresses, which a draft cannot contain. @param {Values} values */
export function leftOut({ to, cc, bcc }) {
  const wrong = [...to, ...cc, ...bcc].filter((one) => one.isWrong);
  return wrong.map((one) => one.email).join(", ");
}

/** Return the content in the form of the API. @param {Values} values */
async function draftOf({ to, cc, bcc, subject, text, html, files, replyTo }) {
  return {
    to: given(to),
    cc: given(cc),
    bcc: given(bcc),
    subject,
    body: { text, ...(html !== null && { html }) },
    attachments: await Promise.all(files.map(encoded)),
    ...(replyTo && { replyToMessageId: replyTo }),
  };
}
