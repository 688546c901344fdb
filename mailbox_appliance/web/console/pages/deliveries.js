// @ts-check
/** Deliveries, newest first, filtered by mailbox and status; or a single delivery. */
import { nameOf, useAccounts } from "../accounts.js";
import { at, get, post, whole } from "../api.js";
import { about } from "../changes.js";
import { html, useRef, useState } from "../html.js";
import { go, to } from "../router.js";
import * as session from "../session.js";
import { refresh } from "../status.js";
import { sure } from "../ui/dialog.js";
import { Choice } from "../ui/form.js";
import { Empty, Loaded, Pager, useLoad, usePages } from "../ui/load.js";
import { attempt, done } from "../ui/notices.js";
import { Badge, Copy, Facts, Time, Title, Warnings } from "../ui/values.js";
import * as words from "../words.js";
import { isMoving, lookOf, reason, STATUS, story, titleOf } from "./deliveries/wording.js";

/** @typedef {import("./deliveries/wording.js").Entry} Entry */

/** Return a test for events that change what is shown of deliveries. @param {string} accountId */
function ofDeliveries(accountId) {
  const [delivery, approval] = [about("delivery", accountId), about("approval", accountId)];
  return (/** @type {import("../changes.js").Change} */ change) => delivery(change) || approval(change);
}

/** @param {{params: Record<string, string>, query: Record<string, string>}} props */
export default function Page({ params: { accountId = "", operationId }, query }) {
  if (operationId) return html`<${Delivery} key=${operationId} accountId=${accountId} operationId=${operationId} />`;
  return html`<${Deliveries} accountId=${accountId} status=${query.status ?? ""} />`;
}

