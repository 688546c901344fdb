// @ts-check
/** A message is kept among the drafts of its mailbox while one writes, one save after the other. */
import * as api from "../../api.js";
import { Shared } from "../../shared.js";
import { given } from "./addresses.js";
import { encoded, total } from "./files.js";

const PAUSE = 2_000; // milliseconds without a change
const MORE_PER_BYTE = 1 / 1000; // milliseconds: large files travel with each save
const AGAIN = 15_000; // milliseconds after a save that failed

/**
 * @typedef {object} Values what one writes
 * @property {string} accountId
 * @property {import("./addresses.js").Recipient[]} to
 * @property {import("./addresses.js").Recipient[]} cc
 * @property {import("./addresses.js").Recipient[]} bcc
 * @property {string} subject
 * @property {string} text
 * @property {string | null} html as another program wrote it; it goes with the text that it belongs to
 * @property {import("./files.js").Attached[]} files
 * @property {string | null} replyTo the message that this answers
 */
/** @typedef {{accountId: string, draftId: string}} Place */
/** `lost`: the draft is no longer ours to write; why. @typedef {{kind: "new" | "changed" | "busy" | "saved" | "failed" | "lost", error?: unknown}} State */

export class Saving {
  /** @param {Values} values @param {Place | null} place where it lies already @param {(place: Place) => void} onPlace it lies elsewhere now */
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
    this.isLeaving = false; // the draft of the mailbox before may be deleted already, by ourselves
    this.reading = Promise.resolve();
    this.filesToRead = 0;
  }

  /** Whether anything that was typed lies nowhere but here. */
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

  /** The page is left: nothing is saved, and nobody is led anywhere, from now on. */
  stop() {
    this.isStopped = true;
    clearTimeout(this.timer);
  }

  /** Files come in one after the other; nothing is sent before they are there. @param {() => Promise<void>} read */
  async reads(read) {
    this.filesToRead += 1;
    this.reading = this.reading.then(read).finally(() => {
      this.filesToRead -= 1;
    });
    await this.reading;
  }

  /** Everything as it is now lies at the server when this returns. Raises ApiError. @returns {Promise<Place>} */
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
      const isLost =
        error instanceof api.ApiError && (error.status === 404 || isInUse(error) || error.code === "sync_required");
      this.state.set({ kind: isLost ? "lost" : "failed", error });
      if (!isLost && error instanceof api.ApiError && (error.status === 0 || error.status >= 429)) this.plan(AGAIN);
      throw error;
    }
  }

  /** @param {Values} values */
  async put(values) {
    const { accountId } = values;
    const body = await draftOf(values);
    const before = this.place;
    if (before?.accountId === accountId) {
      await api.put(api.at`/accounts/${accountId}/drafts/${before.draftId}`, body);
      return;
    }
    if (before) {
      // First of all: where it has been sent, or is being sent, this is refused, and no second one comes to be.
      await this.leave(before);
      this.place = null;
    }
    const made = await api.post(api.at`/accounts/${accountId}/drafts`, body);
    this.moved({ accountId, draftId: made.id });
  }

  /** Deletes the draft there. @param {Place} before @param {boolean} [isFine] whether it may be gone already */
  async leave({ accountId, draftId }, isFine = this.isLeaving) {
    await api.remove(api.at`/accounts/${accountId}/drafts/${draftId}`).catch((error) => {
      this.isLeaving = error.status === 0; // an answer was lost
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

  /** The draft may not be there any more: finds out, and tells by its state. */
  async check() {
    this.saved = -1;
    await this.save().catch(() => undefined);
  }

  /** What is here becomes a draft of its own. */
  async saveAsNew() {
    this.place = null;
    this.version += 1;
    await this.save();
  }
}

/** The delivery operation that uses or has sent the draft, if the error names one. @param {unknown} error @returns {string | null} */
export function isInUse(error) {
  if (!(error instanceof api.ApiError) || error.status !== 409) return null;
  return error.details.find((one) => one.path === "operation")?.message ?? null;
}

/** What is no address, so that no draft has it. @param {Values} values */
export function leftOut({ to, cc, bcc }) {
  const wrong = [...to, ...cc, ...bcc].filter((one) => one.isWrong);
  return wrong.map((one) => one.email).join(", ");
}

/** As the API takes it. @param {Values} values */
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
