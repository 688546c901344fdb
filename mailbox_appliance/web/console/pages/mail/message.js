// @ts-check
/** The page of one message. */
import { at, get } from "../../api.js";
import { html, useEffect, useRef } from "../../html.js";
import { go, to } from "../../router.js";
import { useShortcuts } from "../../shortcuts.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { Title } from "../../ui/values.js";
import { Content, useMessage } from "./content.js";
import { BackToList, Toolbar, threadHref } from "./toolbar.js";
import { listHref, neighbours } from "./view.js";

/** @param {{params: Record<string, string>}} props */
export default function Page({ params }) {
  return html`<${Opened} key=${params.messageId} ...${params} />`; // the key drops late responses for the previous message
}

/** @param {{accountId: string, messageId: string}} props */
function Opened({ accountId, messageId }) {
  const { loading, changed } = useMessage(accountId, messageId);
  const message = loading.data;
  const back = () => {
    location.hash = listHref();
  };
  const isHere = useRef(true);
  useEffect(
    () => () => {
      isHere.current = false;
    },
    [],
  );
  const { newer, older } = neighbours(messageId);
  useShortcuts(
    {
      Escape: ["Back to list", back],
      ...(older && { j: ["Next message", () => go(pathOf(older))] }),
      ...(newer && { k: ["Previous message", () => go(pathOf(newer))] }),
    },
    [messageId],
  );
  return html`<nav class="mail-way" aria-label="Previous and next message">
      <${BackToList} />
      ${newer && html`<a href=${to(pathOf(newer))}>Newer</a>`}
      ${older && html`<a href=${to(pathOf(older))}>Older</a>`}
    </nav>
    <${Title}>${message ? message.subject || "(no subject)" : "Message"}<//>
    <${Loaded} of=${loading} what="the message">${(/** @type {any} */ one) => html`
      <${Toolbar} message=${one} onChanged=${changed} onGone=${() => isHere.current && back()} hasKeys=${true} />
      <${Conversation} message=${one} />
      <${Content} message=${one} />
    `}<//>`;
}

/** @param {{accountId: string, id: string}} one */
function pathOf(one) {
  return at`/mail/${one.accountId}/${one.id}`;
}

/** A link to the conversation, if it has more messages. @param {{message: any}} props */
function Conversation({ message }) {
  const path = at`/accounts/${message.accountId}/threads/${message.threadId}`;
  const thread = useLoad((signal) => get(path, { limit: 2 }, signal), [path]).data; // the message is shown even if this fails
  return thread?.messages.items[1] && html`<p><a href=${threadHref(message)}>Show conversation</a></p>`;
}
