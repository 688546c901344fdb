// @ts-check
/** One mailbox: its status, and the settings that its owner can change. */
import { nameOf, reload as reloadAccounts } from "../../accounts.js";
import * as api from "../../api.js";
import { html } from "../../html.js";
import { go, to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { sure } from "../../ui/dialog.js";
import { Check, Field, Form, useForm } from "../../ui/form.js";
import { Loaded, Problem, useLoad } from "../../ui/load.js";
import { attempt, done, warn } from "../../ui/notices.js";
import { Time, Title } from "../../ui/values.js";
import { SendingPolicy } from "../sending-policy.js";
import { useEvery } from "./list.js";
import { ProviderSignIn } from "./provider-sign-in.js";
import { Checks, LoginFields, Servers, serversOf, valuesOf } from "./servers.js";
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
    ${
      isOwner &&
      html`<article><h2>Sending policy</h2>
      <p>Rules for every message from this mailbox, whoever sends it: you, people you share it with, and API keys. If an API key has a policy too, the stricter rule holds.</p>
      <${SendingPolicy} path=${api.at`/accounts/${account.id}/sending-policy`} /></article>`
    }
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

// --- Signing in to the servers of a mailbox again, with changed values ---

const NOTHING = Object.fromEntries(Object.keys(valuesOf()).map((name) => [name, ""]));

/** @param {{account: Account, reload: () => Promise<unknown>}} props */
function Reconnect({ account, reload }) {
  const form = useForm(NOTHING, async (values) => {
    await api.post(api.at`/accounts/${account.id}/reconnect`, serversOf(values));
    form.reset();
    await reload();
    done("Signed in to both servers.");
  });
  return html`<article><h2>Sign-in</h2>
    <p>Use this after a password change, or if the servers have changed. Empty fields stay unchanged, and both servers are tested before anything is saved.</p>
    <${Form} of=${form} action="Sign in again" busy="Signing in to both servers…" label="Sign-in">
      <${LoginFields} of=${form} isChange hint="Leave empty to use the stored password." />
      <${Servers} of=${form} isChange>Change servers (requires the password) or user name<//>
      <${Checks} of=${form} />
    <//></article>`;
}

// --- The server folders for sent mail, drafts, trash, archive and spam ---

/** @typedef {keyof Account["folders"]} Role */
/** @typedef {{id: string, path: string, role?: string, roleSource?: "user" | "extension" | "name"}} Folder */

/** @type {[Role, string][]} */
const ROLES = [
  ["sent", "Sent mail"],
  ["drafts", "Drafts"],
  ["archive", "Archive"],
  ["spam", "Spam"],
  ["trash", "Trash"],
];

/** @param {{account: Account, isOwner: boolean, reload: () => Promise<unknown>}} props */
function Folders({ account, isOwner, reload }) {
  const folders = useLoad((signal) => api.get(api.at`/accounts/${account.id}/folders`, {}, signal), [account.id]);
  const mayMap = isOwner && account.provider === "imap";
  return html`<article><h2>Folders</h2>
    <p>The server folder for each purpose.${mayMap && " You can choose a different one."}</p>
    <${Loaded} of=${folders} what="the folders">${(/** @type {Folder[]} */ all) =>
      mayMap
        ? html`<${Mapping} account=${account} folders=${all} reload=${() => Promise.all([folders.reload(), reload()])} />`
        : html`<dl class="facts">${ROLES.map(([role, label]) => html`<div key=${role}><dt>${label}</dt><dd>${account.folders[role] ?? "none"}</dd></div>`)}</dl>`}
    <//></article>`;
}

/** Return the path that the owner chose, or "" if the choice is automatic. @param {Folder[]} folders @param {Role} role */
function chosen(folders, role) {
  return folders.find((one) => one.role === role && one.roleSource === "user")?.path ?? "";
}

/** @param {{account: Account, folders: Folder[], reload: () => Promise<unknown>}} props */
function Mapping({ account, folders, reload }) {
  const form = useForm(Object.fromEntries(ROLES.map(([role]) => [role, chosen(folders, role)])), async (values) => {
    const changed = ROLES.filter(([role]) => values[role] !== chosen(folders, role));
    const body = Object.fromEntries(changed.map(([role]) => [role, values[role] || null]));
    const { warnings } = await api.ask("PATCH", api.at`/accounts/${account.id}/imap/folders`, { body });
    await reload();
    for (const one of warnings) warn(one);
    done("Folders saved.");
  });
  const paths = folders.map((one) => one.path).filter((path) => path.toUpperCase() !== "INBOX");
  return html`<${Form} of=${form} action="Save folders" busy="Checking the server…" label="Folders"
    more=${html`<button type="button" class="secondary outline" onClick=${reload}>Refresh folders</button>`}>
    <div class="pair">${ROLES.map(
      ([role, label]) =>
        html`<${Field} key=${role} of=${form} name=${role} label=${label} options=${optionsOf(account, folders, paths, role)} />`,
    )}</div>
  <//>`;
}

/** @param {Account} account @param {Folder[]} folders @param {string[]} paths @param {Role} role @returns {[string, string][]} */
function optionsOf(account, folders, paths, role) {
  const automatic = chosen(folders, role) ? "" : ` (${account.folders[role] ?? "none"})`;
  return [["", `Automatic${automatic}`], ...paths.map((path) => /** @type {[string, string]} */ ([path, path]))];
}

// --- Access of other members to a mailbox ---

/** @typedef {import("../../ui/form.js").FormState} FormState */

/** @param {{account: Account, isOwner: boolean, reload: () => Promise<unknown>}} props an administrator who is not the owner can only remove access */
function Sharing({ account, isOwner, reload }) {
  const isAdmin = session.member.value?.role === "admin";
  const members = useLoad(async (signal) => (isAdmin ? api.get("/admin/members", {}, signal) : []), [isAdmin]);
  const start = { sharedWithAll: account.sharedWithAll, memberIds: account.grantedMemberIds, added: "" };
  const form = useForm(start, async ({ sharedWithAll, memberIds, added }) => {
    const ids = added.trim() ? [...memberIds, added.trim()] : memberIds;
    const after = await api.put(api.at`/accounts/${account.id}/access`, { sharedWithAll, memberIds: ids });
    form.set({ sharedWithAll: after.sharedWithAll, memberIds: after.grantedMemberIds, added: "" });
    await reload();
    done("Sharing saved.");
  });
  const known = /** @type {session.Member[]} */ (members.data ?? []);
  const isShared = account.sharedWithAll || account.grantedMemberIds.length > 0;
  if (!isOwner && !isShared)
    return html`<article><h2>Sharing</h2><p>Only the owner has access to this mailbox.</p></article>`;
  return html`<article><h2>Sharing</h2>
    <p>${isOwner ? "People you share with can read, organize and send its mail. Only you can change the mailbox settings." : "You can remove access. Only the owner can grant it."}</p>
    ${members.error !== undefined && html`<${Problem} error=${members.error} again=${members.reload} />`}
    <${Form} of=${form} action="Save sharing" label="Sharing">
      ${(isOwner || account.sharedWithAll) && html`<${Check} of=${form} name="sharedWithAll" isSwitch label="Share with all members" hint="Including members who join later." />`}
      ${!form.values.sharedWithAll && html`<${Members} form=${form} account=${account} known=${known} mayGive=${isOwner} />`}
    <//></article>`;
}

/** @param {{form: FormState, account: Account, known: session.Member[], mayGive: boolean}} props */
function Members({ form, account, known, mayGive }) {
  /** @type {string[]} */
  const chosen = form.values.memberIds;
  const named = new Map(known.map((one) => [one.id, `${one.name} (${one.email})`]));
  const ids = [...new Set([...(mayGive ? named.keys() : []), ...account.grantedMemberIds, ...chosen])];
  const shown = ids.filter((id) => id !== account.ownerMemberId);
  const take = (/** @type {string} */ id, /** @type {boolean} */ isOn) =>
    form.set({ memberIds: isOn ? [...chosen, id] : chosen.filter((one) => one !== id) });
  return html`<fieldset>
    <legend>Members with access</legend>
    ${shown.length === 0 && html`<p class="muted">Only the owner.</p>`}
    ${shown.map(
      (id) => html`<label key=${id}><input type="checkbox" checked=${chosen.includes(id)}
        onChange=${(/** @type {any} */ event) => take(id, event.currentTarget.checked)} /> ${named.get(id) ?? `Member ${id}`}</label>`,
    )}
    ${
      mayGive &&
      known.length === 0 &&
      html`<${Field} of=${form} name="added" path="/memberIds" label="Add a member by ID" autocomplete="off"
      hint="The ID starts with mem_. Members find theirs under Profile; administrators see all IDs." />`
    }
  </fieldset>`;
}
