// @ts-check
/** Webhooks as text: their events, mailboxes and status. */
import { nameOf } from "../../accounts.js";
import { html } from "../../html.js";
import { Badge } from "../../ui/values.js";
import { list } from "../../words.js";

/**
 * @typedef {object} Webhook
 * @property {string} id
 * @property {string} url
 * @property {string[]} types
 * @property {string[] | null} accountIds
 * @property {boolean} includeBody
 * @property {"active" | "disabled"} status
 * @property {string} createdAt
 * @property {string | null} lastSuccessAt
 * @property {{at: string, status: number | null, reason: string} | null} lastFailure
 */

/** The types of events that can be chosen, with their names. @type {[type: string, name: string, hint: string][]} */
export const TYPES = [
  ["message.created", "New messages", "Including copies of sent mail, and drafts."],
  ["message.updated", "Changed messages", "Read, starred or labeled."],
  ["message.moved", "Moved messages", "Archived and trashed ones too."],
  ["message.deleted", "Deleted messages", ""],
  ["delivery.updated", "Deliveries", "Scheduled, sent, failed or uncertain."],
  ["account.updated", "Status of mailboxes", "For example when one needs a new sign-in."],
];
/** Those that only administrators get. @type {typeof TYPES} */
export const ADMIN_TYPES = [
  ["backup.finished", "Backups", "When one is finished."],
  ["backup.failed", "Failed backups", "When a daily backup failed."],
];

/** @param {Webhook} webhook */
export function eventsOf({ types }) {
  const names = new Map([...TYPES, ...ADMIN_TYPES].map(([type, name]) => [type, name]));
  return list(types.map((type) => names.get(type) ?? type));
}

/** @param {Webhook} webhook @param {import("../../accounts.js").Account[]} accounts */
export function mailboxesOf({ accountIds }, accounts) {
  if (accountIds === null) return "All mailboxes that you can read, including future ones";
  const found = accountIds.map((id) => accounts.find((one) => one.id === id));
  return list(found.map((one) => (one ? nameOf(one) : "a mailbox you cannot access")));
}

/** Whether the newest attempt failed. @param {Webhook} webhook */
export function isFailing({ lastFailure, lastSuccessAt }) {
  return lastFailure !== null && lastFailure.at > (lastSuccessAt ?? "");
}

/** @param {{of: Webhook}} props */
export function Status({ of: webhook }) {
  if (webhook.status === "disabled") return html`<${Badge} kind="bad">Disabled<//>`;
  if (isFailing(webhook)) return html`<${Badge} kind="busy">Failing<//>`;
  return html`<${Badge} kind="good">Active<//>`;
}
