// @ts-check
/** The mailboxes of the member; administrators also see the others. */
import { nameOf } from "../../accounts.js";
import * as api from "../../api.js";
import { about } from "../../changes.js";
import { html } from "../../html.js";
import { to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { Empty, Loaded, useLoad } from "../../ui/load.js";
import { Title } from "../../ui/values.js";
import * as words from "../../words.js";
import { Condition, PROVIDERS, reaches, State } from "./state.js";

/** @typedef {import("../../accounts.js").Account} Account */

/** Load all mailboxes that the member can see, and keep them up to date. @param {session.Member | null} member @param {number} every milliseconds */
export function useEvery(member, every) {
  const isAdmin = member?.role === "admin";
  const path = isAdmin ? "/admin/accounts" : "/accounts";
  // Administrators get no events of the mailboxes of others.
  const how = { on: about("account"), every, seldom: isAdmin ? every : undefined };
  return useLoad((signal) => api.get(path, {}, signal), [path], how);
}

export default function Mailboxes() {
  const member = useShared(session.member);
  const every = useEvery(member, 10_000);
  return html`<${Title} actions=${html`<a role="button" href=${to("/mailboxes/connect")}>Connect a mailbox</a>`}>Mailboxes<//>
    <${Loaded} of=${every} what="the mailboxes">${(/** @type {Account[]} */ all) => {
      const reached = all.filter((one) => reaches(one, member?.id));
      const others = all.filter((one) => !reached.includes(one));
      return html`${
        reached.length
          ? html`<${Boxes} accounts=${reached} memberId=${member?.id} />`
          : html`<${Empty} title="No mailbox is connected yet."><p>Connect one with its email address and password. The mail stays on its server.</p><//>`
      }
      ${
        others.length > 0 &&
        html`<section aria-label="Mailboxes of other members"><h2>Mailboxes of other members</h2>
          <p class="muted">As an administrator you see these mailboxes and their status, but never their mail.</p>
          <${Boxes} accounts=${others} memberId=${member?.id} /></section>`
      }`;
    }}<//>`;
}

/** @param {{accounts: Account[], memberId?: string}} props */
function Boxes({ accounts, memberId }) {
  return html`<ul class="boxes">${accounts.map(
    (one) => html`<li key=${one.id}><article aria-label=${nameOf(one)}>
      <header><h2><a href=${to(api.at`/mailboxes/${one.id}`)}>${one.displayName || one.email}</a></h2> <${State} account=${one} /></header>
      ${one.displayName && html`<p>${one.email}</p>`}
      <${Condition} account=${one} />
      <p class="muted">${PROVIDERS[one.provider]} · ${shared(one, memberId)}</p>
      ${
        reaches(one, memberId) &&
        html`<footer><a href=${to("/mail", { account: one.id })} aria-label=${`Read mail of ${nameOf(one)}`}>Read mail</a>
        ${one.status === "reauth_required" && one.ownerMemberId === memberId && html` · <a href=${to(api.at`/mailboxes/${one.id}`)} aria-label=${`Sign in again to ${nameOf(one)}`}>Sign in again</a>`}</footer>`
      }
    </article></li>`,
  )}</ul>`;
}

/** @param {Account} account @param {string} [memberId] */
function shared(account, memberId) {
  if (account.ownerMemberId !== memberId && reaches(account, memberId)) return "shared with you";
  if (account.sharedWithAll) return "shared with all members";
  const count = account.grantedMemberIds.length;
  return count ? `shared with ${words.count(count, "member")}` : "not shared";
}
