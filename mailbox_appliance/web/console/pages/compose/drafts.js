// @ts-check
/** The drafts of a mailbox, including those of other mail programs. */
import { html } from "../../html.js";
import { to } from "../../router.js";
import { Time, Title } from "../../ui/values.js";
import { Piles, subjectOf } from "./pile.js";

/** @type {import("./pile.js").Kind} */
const DRAFTS = {
  name: "drafts",
  title: "Drafts",
  none: "No drafts. Messages that you write are saved here until you send them.",
  cells: (draft, account) => [
    html`<a href=${to("/compose", { account, draft: draft.id })}>${subjectOf(draft)}</a><small class="muted">${draft.snippet}</small>`,
    html`<${Time} at=${draft.date} />`,
  ],
  action: () => "Delete",
  question: (draft) => ({
    title: "Delete this draft?",
    text: `“${subjectOf(draft)}” and its attachments are deleted permanently.`,
    action: "Delete",
    danger: true,
  }),
  told: () => "Draft deleted.",
};

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  return html`<${Title} actions=${html`<a role="button" href=${to("/compose", { account: query.account })}>Write a message</a>`}>Drafts<//>
    <${Piles} kind=${DRAFTS} query=${query} />`;
}
