// @ts-check
/** One mailbox: its status, and the settings that its owner can change. */
import { nameOf, reload as reloadAccounts } from "../../accounts.js";
import * as api from "../../api.js";
import { html } from "../../html.js";
import { go, to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { Title } from "../../title.js";
import { sure } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded } from "../../ui/load.js";
import { attempt, done } from "../../ui/notices.js";
import { Time } from "../../ui/values.js";
import { Folders } from "./folders.js";
import { useEvery } from "./list.js";
import { ProviderSignIn } from "./provider-sign-in.js";
import { Reconnect } from "./reconnect.js";
import { Sharing } from "./sharing.js";
import { Condition, PROVIDERS, reaches, State } from "./state.js";

/** @typedef {import("../../accounts.js").Account} Account */

/** @param {{params: Record<string, string>}} props */
export default function Mailbox({ params }) {
  const member = useShared(session.member);
  const every = useEvery(member, 5_000);
  const account = /** @type {Account[] | undefined} */ (every.data)?.find((one) => one.id === params.accountId);
  const reload = () => Promise.all([every.reload(), reloadAccounts()]);
  if (account) return html`<${Shown} key=${account.id} account=${account} member=${member} reload=${reload} />`;
  return html`<${Loaded} of=${every} what="the mailbox">${() => html`<${Missing} />`}<//>`;
}

function Missing() {
  return html`<${Title}>Mailbox not found<//>
    <p>It may have been removed, or is no longer shared with you.</p><p><a href=${to("/mailboxes")}>Go to mailboxes</a></p>`;
}

/** @param {{account: Account, member: session.Member | null, reload: () => Promise<unknown>}} props */
function Shown({ account, member, reload }) {
  const isOwner = account.ownerMemberId === member?.id;
  const isReached = reaches(account, member?.id);
  const read =
    isReached &&
    html`<a role="button" class="secondary outline" href=${to("/mail", { account: account.id })}>Read mail</a>`;
  const signIn = isOwner && html`<${SignIn} account=${account} reload=${reload} />`;
  const isUrgent = account.status === "reauth_required" || account.status === "error";
  return html`<${Title} actions=${read}>${nameOf(account)}<//>
    <p><a href=${to("/mailboxes")}>All mailboxes</a></p>
    <article><h2>Status <${State} account=${account} /></h2><${Condition} account=${account} />
      <p class="muted">${PROVIDERS[account.provider]}, connected <${Time} at=${account.createdAt} exact />${!isOwner && isReached && ". It is shared with you; only its owner can change it"}.</p>
    </article>
    ${isUrgent && signIn}
    ${isOwner && html`<${Name} account=${account} reload=${reload} />`}
    ${(isOwner || member?.role === "admin") && html`<${Sharing} account=${account} isOwner=${isOwner} reload=${reload} />`}
    ${isReached && html`<${Folders} account=${account} isOwner=${isOwner} reload=${reload} />`}
    ${!isUrgent && signIn}
    ${isOwner && html`<${Remove} account=${account} />`}`;
}

/** @param {{account: Account, reload: () => Promise<unknown>}} props */
function SignIn({ account, reload }) {
  if (account.provider === "imap") return html`<${Reconnect} account=${account} reload=${reload} />`;
  const again = () =>
    attempt(async () => {
      await api.post(api.at`/accounts/${account.id}/reconnect`);
      await reload();
      done("Signed in to both servers.");
    });
  return html`<article><h2>Sign-in</h2><p>Sign in again if the provider has ended the access, for example after a password change.</p>
    <${ProviderSignIn} only=${account.provider} wanted=${{ accountId: account.id }} />
    <p><button type="button" class="secondary outline small" onClick=${again}>Try the stored sign-in again</button></p></article>`;
}

/** @param {{account: Account, reload: () => Promise<unknown>}} props */
function Name({ account, reload }) {
  const form = useForm({ displayName: account.displayName ?? "" }, async ({ displayName }) => {
    const name = displayName.trim();
    await api.patch(api.at`/accounts/${account.id}`, { displayName: name || null });
    await reload();
    done(name ? `The mailbox is now called ${name}.` : "The mailbox is now shown by its address.");
  });
  return html`<article><h2>Name</h2>
    <${Form} of=${form} action="Save name" label="Name">
      <${Field} of=${form} name="displayName" label="Mailbox name" hint="Shown in the console. If empty, the address is shown." />
    <//></article>`;
}

/** @param {{account: Account}} props */
function Remove({ account }) {
  const remove = async () => {
    const text = html`The appliance deletes its sign-in, its copy of the mail, its deliveries and its sharing; API keys lose access, and scheduled
      messages are not sent. The mail stays on its server, and you can connect the mailbox again.`;
    if (!(await sure({ title: `Remove ${account.email}?`, text, action: "Remove mailbox", danger: true }))) return;
    await attempt(async () => {
      await api.remove(api.at`/accounts/${account.id}`);
      await reloadAccounts();
      go("/mailboxes", {}, { replace: true });
      done(`${account.email} was removed.`);
    });
  };
  return html`<article><h2>Remove</h2>
    <button type="button" class="danger own-width" onClick=${remove}>Remove this mailbox…</button></article>`;
}
