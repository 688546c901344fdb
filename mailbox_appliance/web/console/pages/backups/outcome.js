// @ts-check
/** The progress and the result of a restore. */
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
  "The appliance is back, but your session has ended. Sign in as a member in the backup, with the current password, to see the result.";

/** Heading and text of each phase. @type {Record<import("./waiting.js").Phase, [string, any]>} */
const TOLD = {
  preparing: ["Restoring", "Keep this page open. You do not have to do anything."],
  away: ["The appliance is restarting", "This is part of the restore. This page continues automatically."],
  "signed-out": ["Your session has ended", SIGN_IN],
  success: ["Backup restored", "Messages sent and credentials revoked since the backup stay sent and revoked."],
  failure: [
    "The restore failed",
    html`<strong>Nothing was changed</strong>. Run <code>mailbox-appliance logs</code> on the appliance’s computer to see the reason.`,
  ],
  unknown: [
    "The result of the restore is unknown",
    html`The <a href=${to("/audit")}>audit log</a> has no <code>backup.restore</code> event for it. If none appears, nothing was restored.`,
  ],
};

/** @param {{backupId: string, after: string}} props */
export function Outcome({ backupId, after }) {
  const { phase, now } = useRestore(backupId, after);
  const isWaiting = phase === "preparing" || phase === "away";
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => (isWaiting ? guard(() => LEAVING) : heading.current?.focus()), [isWaiting]);
  useEffect(() => {
    session.why.set(SIGN_IN); // another request of the page may get the 401 first
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
    void accounts.reload(); // the mailboxes are now those of the backup
    void refresh();
  }, []);
  return html`${kept && html`<p>The previous store is kept as ${kept.fileName}. To undo, <a href=${to("/backups", { restore: kept.id })}>restore that backup</a>.</p>`}
    ${
      (status?.deliveries.uncertain ?? 0) > 0 &&
      html`<p class="warning">Some messages may or may not have been sent. None is resent automatically. <a href=${to("/deliveries")}>Review the deliveries</a></p>`
    }
    <${Warnings} of=${status?.warnings ?? []} />
    <p><a role="button" href=${to("/mail")}>Go to your mail</a></p>`;
}

/** @param {AbortSignal} signal @returns {Promise<import("./backup.js").Backup | undefined>} the backup of the previous store */
async function newestKept(signal) {
  const { items } = await api.get("/admin/backups", { limit: 20 }, signal);
  return items.find((/** @type {import("./backup.js").Backup} */ one) => one.reason === "pre-restore");
}
