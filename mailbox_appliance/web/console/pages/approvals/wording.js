// @ts-check
/** Approvals as text: their status, and who asks. */

/** @typedef {{name?: string, email: string}} Person */
/**
 * @typedef {object} Approval
 * @property {string} id
 * @property {string} operationId
 * @property {string} accountId
 * @property {"send" | "forward" | "scheduled"} kind
 * @property {"pending" | "approved" | "rejected" | "expired"} status
 * @property {{kind: "session" | "api_key", id: string, name: string}} requestedBy
 * @property {string[]} reasons
 * @property {Person} from
 * @property {Person[]} to
 * @property {Person[]} cc
 * @property {Person[]} bcc
 * @property {string} subject
 * @property {{id?: string, filename: string, mimeType: string, sizeBytes: number, contentId?: string}[]} attachments
 * @property {string} [bodyText]
 * @property {string} [bodyHtml]
 * @property {string} [parentMessageId]
 * @property {string} digest
 * @property {string} createdAt
 * @property {string} expiresAt
 * @property {string} [sendAt]
 * @property {string | null} decidedAt
 * @property {string | null} decidedBy
 */

/** @type {Record<Approval["status"], {name: string, kind: "good" | "bad" | "busy" | "plain", says: string}>} */
export const STATUS = {
  pending: { name: "Waiting", kind: "busy", says: "Nothing is sent until a person approves this message." },
  approved: { name: "Approved", kind: "good", says: "This message was approved. It is sent now, or at its time." },
  rejected: { name: "Rejected", kind: "bad", says: "This message was rejected. It is never sent." },
  expired: {
    name: "Expired",
    kind: "plain",
    says: "Nobody decided in time, or the message was canceled. It is never sent.",
  },
};

/** Return who asks. @param {Approval} approval */
export function askedBy({ requestedBy: { kind, name } }) {
  return kind === "api_key" ? `API key “${name}”` : name;
}

/** @param {Approval} approval */
export function subjectOf({ subject }) {
  return subject || "No subject";
}

/** Whether the sending policy asks for the approval because of this recipient. @param {Approval} approval @param {string} email */
export function isNew({ reasons }, email) {
  return reasons.some((one) => one.toLowerCase().endsWith(`: ${email.toLowerCase()}`));
}