/** @param {{accountId: string, status: string}} props */
function Deliveries({ accountId, status }) {
  const accounts = useAccounts().data;
  const isUnknown = accountId && accounts && !accounts.some((one) => one.id === accountId);
  const pages = usePages(
    ({ cursor }, signal) => get("/delivery-operations", { accountId, status, cursor, limit: 20 }, signal),
    [accountId, status],
    { on: ofDeliveries(accountId), every: 5_000 },
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
  const { name, kind } = lookOf(one);
  return html`<li>
    <div class="what">
      <a href=${to(at`/deliveries/${one.accountId}/${one.operationId}`)}>${titleOf(one)}</a>
      <small class="muted">${one.recipients.length > 0 && `To ${briefly(one.recipients)}`}</small>
      ${one.status === "failed" && html`<small>${reason(one)}</small>`}
      ${one.approvalId && html`<small><a href=${to(at`/approvals/${one.approvalId}`)}>Review this message</a></small>`}
      ${one.status === "queued" && one.sendAt && html`<small>Scheduled: ${words.ago(one.sendAt)}</small>`}
    </div>
    <span class="when"><${Badge} kind=${kind}>${name}<//><small><${Time} at=${one.createdAt} /></small></span>
  </li>`;
}

/** @param {string[]} all */
function briefly(all) {
  return words.list(all.length < 4 ? all : [...all.slice(0, 2), words.count(all.length - 2, "other")]);
}

// --- One delivery: its status and steps, and the actions that resolve an uncertain one ---

/** @typedef {import("./deliveries/wording.js").Timeline} Timeline */

/** @param {{accountId: string, operationId: string}} props */
function Delivery({ accountId, operationId }) {
  const [isOpen, setOpen] = useState(false); // its steps and its copy in Sent have no events
  const path = at`/accounts/${accountId}/delivery-operations/${operationId}/timeline`;
  const found = useLoad(
    async (signal) => {
      const one = await whole(path, {}, signal);
      setOpen(isMoving(one) || one.sentCopy === "pending");
      return one;
    },
    [path],
    { on: ofDeliveries(accountId), every: isOpen ? 1_500 : 15_000, seldom: isOpen ? 1_500 : undefined },
  );
  return html`
    <p><a href=${to("/deliveries")}>All deliveries</a></p>
    ${!found.data && html`<${Title}>Delivery<//>`}
    <${Loaded} of=${found} what="the delivery">
      ${(/** @type {Timeline} */ one) => html`<${Shown} found=${one} reload=${found.reload} />`}
    <//>`;
}

/** @param {{found: Timeline, reload: () => Promise<void>}} props */
function Shown({ found, reload }) {
  const { name, kind, says } = lookOf(found);
  const account = useAccounts().data?.find((one) => one.id === found.accountId);
  const outcome = useRef(/** @type {HTMLElement | null} */ (null));
  const decided = async () => {
    await reload();
    outcome.current?.focus();
  };
  return html`
    <${Title}>${titleOf(found)}<//>
    <div class="outcome" role="status" tabindex="-1" ref=${outcome}>
      <p><${Badge} kind=${kind}>${name}<//> ${says} ${found.status === "failed" && reason(found)}</p>
    </div>
    <${Warnings} of=${told(found)} />
    <p>${next(found)}</p>
    ${found.status === "uncertain" && html`<${Doubt} found=${found} onDecided=${decided} />`}
    <section aria-labelledby="steps">
      <h2 id="steps">What happened</h2>
      <ol class="timeline">
        ${story(found).map(
          ([at, text, kind], index) =>
            html`<li key=${index} class=${kind}><span>${text}</span>${at && html`<time datetime=${at}>${words.longTime(at)}</time>`}</li>`,
        )}
      </ol>
    </section>
    <section aria-labelledby="facts">
      <h2 id="facts">Details</h2>
      <${Facts} of=${[
        ["To", found.recipients.join(", ")],
        ["Mailbox", account && nameOf(account)],
        ["Sent by", found.isOwn ? "You, or one of your API keys" : "Another member"],
        ["Created", html`<${Time} at=${found.createdAt} ago />`],
        ["Message-ID", html`<code>${found.messageIdHeader}</code>`],
      ]} />
    </section>`;
}

/** The warnings to show; those of an uncertain outcome are left out, since the page explains it. @param {Timeline} found */
function told({ warnings, outcomeWarnings, result, status }) {
  const isExplained = (/** @type {string} */ one) => status === "uncertain" && outcomeWarnings.includes(one);
  return [...warnings, ...(result?.warnings ?? [])].filter((one) => !isExplained(one));
}

/** The next step for the person. @param {Timeline} found */
function next({ status, result, accountId, approvalId }) {
  if (status === "succeeded" && result)
    return html`<a href=${to(at`/mail/${accountId}/${result.id}`)}>Open the sent message</a>`;
  if (approvalId) return html`<a role="button" href=${to(at`/approvals/${approvalId}`)}>Review this message</a>`;
  if (approvalId === null) return "The owner of the mailbox can approve it.";
  if (status === "queued")
    return html`You can cancel it until it is sent: see <a href=${to("/scheduled", { account: accountId })}>Scheduled</a>.`;
  if (status === "failed")
    return html`To send it again, <a href=${to("/compose")}>write a new message</a>. Saved and scheduled messages are kept in <a href=${to("/drafts", { account: accountId })}>Drafts</a>.`;
}

/** The ways to resolve an uncertain delivery. @type {[outcome: "succeeded" | "failed", action: string, text: string][]} */
const DECISIONS = [
  [
    "succeeded",
    "Mark as delivered",
    "Choose this if a recipient has the message, or the mail server's log shows that it was accepted. This is final.",
  ],
  ["failed", "Mark as not sent", "If you are wrong, sending it again delivers it twice. This is final."],
];

/** What to do about an uncertain delivery. @param {{found: Timeline, onDecided: () => Promise<void>}} props */
function Doubt({ found, onDecided }) {
  const account = useAccounts().data?.find((one) => one.id === found.accountId);
  const mayDecide = found.isOwn || account?.ownerMemberId === session.member.value?.id;
  return html`<section aria-labelledby="doubt" class="doubt">
    <h2 id="doubt">Resolve this delivery</h2>
    <ol>
      <li>Wait: the appliance checks Sent and the inbox automatically${looked(found)}.</li>
      <li>Ask a recipient: ${found.recipients.length ? words.list(found.recipients) : "somebody it was sent to"}.</li>
      <li>Ask the mail server’s administrator to search its log for this Message-ID:${" "}
        <code> ${found.messageIdHeader}</code> <${Copy} text=${found.messageIdHeader} label="Copy Message-ID" /></li>
    </ol>
    <p><strong>Do not send it again until you know.</strong> Recipients who have it would get it twice.</p>
    ${
      mayDecide
        ? html`<${Decide} found=${found} onDecided=${onDecided} />`
        : html`<p>Only the sender or the owner of the mailbox can resolve it.</p>`
    }
  </section>`;
}

/** @param {Timeline} found */
function looked({ looks, nextLookAt }) {
  const often = looks > 0 && ` (${words.count(looks, "time")} so far)`;
  return `${often || ""}${nextLookAt ? `, next ${words.ago(nextLookAt)}` : ". It stopped after 24 hours"}`;
}

/** @param {{found: Timeline, onDecided: () => Promise<void>}} props */
function Decide({ found, onDecided }) {
  // An error is a notice, since this section is gone once somebody else has decided.
  const resolve = (/** @type {string} */ outcome) =>
    attempt(async () => {
      await post(at`/accounts/${found.accountId}/delivery-operations/${found.operationId}/resolve`, { outcome });
      done("Delivery resolved.");
      void refresh();
      await onDecided();
    });
  return html`<div class="actions">${DECISIONS.map(([outcome, action, text]) => {
    const decide = async () => {
      if (await sure({ title: `${action}?`, text, action, danger: true })) await resolve(outcome);
    };
    return html`<button type="button" class="secondary" onClick=${decide}>${action}…</button>`;
  })}</div>`;
}
