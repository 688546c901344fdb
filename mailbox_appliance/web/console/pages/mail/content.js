// @ts-check
/** The content of a message: header, body and attachments. */
import * as api from "../../api.js";
import { at, post } from "../../api.js";
import { about } from "../../changes.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { useForm } from "../../ui/form.js";
import { Loaded, Problem, useLoad } from "../../ui/load.js";
import { Facts, Warnings } from "../../ui/values.js";
import { count, longTime, number, size, straight } from "../../words.js";
import { MailFrame } from "./frame.js";
import { LinkDialog } from "./link.js";
import { addressOf } from "./sanitize.js";
import { act } from "./toolbar.js";

/** @type {[form: string, label: string][]} */
const FORMS = [
  ["html", "Formatted"],
  ["text", "Plain text"],
  ["source", "Raw message"],
];

const EVERY = 20_000; // milliseconds, without the stream of changes
const MOST_MARKUP = 50_000; // start and end tags; more of them take a browser long to show

/** Load a message, mark it as read, and keep it up to date. @param {string} accountId @param {string} id */
export function useMessage(accountId, id) {
  const path = at`/accounts/${accountId}/messages/${id}`;
  const isOfAccount = about("message", accountId);
  const loading = useLoad((signal) => api.whole(path, {}, signal), [path], {
    on: (change) => isOfAccount(change) && change.data.id === id,
    every: EVERY,
  });
  const { data } = loading;
  const latest = useRef(data);
  latest.current = data;
  const changed = (/** @type {(message: any) => any} */ change) => loading.set(change(latest.current));
  useEffect(() => {
    if (data && !data.flags.read) void act(data, "markRead").then((change) => void (change && changed(change)));
  }, [data?.id]);
  return { loading, changed };
}

/** @param {{message: any}} props with `warnings` */
export function Content({ message }) {
  const hasHtml = Boolean(message.body?.html);
  const [isLarge] = useState(() => (message.body?.html ?? "").split("<").length > MOST_MARKUP);
  const [form, setForm] = useState(hasHtml && !isLarge ? "html" : "text");
  const [seen, setSeen] = useState(/** @type {string[]} */ ([]));
  const [link, setLink] = useState(/** @type {{address: string, text: string} | null} */ (null));
  const forms = hasHtml ? FORMS : FORMS.slice(1);
  const ids = { accountId: message.accountId, messageId: message.id };
  // Pictures shown in the message are not listed as attachments.
  const files = (message.attachments ?? []).filter(
    (/** @type {any} */ { id }) => form !== "html" || !seen.includes(id),
  );
  // The browser downloads large files itself, with a link that expires after five minutes.
  const download = async (/** @type {Attachment} */ file) => {
    const path = at`/accounts/${message.accountId}/messages/${message.id}/attachments/${file.id}/download-link`;
    const { url } = await post(path);
    saved(new URL(url).pathname, nameOf(file));
  };
  return html`
    <${Headers} message=${message} />
    <${Warnings} of=${message.warnings} />
    <div role="group" class="mail-forms" aria-label="Message view">
      ${forms.map(
        ([
          key,
          label,
        ]) => html`<button key=${key} type="button" class="secondary outline small" aria-pressed=${key === form}
        onClick=${() => setForm(key)}>${label}</button>`,
      )}
    </div>
    ${
      form === "html" &&
      html`<${Formatted} message=${message} onLink=${setLink}
      onPicture=${(/** @type {string} */ id) => setSeen((those) => [...those, id])} />`
    }
    ${isLarge && form === "text" && html`<p class="muted">This message is large. The formatted view takes long to load.</p>`}
    ${form === "text" && html`<${PlainText} ...${ids} onLink=${setLink} />`}
    ${form === "source" && html`<${Source} path=${at`/accounts/${message.accountId}/messages/${message.id}/raw`} />`}
    <${Attachments} of=${files} onDownload=${download} />
    ${link && html`<${LinkDialog} link=${link} accountId=${message.accountId} onClose=${() => setLink(null)} />`}`;
}

/** @param {string} contentId */
function bare(contentId) {
  return contentId.trim().replace(/^<|>$/g, "");
}

