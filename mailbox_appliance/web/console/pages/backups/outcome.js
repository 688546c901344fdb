// @ts-check
/** A restore that was begun: how far it is, and how it went. */
import * as accounts from "../../accounts.js";
import * as api from "../../api.js";
import { html, useEffect, useRef } from "../../html.js";
import { guard, to } from "../../router.js";
import * as session from "../../session.js";
import { refresh, useStatus } from "../../status.js";
import { useLoad } from "../../ui/load.js";
import { Warnings } from "../../ui/values.js";
import { LEAVING, useRestore } from "./waiting.js";
import { Bar } from "./work.js";

const SIGN_IN =
  "The appliance is back, and does not know your session: sign in as somebody who is in the backup, with the password of now. Then this page tells how it went.";

/** Heading and text of each phase. @type {Record<import("./waiting.js").Phase, [string, any]>} */
const TOLD = {
  preparing: ["The restore is under way", "Leave this page open; there is nothing to do."],
  away: ["The appliance starts again", "That belongs to the restore. This page goes on by itself."],
  "signed-out": ["Your session has ended", SIGN_IN],
  success: ["The backup is restored", "What was sent or revoked since then stays so."],
  failure: [
    "The restore failed",
    html`<strong>Everything is as it was before</strong>. On the appliance’s computer <code>mailbox-appliance logs</code> says why.`,
  ],
  unknown: [
    "It is not known yet how the restore went",
    html`The <a href=${to("/audit")}>audit log</a> does not tell of it. If no row <code>backup.restore</code> comes, nothing was restored.`,
  ],
};

/** @param {{backupId: string, after: string}} props */
export function Outcome({ backupId, after }) {
  const { phase, now } = useRestore(backupId, after);
  const isWaiting = phase === "preparing" || phase === "away";
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => (isWaiting ? guard(() => LEAVING) : heading.current?.focus()), [isWaiting]);
  useEffect(() => {
    session.why.set(SIGN_IN); // some other part of the page may be the first that is told so
    return () => session.why.set("");
  }, []);
  const [title, text] = TOLD[phase];
  return html`<div role="status"><h2 ref=${heading} tabindex="-1">${title}</h2><p>${text}</p></div>
    ${isWaiting && html`<${Bar} label="Restoring" now=${now} />`}
    ${phase === "success" && html`<${Restored} />`}
    ${(phase === "failure" || phase === "unknown") && html`<p><a role="button" href=${to("/backups", { restore: backupId })}>Try again</a></p>`}
    ${!isWaiting && html`<p><a href=${to("/backups")}>All backups</a></p>`}`;
}

function Restored() {
  const status = useStatus();
  const kept = useLoad(newestKept, []).data;
  useEffect(() => {
    void accounts.reload(); // mailboxes are those of the backup
    void refresh();
  }, []);
  return html`${kept && html`<p>What it replaced is kept as ${kept.fileName}. If this was a mistake, <a href=${to("/backups", { restore: kept.id })}>restore that one</a>.</p>`}
    ${
      (status?.deliveries.uncertain ?? 0) > 0 &&
      html`<p class="warning">Nobody knows whether some messages were sent. None is sent again by itself: <a href=${to("/deliveries")}>see the deliveries</a>.</p>`
    }
    <${Warnings} of=${status?.warnings ?? []} />
    <p><a role="button" href=${to("/mail")}>Go to your mail</a></p>`;
}

/** @param {AbortSignal} signal @returns {Promise<import("./backup.js").Backup | undefined>} what the restore replaced */
async function newestKept(signal) {
  const { items } = await api.get("/admin/backups", { limit: 20 }, signal);
  return items.find((/** @type {import("./backup.js").Backup} */ one) => one.reason === "pre-restore");
}
