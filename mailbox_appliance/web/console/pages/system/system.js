// @ts-check
/** The system page: warnings, mailboxes, deliveries and the store; administrators see more. */
import { html, useEffect, useState } from "../../html.js";
import { to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { failure, refresh, useStatus } from "../../status.js";
import { Title } from "../../title.js";
import { Busy, Problem } from "../../ui/load.js";
import { Progress, Warnings } from "../../ui/values.js";
import * as words from "../../words.js";
import { BackupAge, Card, Https } from "./admin.js";
import { History } from "./history.js";
import { Mailboxes } from "./mailboxes.js";

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