/** @param {{message: any, onLink: (link: {address: string, text: string}) => void, onPicture: (id: string) => void}} props */
function Formatted({ message, onLink, onPicture }) {
  const [remote, setRemote] = useState(0);
  const [hidden, setHidden] = useState(/** @type {string[]} */ ([]));
  const path = at`/accounts/${message.accountId}/messages/${message.id}`;
  useEffect(() => {
    const query = { format: "markdown", limit: 1 };
    api.ask("GET", `${path}/body`, { query }).then(
      ({ warnings }) => setHidden(warnings.map((one) => `For AI agents: ${one}`)),
      () => setHidden(["This message could not be checked for hidden text."]),
    );
  }, [path]);
  const elsewhere = remote
    ? [
        `${count(remote, "picture was", "pictures were")} not loaded from other servers, because that would tell the sender that you read this message.`,
      ]
    : [];
  const told = [...hidden, ...elsewhere];
  return html`<${Warnings} of=${told} />
    <${MailFrame} source=${message.body.html} name=${`Message: ${straight(message.subject) || "no subject"}`} pictures=${picturesOf(message.attachments ?? [], path)}
      onLink=${onLink} onPicture=${onPicture} onRemote=${setRemote} />`;
}

/** Return a function that finds an embedded picture by its Content-ID. @param {Partial<Attachment>[]} files @param {string} path of the message in the API */
export function picturesOf(files, path) {
  return (/** @type {string} */ contentId) => {
    const { id, mimeType: type } = files.find((one) => isCalled(one.contentId, contentId)) ?? {};
    return id && type ? { id, path: `${path}${at`/attachments/${id}`}`, type } : null;
  };
}

/** @param {string | undefined} contentId @param {string} asked as in the HTML, where it may be encoded (RFC 2392) */
function isCalled(contentId, asked) {
  if (!contentId) return false;
  try {
    return bare(contentId) === asked || bare(contentId) === decodeURIComponent(asked);
  } catch {
    return false;
  }
}

/** @typedef {{name?: string, email: string}} Person */

/** @param {{message: any}} props */
function Headers({ message }) {
  const people = (/** @type {Person[] | undefined} */ those) =>
    those?.length ? html`<${People} of=${those} />` : null;
  return html`<div class="mail-head">
    <p><strong>${message.from ? html`<${Name} person=${message.from} />` : "Unknown sender"}</strong> <time datetime=${message.date}>${longTime(message.date)}</time></p>
    <${Facts} of=${[
      ["To", people(message.to)],
      ["Cc", people(message.cc)],
      ["Bcc", people(message.bcc)],
      ["Reply to", isElsewhere(message) && people(message.replyTo)],
    ]} />
  </div>`;
}

/** Whether replies would go to an address other than the sender's. @param {{from?: Person, replyTo?: Person[]}} message */
function isElsewhere({ from, replyTo = [] }) {
  return replyTo.some((one) => one.email.toLowerCase() !== from?.email.toLowerCase());
}

const MOST = 12;

/** @param {{of: Person[]}} props */
function People({ of: people }) {
  const names = (/** @type {Person[]} */ those) =>
    those.map((one, index) => html`${index > 0 && ", "}<${Name} person=${one} />`);
  if (people.length <= MOST) return names(people);
  return html`${names(people.slice(0, MOST))}
    <details><summary>${people.length - MOST} more</summary>${names(people.slice(MOST))}</details>`;
}

/** A name with its address: a name proves nothing. @param {{person: Person}} props */
export function Name({ person }) {
  const [name, email] = [person.name ?? "", person.email].map(straight);
  if (!name) return html`<bdi>${email}</bdi>`;
  return html`<span><bdi>${name}</bdi> <bdi class="muted">${`<${email}>`}</bdi></span>`;
}

// --- The plain-text view of a message without hidden text, and the raw message. Long ones are loaded in parts ---

