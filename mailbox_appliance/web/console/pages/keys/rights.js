// @ts-check
/** The permissions of a key as values and as text. Pure functions. */
import { list } from "../../words.js";

/**
 * @typedef {object} ApiKey
 * @property {string} id
 * @property {string} name
 * @property {string} createdAt
 * @property {string | null} lastUsedAt
 * @property {string} memberId
 * @property {"read-only" | "read-write" | "full" | "custom"} permissionProfile
 * @property {string[]} capabilities
 * @property {string[]} supplementalCapabilities
 * @property {string[] | null} accountIds
 */
/**
 * The chosen permissions: `mail` applies only with the profile "custom", `accounts` only with the reach "some".
 * @typedef {object} Rights
 * @property {string} profile
 * @property {string[]} mail
 * @property {string[]} admin
 * @property {"all" | "some"} reach
 * @property {string[]} accounts
 */
/** `brief`: in a sentence; `full`: on its own. @typedef {{id: string, brief: string, full: string}} Capability */

/** @type {Capability[]} */
export const MAIL = [
  { id: "mail.read", brief: "read mail", full: "Read, list and search mail, and download attachments" },
  { id: "mail.drafts", brief: "write drafts", full: "Create, change and delete drafts, without sending them" },
  { id: "mail.organize", brief: "organize mail", full: "Mark, star, label, archive and move messages" },
  { id: "mail.trash", brief: "trash mail", full: "Move messages to the trash and back" },
  { id: "mail.delete", brief: "delete mail permanently", full: "Delete messages permanently" },
  { id: "mail.send", brief: "send mail", full: "Send, forward and schedule mail from these mailboxes" },
];
/** @type {Capability[]} */
export const ADMIN = [
  {
    id: "admin.accounts",
    brief: "manage mailboxes",
    full: "Connect mailboxes, remove access to them, set up OAuth apps",
  },
  {
    id: "admin.members",
    brief: "manage members",
    full: "Invite, edit, suspend and remove members who are not administrators, and reset their passwords, which gives access to all their mail",
  },
  { id: "admin.api_keys", brief: "manage API keys", full: "View, edit and revoke all members' API keys" },
  { id: "admin.license", brief: "change the license", full: "View and change the license" },
  { id: "admin.audit", brief: "read the audit log", full: "Read the audit log" },
];
/** @type {Record<string, {label: string, hint: string, mail: string[]}>} */
export const PROFILES = {
  "read-only": {
    label: "Read only",
    hint: "Cannot change or send anything.",
    mail: ["mail.read"],
  },
  "read-write": {
    label: "Read and organize",
    hint: "Can also write drafts, label, archive and trash. Cannot send: you send its drafts.",
    mail: ["mail.read", "mail.drafts", "mail.organize", "mail.trash"],
  },
  full: {
    label: "Full mail access",
    hint: "Can also send in your name and delete permanently.",
    mail: MAIL.map((one) => one.id),
  },
};

/** The initial choice: the least that is useful. @returns {Rights} */
export function noRights() {
  return { profile: "read-only", mail: ["mail.read"], admin: [], reach: "all", accounts: [] };
}

/** @param {ApiKey} key @returns {Rights} */
export function rightsOf(key) {
  return {
    profile: key.permissionProfile,
    mail: key.capabilities.filter((one) => one.startsWith("mail.")),
    admin: key.capabilities.filter((one) => one.startsWith("admin.")),
    reach: key.accountIds === null ? "all" : "some",
    accounts: key.accountIds ?? [],
  };
}

/** Return all capabilities of the choice. @param {Rights} rights @returns {string[]} */
export function held(rights) {
  return [...(PROFILES[rights.profile]?.mail ?? rights.mail), ...rights.admin];
}

/** Return the capabilities in the form of the API. @param {Rights} rights */
export function permissionsOf(rights) {
  if (!PROFILES[rights.profile]) return { customCapabilities: held(rights) };
  return { permissionProfile: rights.profile, supplementalCapabilities: rights.admin };
}

/** Return the mailboxes in the form of the API. @param {Rights} rights */
export function scopeOf(rights) {
  return rights.reach === "all" ? null : rights.accounts;
}

/**
 * Return one to three sentences about what the key can and cannot do.
 * @param {Rights} rights
 * @param {{id: string, email: string}[]} accounts
 * @param {string} [owner] the owner's name, if it is another member
 */
export function sentence(rights, accounts, owner) {
  const has = held(rights);
  const can = MAIL.filter((one) => has.includes(one.id)).map((one) => one.brief);
  const cannot = MAIL.filter((one) => !has.includes(one.id)).map((one) => one.brief);
  const rules = ADMIN.filter((one) => has.includes(one.id)).map((one) => one.brief);
  if (has.length === 0) return "This key has no permissions yet.";
  const mail = can.length ? `can ${list(can)} ${whereOf(rights, accounts, owner)}` : "has no access to mail";
  const not = can.length && cannot.length ? ` It cannot ${list(cannot, true)}.` : "";
  return `This key ${mail}.${not}${rules.length ? ` It can also ${list(rules)}.` : ""}`;
}

/** @param {Rights} rights @param {{id: string, email: string}[]} accounts @param {string} [owner] */
function whereOf(rights, accounts, owner) {
  if (rights.reach === "all") return `in all ${owner ? `${owner}'s` : "your"} mailboxes, including future ones`;
  const names = rights.accounts.map(
    (id) => accounts.find((one) => one.id === id)?.email ?? "a mailbox you cannot access",
  );
  return names.length ? `in ${list(names)} only` : "in no mailbox";
}

/** Return warnings about risky permissions. @param {Rights} rights */
export function cautions(rights) {
  const has = held(rights);
  const mail = has.filter((one) => one.startsWith("mail."));
  /** @type {[boolean, string][]} */
  const rules = [
    [mail.length > 0 && !has.includes("mail.read"), "Without “read mail”, it cannot find mailboxes or messages."],
    [has.includes("mail.send"), "It sends without asking. Sent messages cannot be recalled."],
    [has.includes("mail.delete"), "Messages that it deletes permanently cannot be recovered."],
    [
      mail.length > 0 && rights.reach === "some" && rights.accounts.length === 0,
      "No mailbox is selected, so it has access to none.",
    ],
    [
      has.includes("admin.members"),
      "Anyone with this key can reset the password of any member who is not an administrator, and so read all their mail.",
    ],
  ];
  return rules.filter(([isSo]) => isSo).map(([, text]) => text);
}
