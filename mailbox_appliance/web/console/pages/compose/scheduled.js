// @ts-check
/** Messages that wait for their time. */
import { html } from "../../html.js";
import { to } from "../../router.js";
import { Title } from "../../title.js";
import { Badge, Time } from "../../ui/values.js";
import * as words from "../../words.js";
import { STATUS } from "../deliveries/wording.js";
import { Piles, subjectOf } from "./pile.js";

/** @type {import("./pile.js").Kind} */
const SCHEDULED = {
  name: "scheduled",
  title: "Scheduled",
  none: "Nothing is scheduled. “Send later” below a message lets it wait here.",
  cells: ({ operationId, sendAt, status, ...send }, account) => [
    html`<a href=${to(`/deliveries/${account}/${operationId}`)}>${subjectOf(send)}</a><small>${words.longTime(sendAt)}</small>`,
    html`<small><${Time} at=${sendAt} ago /></small>
      ${status !== "queued" && html`<${Badge} kind=${STATUS[/** @type {"sending"} */ (status)].kind}>${STATUS[/** @type {"sending"} */ (status)].name}<//>`}`,
  ],
  action: ({ status }) => (status === "queued" ? "Take back" : null),
  question: (send) => ({
    title: "Take this message back?",
    text: `“${subjectOf(send)}” is not sent at ${words.longTime(send.sendAt)}. It stays among the drafts.`,
    action: "Take it back",
  }),
  told: (account) => html`It is not sent. You find it among <a href=${to("/drafts", { account })}>the drafts</a>.`,
};

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  return html`<${Title}>Scheduled<//><${Piles} kind=${SCHEDULED} query=${query} />`;
}
