// @ts-check
/** The initial content of a message: empty, a saved draft, a reply or a forward. */
import * as api from "../../api.js";
import * as words from "../../words.js";
import { attached } from "./files.js";
import { parse, people, written } from "./recipients.js";

const MOST_QUOTED = 20_000; // characters
const MOST_LOOKED_AT = 20; // messages of a conversation

const ALONE =
  "The message that this draft answers is not in this mailbox. If you edit the draft, it becomes a new message.";

/** @typedef {import("./saving.js").Values} Values */
/** @typedef {import("../../accounts.js").Account} Account */
/**
 * @typedef {object} Start
 * @property {Account[]} accounts
 * @property {string} title
 * @property {Values} values
 * @property {import("./saving.js").Place | null} place of the draft, if it is one
 * @property {string[]} warnings
 * @property {any} [original] the message that is forwarded unchanged
 */

/** @param {Record<string, string>} query @returns {Promise<Start | null>} null: no mailbox is connected */
export async function begin(query) {
  /** @type {Account[]} */
  const accounts = await api.get("/accounts");
  const account = query.account ? accounts.find((one) => one.id === query.account) : accounts[0];
  if (!accounts.length) return null;
  if (!account) throw new Error("This mailbox was removed, or is no longer shared with you.");
  const start = { accounts, title: "Write a message", values: nothing(account.id), place: null, warnings: [] };
  if (query.draft) return { ...start, ...(await fromDraft(account.id, query.draft)) };
  if (query.reply) return { ...start, ...(await answering(account.id, query.reply, query.replyAll === "1")) };
  if (query.forward && query.as === "message") return { ...start, ...(await passingOn(account.id, query.forward)) };
  if (query.forward) {
    const original = await message(account.id, query.forward);
    return { ...start, title: "Forward a message", original };
  }
  const { to = "", cc = "", subject = "", body: text = "" } = query;
  return { ...start, values: { ...start.values, to: parse(to), cc: parse(cc), subject, text } };
}

/** @param {string} accountId @returns {Values} */
function nothing(accountId) {
  return { accountId, to: [], cc: [], bcc: [], subject: "", text: "", html: null, files: [], replyTo: null };
}

/** @param {string} accountId @param {string} id */
export function messagePath(accountId, id) {
  return api.at`/accounts/${accountId}/messages/${id}`;
}

/** @param {string} accountId @param {string} id @returns {Promise<any>} */
function message(accountId, id) {
  return api.get(messagePath(accountId, id));
}

/** Return the subject of a forward. @param {{subject: string}} message */
function forwarded({ subject }) {
  return /^fwd?:/i.test(subject) ? subject : `Fwd: ${subject}`;
}

/** @param {string} accountId @param {string} draftId */
async function fromDraft(accountId, draftId) {
  const draft = await api.get(api.at`/accounts/${accountId}/drafts/${draftId}`);
  const html = draft.body?.html ?? null;
  const text = draft.body?.text ?? (html === null ? "" : await textOf(accountId, draftId));
  const answered = headerOf(draft, "in-reply-to");
  const replyTo = answered ? await parentOf(accountId, draft, answered) : null;
  const warnings = answered && !replyTo ? [ALONE] : [];
  const files = await filesOf(accountId, draft);
  const { to, cc = [], bcc = [], subject } = draft;
  const values = { accountId, to, cc, bcc, subject, text: text.replace(/\r\n/g, "\n"), html, files, replyTo };
  return { title: "Draft", values, place: { accountId, draftId }, warnings };
}

/** Return a header field; field names are case-insensitive. @param {any} message @param {string} name @returns {string} */
function headerOf(message, name) {
  const found = Object.entries(message.headers ?? {}).find(([written]) => written.toLowerCase() === name);
  return String(found?.[1] ?? "").trim();
}

/** @param {string} accountId @param {any} of a message @returns {Promise<import("./files.js").Attached[]>} */
async function filesOf(accountId, of) {
  const files = [];
  for (const { id, filename, mimeType, contentId, disposition } of of.attachments ?? []) {
    const answer = await api.file(messagePath(accountId, of.id) + api.at`/attachments/${id}`);
    const about = { filename, mimeType, contentId: contentId || undefined, disposition: disposition || undefined };
    files.push(attached(new Blob([await answer.arrayBuffer()]), about));
  }
  return files;
}

/** Return the ID of the message with this Message-ID in the conversation of a draft. @param {string} accountId @param {any} draft @param {string} answered */
async function parentOf(accountId, draft, answered) {
  const thread = await api.get(api.at`/accounts/${accountId}/threads/${draft.threadId}`, { limit: 100 });
  const others = thread.messages.items.filter((/** @type {any} */ one) => one.id !== draft.id);
  for (const { id } of others.reverse().slice(0, MOST_LOOKED_AT)) {
    const other = await message(accountId, id);
    if (headerOf(other, "message-id") === answered) return id;
  }
  return null;
}

/** @param {string} accountId @param {string} id @param {boolean} replyAll */
async function answering(accountId, id, replyAll) {
  const body = { replyToMessageId: id, replyAll, body: { text: "." } };
  const [parent, quoted, found] = await Promise.all([
    message(accountId, id),
    textOf(accountId, id, MOST_QUOTED),
    api
      .ask("POST", api.at`/accounts/${accountId}/send/preview`, { body })
      .catch((error) =>
        error instanceof api.ApiError && error.status < 500 && error.status ? error : Promise.reject(error),
      ),
  ]);
  const isKnown = !(found instanceof api.ApiError);
  const { to, cc, subject } = isKnown ? found.data : { to: [], cc: [], subject: parent.subject };
  const warnings = isKnown ? found.warnings : [found.details[0]?.message ?? found.message];
  const text = `\n\n${headOf(parent)}\n${quoted.replace(/^/gm, "> ").replace(/^> $/gm, ">")}\n`;
  const values = { ...nothing(accountId), to, cc, subject, text, replyTo: id };
  return { title: replyAll ? "Reply to all" : "Reply", values, warnings };
}

/** @param {any} parent */
function headOf(parent) {
  return `On ${words.longTime(parent.date)}, ${parent.from ? words.person(parent.from) : "Unknown sender"} wrote:`;
}

/** Return a new message with the text and attachments of the original; it can be edited, saved and scheduled. @param {string} accountId @param {string} id */
async function passingOn(accountId, id) {
  const original = await message(accountId, id);
  const head = [
    "---------- Forwarded message ----------",
    `From: ${original.from ? written(original.from) : ""}`,
    `Date: ${words.longTime(original.date)}`,
    `Subject: ${original.subject}`,
    `To: ${people(original.to)}`,
  ];
  const text = `\n\n${head.join("\n")}\n\n${await textOf(accountId, id)}\n`;
  const files = (await filesOf(accountId, original)).map(({ contentId: _, disposition: __, ...file }) => file);
  return { title: "Forward a message", values: { ...nothing(accountId), subject: forwarded(original), text, files } };
}

/** Return the text of a message, or at least its first `most` characters. @param {string} accountId @param {string} id @param {number} [most] */
async function textOf(accountId, id, most = Number.POSITIVE_INFINITY) {
  let text = "";
  /** @type {number | null} */
  let offset = 0;
  while (offset !== null && text.length < most) {
    const part = await api.get(`${messagePath(accountId, id)}/body`, { format: "text", offset });
    text += part.content;
    offset = part.nextOffset;
  }
  return text.replace(/\r\n/g, "\n").trimEnd() + (offset === null ? "" : "\n[…]");
}
