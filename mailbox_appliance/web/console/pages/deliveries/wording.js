// @ts-check
/** The texts for the statuses, errors and steps of delivery operations. */
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
 * @property {string | null} [approvalId] the approval that it waits for; null if only others see that approval
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
  queued: { name: "Waiting", kind: "busy", says: "The message waits for its scheduled time or the next attempt." },
  sending: { name: "Sending", kind: "busy", says: "The message is being submitted to the mail server." },
  succeeded: { name: "Sent", kind: "good", says: "The mail server accepted the message." },
  failed: { name: "Not sent", kind: "bad", says: "Nobody received this message." },
  uncertain: {
    name: "Uncertain",
    kind: "bad",
    says: "The message was submitted, but the mail server did not confirm it. It may have been delivered. It is never resent automatically.",
  },
};

/** Return how the status is shown. @param {Entry} entry */
export function lookOf({ status, approvalId }) {
  return approvalId === undefined ? STATUS[status] : WAITS_FOR_APPROVAL;
}

/** @type {{name: string, kind: Look, says: string}} */
const WAITS_FOR_APPROVAL = {
  name: "Waits for approval",
  kind: "busy",
  says: "Nothing is sent until a person approves this message.",
};

/** Whether the status is likely to change soon. @param {Entry} entry */
export const isMoving = (entry) =>
  entry.status === "sending" ||
  (entry.status === "queued" && entry.approvalId === undefined && (entry.sendAt ?? "") <= new Date().toISOString());

/** @type {Record<string, string>} */
const REASONS = {
  sender_rejected: "The mail server rejects mail from this sender.",
  recipient_rejected: "The mail server rejected a recipient. Correct the address.",
  message_rejected: "The mail server rejected the message, for example as spam.",
  message_too_large: "The message is too large for the mail server. Send it with fewer or smaller attachments.",
  provider_unavailable: "The mail server was unavailable, or asked to try again later.",
  authentication_failed: "The mail server rejected the sign-in of this mailbox. Sign in to the mailbox again.",
  expired: "The message could not be sent within 24 hours of its scheduled time.",
  approval_rejected: "A person rejected it.",
  approval_expired: "Nobody approved it in time.",
  canceled: "The message was canceled before it was sent.",
  account_removed: "Its mailbox was removed before the scheduled time.",
  permission_revoked: "The member or API key that scheduled it can no longer send from this mailbox.",
  resolved_as_failed: "A person resolved it as not sent.",
};

/** Return why a delivery failed. @param {Entry} entry */
export function reason({ error }) {
  return error ? (REASONS[error.code] ?? `Reason code: ${error.code}.`) : "";
}

/** @type {Record<Entry["kind"], string>} */
const KIND = { send: "Message", forward: "Forwarded message", scheduled: "Scheduled message" };

/** Return the subject, or the kind and a recipient if the text is no longer stored. @param {Entry} entry */
export function titleOf({ subject, kind, recipients }) {
  if (subject !== null) return subject || "(no subject)";
  return recipients.length ? `${KIND[kind]} to ${recipients[0]}` : KIND[kind];
}

/** The standard text of each step. @type {Record<string, string>} */
const STEPS = {
  accepted: "Accepted",
  connecting: "Connecting to the mail server",
  envelope: "Sending the sender and recipient addresses",
  data: "Submitting the message",
  dot: "The complete message was transferred, so the server may have accepted it",
  replied: "The server replied",
  uncertain: "The server did not confirm the message: uncertain",
  succeeded: "The mail server accepted the message",
  failed: "Not sent",
};
/** @type {Record<string, Look>} */
const LOOKS = { uncertain: "bad", failed: "bad", succeeded: "good" };

/**
 * Return the steps of a delivery as texts, oldest first, with the expected next step at the end.
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
      if (step === "succeeded" && wasInDoubt) says = "Delivery is now confirmed";
      else if (step === "failed" && isDecided) says = REASONS.resolved_as_failed ?? "";
      else if (reply && /replied|succeeded|failed/.test(step)) says += ` (${reply})`;
      return [at, says, LOOKS[step] ?? "plain"];
    });
  const next = ahead(found);
  return next ? [...steps, next] : steps;
}

/** @param {Timeline} found @returns {ReturnType<typeof story>[0] | null} */
function ahead({ status, nextAttemptAt, attempts, nextLookAt, sentCopy, approvalId }) {
  if (approvalId !== undefined) return [nextAttemptAt, "Waits for approval, and expires", "busy"];
  if (status === "queued") return [nextAttemptAt, attempts ? "Next attempt" : "Scheduled to be sent", "busy"];
  if (status === "sending") return [null, "Waiting for the mail server", "busy"];
  if (status === "uncertain" && nextLookAt) return [nextLookAt, "Next automatic check of Sent and the inbox", "busy"];
  if (sentCopy === "filed") return [null, "A copy is in Sent", "good"];
  return sentCopy === "pending" ? [null, "A copy is being saved in Sent", "busy"] : null;
}
