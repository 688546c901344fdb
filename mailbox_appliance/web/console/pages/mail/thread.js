// @ts-check
/** A conversation, oldest message first. Each message is loaded when it is opened; the last one is open at the start. */
import { at, get } from "../../api.js";
import { html, useRef, useState } from "../../html.js";
import { to } from "../../router.js";
import { Loaded, Pager, usePages } from "../../ui/load.js";
import { Time, Title } from "../../ui/values.js";
import { person } from "../../words.js";
import { Content, useMessage } from "./content.js";
import { BackToList, Toolbar } from "./toolbar.js";

const PAGE = 25;
const EVERY = 20_000; // milliseconds, without the stream of changes

/** @param {{params: Record<string, string>}} props */
export default function Page({ params }) {
  return html`<${Conversation} key=${params.threadId} ...${params} />`;
}

/** @param {{accountId: string, threadId: string}} props */
function Conversation({ accountId, threadId }) {
  const path = at`/accounts/${accountId}/threads/${threadId}`;
  const [subject, setSubject] = useState("Conversation");
  /** The message that is open at the start; not one that arrives later, since opening marks it as read. @type {{current?: string}} */
  const last = useRef(undefined);
  const concerns = (/** @type {import("../../changes.js").Change} */ { accountId: where, data }) =>
    where === accountId && (data.threadId === threadId || pages.data?.items.some((one) => one.id === data.id) === true);
  const pages = usePages(
    async ({ cursor }, signal) => {
      const thread = await get(path, { cursor, limit: PAGE }, signal);
      setSubject(thread.subject || "(no subject)");
      if (!thread.messages.nextCursor) last.current ??= thread.messages.items.at(-1)?.id;
      return thread.messages;
    },
    [path],
    { on: concerns, every: EVERY },
  );
  return html`<${BackToList} />
    <${Title}>${subject}<//>
    <${Loaded} of=${pages} what="the conversation">${(/** @type {any} */ { items }) => html`
      ${items.map(
        (/** @type {any} */ one) => html`<${Part} key=${one.id} message=${one}
        isOpen=${one.id === last.current} onGone=${pages.reload} />`,
      )}
    `}<//>
    <${Pager} of=${pages} label="Pages of the conversation" />`;
}

/** @param {{message: any, isOpen: boolean, onGone: () => void}} props */
function Part({ message, isOpen: isOpenAtFirst, onGone }) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const toggled = (/** @type {any} */ event) => setOpen(event.currentTarget.open);
  return html`<article class="mail-part"><details open=${isOpen} onToggle=${toggled}>
    <summary><strong><bdi>${message.from ? person(message.from) : "Unknown sender"}</bdi></strong> <${Time} at=${message.date} />${" "}
      ${!isOpen && html`<small class="muted">${message.snippet}</small>`}</summary>
    ${isOpen && html`<${Opened} accountId=${message.accountId} id=${message.id} onGone=${onGone} />`}
  </details></article>`;
}

/** @param {{accountId: string, id: string, onGone: () => void}} props */
function Opened({ accountId, id, onGone }) {
  const { loading, changed } = useMessage(accountId, id);
  return html`<${Loaded} of=${loading} what="the message">${(/** @type {any} */ one) => html`
    <${Toolbar} message=${one} onChanged=${changed} onGone=${onGone} />
    <${Content} message=${one} />
    <p><a href=${to(at`/mail/${accountId}/${id}`)}>Open only this message</a></p>
  `}<//>`;
}
