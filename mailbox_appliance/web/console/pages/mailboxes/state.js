// @ts-check
/** The status of a mailbox as text. */
import { html } from "../../html.js";
import { useStatus } from "../../status.js";
import { ApiText, Badge, Time } from "../../ui/values.js";

/** @typedef {import("../../accounts.js").Account} Account */
/** @type {Record<Account["status"], [kind: "good" | "bad" | "busy", text: string]>} */
const WORDS = {
  connecting: ["busy", "Connecting"],
  syncing: ["busy", "Syncing"],
  ready: ["good", "Up to date"],
  reauth_required: ["bad", "Sign-in needed"],
  error: ["bad", "Unavailable"],
};
/** @type {Record<Account["provider"], string>} */
export const PROVIDERS = { imap: "IMAP", google: "Google", outlook: "Microsoft" };

/** @param {{account: Account}} props */
export function State({ account }) {
  const [kind, text] = WORDS[account.status];
  return html`<${Badge} kind=${kind}>${text}<//>`;
}

/** The details of the status: sync progress, or the error. @param {{account: Account}} props */
export function Condition({ account }) {
  const progress = useStatus()?.accounts.find((one) => one.id === account.id)?.progress;
  return html`${WORDS[account.status][0] === "busy" && html`<p class="muted" role="status">Fetching mail${progress && `: ${progress}`}. You can already read the messages that have arrived.</p>`}
    ${account.error && html`<div class="problem"><p><${ApiText} text=${account.error.message} /></p></div>`}
    <p class="muted">Last synced: <${Time} at=${account.lastSyncAt} ago none="not yet" /></p>`;
}

/** Whether the member has access to the mail of a mailbox. @param {Account} account @param {string} [memberId] */
export function reaches(account, memberId = "") {
  return account.sharedWithAll || [account.ownerMemberId, ...account.grantedMemberIds].includes(memberId);
}
