// @ts-check
/** What a delivery operation means, in words. */
import { longTime } from "../../words.js";

/**
 * @typedef {object} Entry an item of GET /delivery-operations
 * @property {string} operationId
 * @property {string} accountId
 * @property {"send" | "forward" | "scheduled"} kind
 * @property {"queued" | "sending" | "succeeded" | "failed" | "uncertain"} status
 * @property {{id: string, threadId: string, warnings?: string[]}} [result]
 * @property {{code: string}} [error]
 * @property {string} [scheduleId]
 * @property {string} createdAt
 * @property {string} updatedAt
 * @property {string | null} sendAt
 * @property {string | null} subject
 * @property {string[]} recipients
 * @property {boolean} isOwn
 */
/**
 * @typedef {object} Steps
 * @property {string} messageIdHeader
 * @property {number} attempts
 * @property {string | null} nextAttemptAt
 * @property {"none" | "pending" | "filed"} sentCopy
 * @property {number} looks
 * @property {string | null} nextLookAt
 * @property {number | null} replyCode
 * @property {string | null} replyEnhanced
 * @property {{at: string, attempt: number, step: string}[]} steps
 * @property {string[]} warnings
 * @property {string[]} outcomeWarnings those that belong to the current status
 */
/** @typedef {Entry & Steps} Timeline */

/** @typedef {"good" | "bad" | "busy" | "plain"} Look */

/** @type {Record<Entry["status"], {name: string, kind: Look, says: string}>} */
export const STATUS = {
  queued: { name: "Waiting", kind: "busy", says: "It waits for its time, or for the next attempt." },
  sending: { name: "Sending", kind: "busy", says: "It is being handed to the mail server." },
  succeeded: { name: "Sent", kind: "good", says: "The mail server has taken the message." },
  failed: { name: "Not sent", kind: "bad", says: "Nobody got this message." },
  uncertain: {
    name: "Uncertain",
    kind: "bad",
    says: "It may have been delivered, or not: the whole message went out, then no clear answer came back. It is never sent again by itself.",
  },
};

/** Whether it may change by itself soon. @param {Entry} entry */
export const isMoving = (entry) =>
  entry.status === "sending" || (entry.status === "queued" && (entry.sendAt ?? "") <= new Date().toISOString());

/** @type {Record<string, string>} */
const REASONS = {
  sender_rejected: "The mail server does not take mail from this sender.",
  recipient_rejected: "The mail server refused a recipient, so it was sent to nobody. Correct the address.",
  message_rejected: "The mail server refused the message itself, for example as spam.",
  message_too_large: "It is larger than the mail server takes. Send it with fewer or smaller attachments.",
  provider_unavailable: "The mail server was out of reach, or asked to come back later.",
  authentication_failed: "The mail server did not accept the login of this mailbox. Reconnect the mailbox.",
  expired: "It could not be sent within 24 hours of its time.",
  canceled: "It was called back before it was sent.",
  account_removed: "Its mailbox was removed before its time came.",
  permission_revoked: "Whoever scheduled it may not send from this mailbox any more.",
  resolved_as_failed: "A person decided that nobody got it.",
};

/** Why it failed. @param {Entry} entry */
export function reason({ error }) {
  return error ? (REASONS[error.code] ?? `The reason is told as ${error.code}.`) : "";
}

/** @type {Record<Entry["kind"], string>} */
const KIND = { send: "Message", forward: "Forwarded message", scheduled: "Scheduled message" };

/** Its subject; of one whose text is not kept any more, what it was and to whom. @param {Entry} entry */
export function titleOf({ subject, kind, recipients }) {
  if (subject !== null) return subject || "(no subject)";
  return recipients.length ? `${KIND[kind]} to ${recipients[0]}` : KIND[kind];
}

/** What each step says where nothing more is known. @type {Record<string, string>} */
const STEPS = {
  accepted: "Accepted",
  connecting: "Connecting to the mail server",
  envelope: "Telling it the sender and the recipients",
  data: "Asking it to take the message",
  dot: "The message is complete: from here on the server may have taken it",
  replied: "The server answered",
  uncertain: "No clear answer came back: uncertain",
  succeeded: "The mail server has taken it",
  failed: "Not sent",
};
/** @type {Record<string, Look>} */
const LOOKS = { uncertain: "bad", failed: "bad", succeeded: "good" };

/**
 * The steps of a delivery as a person reads them, the first one first, and what is still to come.
 * @param {Timeline} found
 * @returns {[at: string | null, says: string, look: Look][]}
 */
export function story(found) {
  const reply = [found.replyCode, found.replyEnhanced].filter(Boolean).join(" ");
  const wasInDoubt = found.steps.some((one) => one.step === "uncertain");
  const isDecided = found.error?.code === "resolved_as_failed";
  /** @type {ReturnType<typeof story>} */
  const steps = found.steps
    .filter((one) => one.step !== "replied" || found.status === "sending")
    .map(({ at, step, attempt }) => {
      let says = STEPS[step] ?? step;
      if (step === "accepted" && found.sendAt) says += `, to be sent at ${longTime(found.sendAt)}`;
      if (step === "connecting" && attempt > 1) says += ` (attempt ${attempt})`;
      if (step === "succeeded" && wasInDoubt) says = "It is known now that it was delivered";
      else if (step === "failed" && isDecided) says = REASONS.resolved_as_failed ?? "";
      else if (reply && /replied|succeeded|failed/.test(step)) says += ` (${reply})`;
      return [at, says, LOOKS[step] ?? "plain"];
    });
  const next = ahead(found);
  return next ? [...steps, next] : steps;
}

/** @param {Timeline} found @returns {ReturnType<typeof story>[0] | null} */
function ahead({ status, nextAttemptAt, attempts, nextLookAt, sentCopy }) {
  if (status === "queued") return [nextAttemptAt, attempts ? "Next attempt" : "It will be sent", "busy"];
  if (status === "sending") return [null, "Waiting for the mail server", "busy"];
  if (status === "uncertain" && nextLookAt)
    return [nextLookAt, "The appliance looks again whether it has turned up", "busy"];
  if (sentCopy === "filed") return [null, "A copy lies in Sent", "good"];
  return sentCopy === "pending" ? [null, "A copy is being filed in Sent", "busy"] : null;
}
