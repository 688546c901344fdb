// @ts-check
/** Deliveries, newest first, filtered by mailbox and status; or a single delivery. */
import { nameOf, useAccounts } from "../accounts.js";
import { at, get } from "../api.js";
import { html, useState } from "../html.js";
import { go, to } from "../router.js";
import { Title } from "../title.js";
import { Choice } from "../ui/choice.js";
import { Empty, Loaded, Pager, usePages } from "../ui/load.js";
import { Badge, Time } from "../ui/values.js";
import * as words from "../words.js";
import { Delivery } from "./deliveries/one.js";
import { isMoving, reason, STATUS, titleOf } from "./deliveries/wording.js";

/** @typedef {import("./deliveries/wording.js").Entry} Entry */

/** @param {{params: Record<string, string>, query: Record<string, string>}} props */
export default function Page({ params: { accountId = "", operationId }, query }) {
  if (operationId) return html`<${Delivery} key=${operationId} accountId=${accountId} operationId=${operationId} />`;
  return html`<${Deliveries} accountId=${accountId} status=${query.status ?? ""} />`;
}

/** @param {{accountId: string, status: string}} props */
function Deliveries({ accountId, status }) {
  const accounts = useAccounts().data;
  const isUnknown = accountId && accounts && !accounts.some((one) => one.id === accountId);
  const [every, setEvery] = useState(20_000); // milliseconds; less while a delivery is in progress
  const pages = usePages(
    async ({ cursor }, signal) => {
      const page = await get("/delivery-operations", { accountId, status, cursor, limit: 20 }, signal);
      setEvery(page.items.some(isMoving) ? 2_000 : 20_000);
      return page;
    },
    [accountId, status],
    { every },
  );
  const show = (/** @type {string} */ account, /** @type {string} */ wanted) =>
    go(account ? at`/deliveries/${account}` : "/deliveries", { status: wanted });
  return html`
    <${Title}>Deliveries<//>
    <div class="delivery-filters">
      <${Choice} label="Mailbox" every="All mailboxes" value=${accountId} onChoose=${(/** @type {string} */ one) => show(one, status)}
        options=${[...(accounts ?? []).map((one) => [one.id, nameOf(one)]), ...(isUnknown ? [[accountId, "A mailbox you cannot access"]] : [])]} />
      <${Choice} label="Status" every="All statuses" value=${status} onChoose=${(/** @type {string} */ one) => show(accountId, one)}
        options=${Object.entries(STATUS).map(([key, { name }]) => [key, name])} />
    </div>
    <${Loaded} of=${pages} what="the deliveries">
      ${(/** @type {{items: Entry[]}} */ { items }) =>
        items.length > 0
          ? html`<ul class="deliveries" aria-label="Deliveries">
              ${items.map((one) => html`<${Row} key=${one.operationId} of=${one} />`)}
            </ul>
            <${Pager} of=${pages} label="Pages of the list" />`
          : accountId || status
            ? html`<${Empty} title="No deliveries match."><a role="button" class="secondary" href=${to("/deliveries")}>Show all deliveries</a><//>`
            : html`<${Empty} title="Nothing has been sent yet.">
                <p>Messages that you or your API keys send are listed here with their status.</p>
                <a role="button" href=${to("/compose")}>Write a message</a><//>`}
    <//>`;
}

/** @param {{of: Entry}} props */
function Row({ of: one }) {
  const { name, kind } = STATUS[one.status];
  return html`<li>
    <div class="what">
      <a href=${to(at`/deliveries/${one.accountId}/${one.operationId}`)}>${titleOf(one)}</a>
      <small class="muted">${one.recipients.length > 0 && `To ${briefly(one.recipients)}`}</small>
      ${one.status === "failed" && html`<small>${reason(one)}</small>`}
      ${one.status === "queued" && one.sendAt && html`<small>Scheduled: ${words.ago(one.sendAt)}</small>`}
    </div>
    <span class="when"><${Badge} kind=${kind}>${name}<//><small><${Time} at=${one.createdAt} /></small></span>
  </li>`;
}

/** @param {string[]} all */
function briefly(all) {
  return words.list(all.length < 4 ? all : [...all.slice(0, 2), words.count(all.length - 2, "other")]);
}
