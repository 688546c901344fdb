// @ts-check
/** The mail page: mailboxes, folders, and the messages of one folder. */
import { useAccounts } from "../../accounts.js";
import { at, get } from "../../api.js";
import { html } from "../../html.js";
import { to } from "../../router.js";
import { Title } from "../../title.js";
import { Empty, Loaded, useLoad } from "../../ui/load.js";
import { Places } from "./folders.js";
import { Messages } from "./messages.js";
import { Search } from "./search.js";
import { placeName, viewOf } from "./view.js";

const EVERY = 20_000; // milliseconds

/** @typedef {import("../../accounts.js").Account} Account */

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  const accounts = useAccounts();
  return html`<${Loaded} of=${accounts} what="your mailboxes">${(/** @type {Account[]} */ all) =>
    all.length ? html`<${Mail} accounts=${all} query=${query} />` : html`<${NoMailbox} />`}<//>`;
}

function NoMailbox() {
  return html`<${Title}>Mail<//>
    <${Empty} title="No mailbox is connected yet">
      <p>Connect one of your mailboxes, or ask a member to share one with you.</p>
      <a role="button" href=${to("/mailboxes/connect")}>Connect a mailbox</a>
    <//>`;
}

/** @param {{accounts: Account[], query: Record<string, string>}} props */
function Mail({ accounts, query }) {
  const view = viewOf(query, accounts);
  const account = accounts.find((one) => one.id === view.accountId);
  const folders = useLoad(
    async (signal) => (account ? get(at`/accounts/${account.id}/folders`, {}, signal) : []),
    [view.accountId],
    { every: EVERY },
  );
  const place = placeName(view, folders.data ?? []);
  return html`<${Title}>${`Mail: ${view.q ? "search" : place}`}<//>
    <div class="mail">
      <${Places} view=${view} accounts=${accounts} folders=${folders.data ?? []} />
      <section aria-label=${place}>
        <${Search} view=${view} place=${place} isWanted=${query.search === "1"} />
        ${(account ? [account] : accounts).map((one) => html`<${Doubt} key=${one.id} account=${one} />`)}
        <${Messages} key=${view.key} view=${view} place=${place} accounts=${accounts} onChanged=${folders.reload} />
      </section>
    </div>`;
}

/** The reason why a mailbox gets no new mail. @param {{account: Account}} props */
function Doubt({ account }) {
  if (account.status !== "reauth_required" && account.status !== "error") return null;
  return html`<p class="warning">${account.email}: ${account.error?.message ?? "This mailbox cannot be synced."} The messages shown may be out of date.
    ${" "}<a href=${to(at`/mailboxes/${account.id}`)}>Open this mailbox</a></p>`;
}
