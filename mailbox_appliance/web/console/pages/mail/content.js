// @ts-check
/** The content of a message: header, body and attachments. */
import * as api from "../../api.js";
import { at } from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { useLoad } from "../../ui/load.js";
import { Facts, Warnings } from "../../ui/values.js";
import { count, longTime, straight } from "../../words.js";
import { Attachments } from "./attachments.js";
import { MailFrame } from "./frame.js";
import { LinkDialog } from "./link.js";
import { PlainText, Source } from "./text.js";
import { act } from "./toolbar.js";

/** @type {[form: string, label: string][]} */
const FORMS = [
  ["html", "Formatted"],
  ["text", "Plain text"],
  ["source", "Raw message"],
];

const MOST_MARKUP = 50_000; // start and end tags; more of them take a browser long to show

/** Load a message and mark it as read. @param {string} accountId @param {string} id */
export function useMessage(accountId, id) {
  const path = at`/accounts/${accountId}/messages/${id}`;
  const loading = useLoad((signal) => api.whole(path, {}, signal), [path]);
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
    ${form === "source" && html`<${Source} ...${ids} />`}
    <${Attachments} ...${ids} of=${files} />
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
  const pictures = (/** @type {string} */ id) => {
    const found = (message.attachments ?? []).find((/** @type {any} */ one) => isCalled(one.contentId, id));
    return found ? { id: found.id, path: `${path}${at`/attachments/${found.id}`}`, type: found.mimeType } : null;
  };
  const elsewhere = remote
    ? [
        `${count(remote, "picture was", "pictures were")} not loaded from other servers, because that would tell the sender that you read this message.`,
      ]
    : [];
  const told = [...hidden, ...elsewhere];
  return html`<${Warnings} of=${told} />
    <${MailFrame} source=${message.body.html} name=${`Message: ${straight(message.subject) || "no subject"}`} pictures=${pictures}
      onLink=${onLink} onPicture=${onPicture} onRemote=${setRemote} />`;
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
function Name({ person }) {
  const [name, email] = [person.name ?? "", person.email].map(straight);
  if (!name) return html`<bdi>${email}</bdi>`;
  return html`<span><bdi>${name}</bdi> <bdi class="muted">${`<${email}>`}</bdi></span>`;
}
