// @ts-check
/** Scheduled messages. */
import { html } from "../../html.js";
import { to } from "../../router.js";
import { Badge, Time, Title } from "../../ui/values.js";
import * as words from "../../words.js";
import { STATUS } from "../deliveries/wording.js";
import { Piles, subjectOf } from "./pile.js";

/** @type {import("./pile.js").Kind} */
const SCHEDULED = {
  name: "scheduled",
  title: "Scheduled",
  none: "No scheduled messages. Use “Send later” below a message to schedule it.",
  cells: ({ operationId, sendAt, status, ...send }, account) => [
    html`<a href=${to(`/deliveries/${account}/${operationId}`)}>${subjectOf(send)}</a><small>${words.longTime(sendAt)}</small>`,
    html`<small><${Time} at=${sendAt} ago /></small>
      ${status !== "queued" && html`<${Badge} kind=${STATUS[/** @type {"sending"} */ (status)].kind}>${STATUS[/** @type {"sending"} */ (status)].name}<//>`}`,
  ],
  action: ({ status }) => (status === "queued" ? "Cancel send" : null),
  question: (send) => ({
    title: "Cancel this message?",
    text: `“${subjectOf(send)}” will not be sent at ${words.longTime(send.sendAt)}. It is kept in Drafts.`,
    action: "Cancel message",
    dismiss: "Keep scheduled",
  }),
  told: (account) => html`Message canceled. It is in <a href=${to("/drafts", { account })}>Drafts</a>.`,
};

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  return html`<${Title}>Scheduled<//><${Piles} kind=${SCHEDULED} query=${query} />`;
}