const PIECE = 100_000; // characters
const MOST_OF_SOURCE = 300_000;
const LINK = /(https?:\/\/[^\s<>"')\]]+[^\s<>"')\].,;:!?])/;

/** @typedef {(link: {address: string, text: string}) => void} OnLink */

/** @param {{accountId: string, messageId: string, onLink: OnLink}} props */
function PlainText({ accountId, messageId, onLink }) {
  const path = at`/accounts/${accountId}/messages/${messageId}/body`;
  const piece = (/** @type {number} */ offset, /** @type {AbortSignal | undefined} */ signal = undefined) =>
    api.whole(path, { format: "text", offset, limit: PIECE }, signal);
  const loading = useLoad((signal) => piece(0, signal), [path]);
  const more = useForm({}, async () => {
    const { content, nextOffset } = await piece(loading.data.nextOffset);
    loading.set({ ...loading.data, content: loading.data.content + content, nextOffset });
  });
  return html`<${Loaded} of=${loading} what="the text">${(/** @type {any} */ text) => html`
    <${Warnings} of=${text.warnings} />
    <div class="mail-text">${text.content ? linked(text.content, onLink) : html`<span class="muted">This message has no text.</span>`}</div>
    ${
      text.nextOffset !== null &&
      html`<p class="actions"><button type="button" class="secondary" disabled=${more.isBusy} onClick=${() => more.submit()}>Show more</button>
      <small class="muted">${number(text.content.length)} of ${number(text.totalChars)} characters</small></p>`
    }
    <${Problem} error=${more.error} />
  `}<//>`;
}

/** Return a text in which addresses are buttons that ask before they open. @param {string} text @param {OnLink} onLink */
export function linked(text, onLink) {
  return text.split(LINK).map((piece, index) => {
    const address = index % 2 ? addressOf(piece) : "";
    if (!address) return piece;
    return html`<button type="button" class="link" onClick=${() => onLink({ address, text: piece })}>${piece}</button>`;
  });
}

/** @param {{path: string}} props of the raw message in the API */
export function Source({ path }) {
  const loading = useLoad(async (signal) => (await api.file(path, { signal })).blob().then(asText), [path]);
  return html`<${Loaded} of=${loading} what="the raw message">${(
    /** @type {{blob: Blob, text: string}} */ { blob, text },
  ) => {
    return html`<p class="actions"><button type="button" class="secondary outline small" onClick=${() => saveBlob(blob, "message.eml")}>Save as file</button>
      <small class="muted">${size(blob.size)}${blob.size > MOST_OF_SOURCE && `; only the first ${size(MOST_OF_SOURCE)} are shown`}</small></p>
      <pre tabindex="0" aria-label="Raw message">${text}</pre>`;
  }}<//>`;
}

/** @param {Blob} blob */
async function asText(blob) {
  return { blob, text: await blob.slice(0, MOST_OF_SOURCE).text() };
}

// --- The attachments of a message ---

/** @typedef {{id: string, filename: string, mimeType: string, sizeBytes: number, contentId?: string, disposition?: string}} Attachment */

// File types that are programs or contain them. The page warns about them, but does not block them.
const RUNS =
  /\.(?:exe|com|scr|bat|cmd|ps1|vbs?|vbe|jse?|wsf|wsh|hta|msi|msix|lnk|url|jar|app|dmg|pkg|iso|img|vhdx?|reg|cpl|dll|sh|docm|xlsm|pptm|xll|one|html?|svg|chm)$/i;

/**
 * @param {{of: Partial<Attachment>[], onDownload: (file: any) => Promise<void>, heading?: string}} props `of`: without
 *   `id`, they cannot be downloaded any more
 */
export function Attachments({ of: files, onDownload, heading = "h2" }) {
  if (files.length === 0) return null;
  return html`<section class="mail-files" aria-label="Attachments">
    <${heading}>${count(files.length, "attachment")}<//>
    <ul class="deliveries">${files.map((file, index) => html`<${File} key=${file.id ?? index} file=${file} onDownload=${onDownload} />`)}</ul>
  </section>`;
}

/** @param {{file: Attachment, onDownload: (file: Attachment) => Promise<void>}} props */
function File({ file, onDownload }) {
  const name = nameOf(file);
  const { submit, isBusy, error } = useForm({}, () => onDownload(file));
  return html`<li>
    <span class="what"><bdi>${name}</bdi> <small class="muted">${file.mimeType}, ${size(file.sizeBytes)}</small>
      ${RUNS.test(name) && html`<small class="wrong">Files of this type can run programs. Open only files that you expect.</small>`}</span>
    ${file.id && html`<button type="button" class="secondary outline small" aria-label=${`Download ${name}`} aria-busy=${isBusy} disabled=${isBusy} onClick=${() => submit()}>Download</button>`}
    <${Problem} error=${error} />
  </li>`;
}

/** @param {Attachment} file */
export function nameOf({ filename }) {
  return straight(filename) || "Unnamed file";
}

/** Save bytes as a file. @param {Blob} blob @param {string} name */
export function saveBlob(blob, name) {
  const address = URL.createObjectURL(blob);
  saved(address, name);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** Save the file at an address of the console. @param {string} address @param {string} name */
function saved(address, name) {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}
