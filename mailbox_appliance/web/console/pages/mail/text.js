// @ts-check
/** The plain-text view of a message without hidden text, and the raw message. Long ones are loaded in parts. */
import * as api from "../../api.js";
import { at } from "../../api.js";
import { html } from "../../html.js";
import { useForm } from "../../ui/form.js";
import { Loaded, Problem, useLoad } from "../../ui/load.js";
import { Warnings } from "../../ui/values.js";
import { number, size } from "../../words.js";
import { saved } from "./attachments.js";
import { addressOf } from "./sanitize.js";

const PIECE = 100_000; // characters
const MOST_OF_SOURCE = 300_000;
const LINK = /(https?:\/\/[^\s<>"')\]]+[^\s<>"')\].,;:!?])/;

/** @typedef {(link: {address: string, text: string}) => void} OnLink */

/** @param {{accountId: string, messageId: string, onLink: OnLink}} props */
export function PlainText({ accountId, messageId, onLink }) {
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
function linked(text, onLink) {
  return text.split(LINK).map((piece, index) => {
    const address = index % 2 ? addressOf(piece) : "";
    if (!address) return piece;
    return html`<button type="button" class="link" onClick=${() => onLink({ address, text: piece })}>${piece}</button>`;
  });
}

/** @param {{accountId: string, messageId: string}} props */
export function Source({ accountId, messageId }) {
  const path = at`/accounts/${accountId}/messages/${messageId}/raw`;
  const loading = useLoad(async (signal) => (await api.file(path, { signal })).blob().then(asText), [path]);
  return html`<${Loaded} of=${loading} what="the raw message">${(
    /** @type {{blob: Blob, text: string}} */ { blob, text },
  ) => {
    const save = () => {
      const address = URL.createObjectURL(blob);
      saved(address, "message.eml");
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    };
    return html`<p class="actions"><button type="button" class="secondary outline small" onClick=${save}>Save as file</button>
      <small class="muted">${size(blob.size)}${blob.size > MOST_OF_SOURCE && `; only the first ${size(MOST_OF_SOURCE)} are shown`}</small></p>
      <pre tabindex="0" aria-label="Raw message">${text}</pre>`;
  }}<//>`;
}

/** @param {Blob} blob */
async function asText(blob) {
  return { blob, text: await blob.slice(0, MOST_OF_SOURCE).text() };
}
