// @ts-check
/** The sync status of the member's mailboxes; administrators see all. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { to } from "../../router.js";
import { Empty, Loaded } from "../../ui/load.js";
import { ApiText, Time } from "../../ui/values.js";
import { State } from "../mailboxes/state.js";
import { useCard } from "./admin.js";

/** @typedef {import("../../accounts.js").Account} Account */

const EVERY = 10_000; // milliseconds

/** @param {{status: import("../../status.js").Status, isAdmin: boolean}} props */
export function Mailboxes({ status, isAdmin }) {
  const path = isAdmin ? "/admin/accounts" : "/accounts";
  const loading = useCard((signal) => api.get(path, undefined, signal), [path], { every: EVERY });
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
