// @ts-check
/** The system page: warnings, mailboxes, deliveries and the store; administrators see more. */
import * as api from "../../api.js";
import { about } from "../../changes.js";
import { html, useEffect, useState } from "../../html.js";
import { to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { failure, refresh, useStatus } from "../../status.js";
import { Busy, Empty, Loaded, Problem } from "../../ui/load.js";
import { ApiText, Progress, Time, Title, Warnings } from "../../ui/values.js";
import * as words from "../../words.js";
import { State } from "../mailboxes/state.js";
import { BackupAge, Card, History, Https, useCard } from "./history.js";

/** @typedef {import("../../status.js").Status} Status */

const SOON = 3_000; // milliseconds, while a maintenance task runs
/** @type {[name: "queued" | "sending" | "uncertain", told: string][]} */
const QUEUE = [
  ["queued", "waiting"],
  ["sending", "being sent"],
  ["uncertain", "uncertain"],
];

export default function Page() {
  const status = useStatus();
  const lost = useShared(failure);
  const [opened] = useState(() => new Date().toISOString());
  const isAdmin = useShared(session.member)?.role === "admin";
  const isWorking = Boolean(status?.store.progress);
  useEffect(() => {
    void refresh();
    if (!isWorking) return undefined;
    const timer = setInterval(refresh, SOON);
    return () => clearInterval(timer);
  }, [isWorking]);
  return html`
    <${Title}>System<//>
    <${Problem} error=${lost} again=${refresh} />
    ${lost !== undefined && status && html`<p class="warning">The information below is from ${words.exactTime(status.asOf)}.</p>`}
    ${
      status === null
        ? lost === undefined && html`<${Busy} what="the status" />`
        : html`<${Shown} status=${status} isAdmin=${isAdmin} isNow=${lost === undefined && status.asOf >= opened} />`
    }
    <${History} />`;
}

/** @param {{status: Status, isAdmin: boolean, isNow: boolean}} props `isNow`: the status is newer than the page */
function Shown({ status, isAdmin, isNow }) {
  const { store, deliveries } = status;
  const { progress } = store;
  return html`
    <${Attention} status=${status} isNow=${isNow} />
    <div class="cards">
      <${Card} title="Appliance">
        <p>Version ${status.version}</p>
        <p>Started ${words.ago(new Date(Date.parse(status.asOf) - 1000 * status.uptimeSeconds).toISOString())}</p>
      <//>
      <${Card} title="Store">
        <p>${words.size(store.sizeBytes)}, encrypted</p>
        <p>${words.size(store.freeBytes)} free on its disk</p>
        ${progress && html`<${Progress} label=${`${progress.work}: ${progress.step}`} done=${progress.done} total=${progress.total} />`}
      <//>
      <${Card} title="In progress">${QUEUE.map(
        ([name, told]) =>
          html`<p><a href=${to("/deliveries", { status: name })}>${words.number(deliveries[name])} ${told}</a></p>`,
      )}<//>
      ${isAdmin && html`<${BackupAge} /><${Https} />`}
    </div>
    <${Mailboxes} status=${status} isAdmin=${isAdmin} />`;
}

/** The problems that need attention. @param {{status: Status, isNow: boolean}} props */
function Attention({ status, isNow }) {
  const { uncertain } = status.deliveries;
  const lost = status.accounts.filter((one) => one.status === "reauth_required" || one.status === "error").length;
  const isWell = isNow && status.warnings.length === 0 && uncertain === 0 && lost === 0;
  return html`<div role="status">
    <${Warnings} of=${status.warnings} />
    ${lost > 0 && html`<p class="warning">${words.count(lost, "mailbox is", "mailboxes are")} not synced. See below.</p>`}
    ${uncertain > 0 && html`<p class="warning">${words.count(uncertain, "message")} may not have been delivered. <a href=${to("/deliveries", { status: "uncertain" })}>Review and resolve</a></p>`}
    ${isWell && html`<p class="all-well">No problems.</p>`}
  </div>`;
}

// --- The sync status of the member's mailboxes; administrators see all ---

/** @typedef {import("../../accounts.js").Account} Account */

const EVERY = 10_000; // milliseconds

/** @param {{status: import("../../status.js").Status, isAdmin: boolean}} props */
function Mailboxes({ status, isAdmin }) {
  const path = isAdmin ? "/admin/accounts" : "/accounts";
  const loading = useCard((signal) => api.get(path, undefined, signal), [path], {
    on: about("account"),
    every: EVERY,
    seldom: isAdmin ? EVERY : undefined, // administrators get no events of the mailboxes of others
  });
  const progress = new Map(status.accounts.map((one) => [one.id, one.progress]));
  return html`<section aria-labelledby="mailboxes">
    <h2 id="mailboxes">Mailboxes</h2>
    <${Loaded} of=${loading} what="the mailboxes">
      ${(/** @type {Account[]} */ accounts) =>
        accounts.length === 0
          ? html`<${Empty} title="No mailbox is connected."><a role="button" href=${to("/mailboxes/connect")}>Connect a mailbox</a><//>`
          : html`<ul class="deliveries">${accounts.map((one) => html`<${Row} key=${one.id} account=${one} isReached=${progress.has(one.id)} progress=${progress.get(one.id) ?? null} />`)}</ul>`}
    <//>
  </section>`;
}

/** @param {{account: Account, isReached: boolean, progress: string | null}} props */
function Row({ account, isReached, progress }) {
  return html`<li>
    <div class="what">
      ${isReached ? html`<a href=${to(api.at`/mailboxes/${account.id}`)}>${account.email}</a>` : html`<span>${account.email}</span>`}
      ${progress && html`<small role="status">${progress}</small>`}
      ${account.error && html`<small class="wrong"><${ApiText} text=${account.error.message} /></small>`}
      ${account.status === "reauth_required" && isReached && html`<small>Open the mailbox and sign in again.</small>`}
    </div>
    <span class="when"><${State} account=${account} /><small>Synced <${Time} at=${account.lastSyncAt} ago none="not yet" /></small></span>
  </li>`;
}
