// @ts-check
/** Messages that wait for a person, and those that were decided; or a single one. */
import { nameOf, useAccounts } from "../../accounts.js";
import * as api from "../../api.js";
import { about } from "../../changes.js";
import { html } from "../../html.js";
import { to } from "../../router.js";
import { Empty, Loaded, Pager, usePages } from "../../ui/load.js";
import { Badge, Time, Title } from "../../ui/values.js";
import * as words from "../../words.js";
import { Opened } from "./approval.js";
import { askedBy, STATUS, subjectOf } from "./wording.js";

/** @typedef {import("./wording.js").Approval} Approval */

const EVERY = 15_000; // milliseconds, without the stream of changes

/** @param {{params: Record<string, string>, query: Record<string, string>}} props */
export default function Page({ params: { approvalId }, query }) {
  if (approvalId) return html`<${Opened} key=${approvalId} approvalId=${approvalId} />`;
  return html`<${List} isAll=${Boolean(query.all)} />`;
}

/** @param {{isAll: boolean}} props */
function List({ isAll }) {
  const accounts = useAccounts().data ?? [];
  const status = isAll ? undefined : "pending";
  const pages = usePages(
    ({ cursor }, signal) => api.get("/approvals", { status, cursor, limit: 20 }, signal),
    [status],
    { on: about("approval"), every: EVERY },
  );
  return html`<${Title}>Approvals<//>
    <p>A sending policy lets these messages wait until a person has read them. Policies are set for a mailbox, and for an API key.</p>
    <nav class="views" aria-label="Approvals to show"><ul>
      <li><a href=${to("/approvals")} aria-current=${isAll ? undefined : "page"}>Waiting</a></li>
      <li><a href=${to("/approvals", { all: 1 })} aria-current=${isAll ? "page" : undefined}>All</a></li>
    </ul></nav>
    <${Loaded} of=${pages} what="the approvals">${(/** @type {{items: Approval[]}} */ { items }) =>
      items.length === 0
        ? html`<${Empty} title=${isAll ? "No message has needed an approval yet." : "No message waits for approval."} />`
        : html`<ul class="deliveries" aria-label="Approvals">${items.map((one) => html`<${Row} key=${one.id} of=${one} accounts=${accounts} />`)}</ul>
          <${Pager} of=${pages} label="Pages of the list" />`}<//>`;
}

/** @param {{of: Approval, accounts: import("../../accounts.js").Account[]}} props */
function Row({ of: one, accounts }) {
  const { name, kind } = STATUS[one.status];
  const account = accounts.find(({ id }) => id === one.accountId);
  const people = [...one.to, ...one.cc, ...one.bcc].map(({ email }) => words.straight(email));
  const shown = people.length < 4 ? people : [...people.slice(0, 2), words.count(people.length - 2, "other")];
  return html`<li>
    <div class="what">
      <a href=${to(api.at`/approvals/${one.id}`)}>${words.straight(subjectOf(one))}</a>
      <small class="muted">To ${words.list(shown)}</small>
      <small class="muted">${askedBy(one)}, from ${account ? nameOf(account) : one.from.email}</small>
    </div>
    <span class="when"><${Badge} kind=${kind}>${name}<//>
      <small>${one.status === "pending" ? html`expires <${Time} at=${one.expiresAt} ago />` : html`<${Time} at=${one.decidedAt ?? one.createdAt} />`}</small></span>
  </li>`;
}
