// @ts-check
/** Creating and editing a key. Administrators cannot grant mail permissions to keys of other members. */
import * as api from "../../api.js";
import { html, useState } from "../../html.js";
import { go, to } from "../../router.js";
import { Title } from "../../title.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { done } from "../../ui/notices.js";
import { reaches } from "../mailboxes/state.js";
import { Choices } from "./choices.js";
import { noRights, permissionsOf, rightsOf, scopeOf } from "./rights.js";
import { Summary } from "./summary.js";
import { NewToken } from "./token.js";

/** @typedef {import("./rights.js").ApiKey} ApiKey */
/** @typedef {import("./rights.js").Rights} Rights */
/** @typedef {import("../../accounts.js").Account} Account */
/** @typedef {import("../../session.js").Member} Member */
/** @typedef {{apiKey: ApiKey | undefined, members: Member[], accounts: Account[]}} Known */

/** @param {{me: Member, keyId?: string}} props without `keyId`: a new one */
export function EditKey({ me, keyId }) {
  const known = useLoad(() => ask(keyId), [me.id, keyId]);
  return html`<${Title}>${keyId ? "Edit an API key" : "Create an API key"}<//>
    <${Loaded} of=${known} what="the key">${(/** @type {Known} */ data) => {
      if (!keyId) return html`<${Create} me=${me} ...${data} />`;
      if (data.apiKey) return html`<${Change} me=${me} ...${data} />`;
      return html`<p>This key no longer exists. <a href=${to("/keys")}>Go to API keys</a></p>`;
    }}<//>`;
}

/** @param {Known & {me: Member}} props */
function Create({ me, accounts }) {
  const [issued, setIssued] = useState(/** @type {import("./token.js").Issued | null} */ (null));
  const form = useForm({ name: "", ...noRights() }, async (values) => {
    const rights = /** @type {Rights} */ (/** @type {any} */ (values));
    const body = { name: values.name, ...permissionsOf(rights), accounts: scopeOf(rights) };
    setIssued(await api.post("/me/api-keys", body));
  });
  return html`<${Edit} form=${form} action="Create key" isOwn accounts=${accounts} choices=${{ accounts, isAdmin: me.role === "admin" }}>
      <${Field} of=${form} name="name" label="Name" autocomplete="off" autofocus required hint="The program that will use it, for example “AI agent on my laptop”." />
    <//>
    ${issued && html`<${NewToken} issued=${issued} onClose=${() => go("/keys")} />`}`;
}

/** @param {Known & {me: Member, apiKey: ApiKey}} props */
function Change({ me, apiKey, members, accounts }) {
  const isOwn = apiKey.memberId === me.id;
  const before = rightsOf(apiKey);
  const mine = accounts.filter((one) => reaches(one, apiKey.memberId));
  const reached = mine.filter((one) => isOwn || before.reach === "all" || before.accounts.includes(one.id));
  const form = useForm(before, async (values) => {
    const rights = /** @type {Rights} */ (/** @type {any} */ (values));
    const scope = changedScope(rights, before, reached);
    await api.patch(api.at`/admin/api-keys/${apiKey.id}`, { ...permissionsOf(rights), ...scope });
    go("/keys", isOwn ? {} : { all: 1 });
    done(`Key “${apiKey.name}” saved.`);
  });
  const owner = isOwn ? undefined : (members.find((one) => one.id === apiKey.memberId)?.name ?? "its owner");
  const most = isOwn ? null : before.mail;
  return html`<${Edit} form=${form} action="Save key" isOwn=${isOwn} owner=${owner} accounts=${mine}
      choices=${{ accounts: reached, isAdmin: true, most, mayWiden: isOwn || before.reach === "all" }}>
      <p><strong>${apiKey.name}</strong>, a key of ${owner ?? "yours"}, keeps its token.
        ${owner && ` Only ${owner} can grant more mail permissions, with a new key.`}</p>
    <//>`;
}

/**
 * @param {{form: import("../../ui/form.js").FormState, action: string, isOwn: boolean, owner?: string, accounts: Account[], choices: Record<string, any>, children: any}} props
 */
function Edit({ form, action, isOwn, owner, accounts, choices, children }) {
  const back = to("/keys", isOwn ? {} : { all: 1 });
  return html`<${Form} of=${form} action=${action} label="API key" more=${html`<a role="button" class="secondary outline" href=${back}>Cancel</a>`}>
    <div class="beside">
      <div>${children}<${Choices} of=${form} ...${choices} /></div>
      <${Summary} rights=${form.values} accounts=${accounts} owner=${owner} />
    </div><//>`;
}

/**
 * Return the mailboxes if they changed, without those that the owner no longer has access to: the API refuses them.
 * @param {Rights} rights
 * @param {Rights} before
 * @param {Account[]} reached
 */
function changedScope(rights, before, reached) {
  const now = scopeOf(rights);
  if (JSON.stringify(now) === JSON.stringify(scopeOf(before))) return {};
  return { accounts: now?.filter((id) => reached.some((one) => one.id === id)) ?? null };
}

/** @param {string} [keyId] @returns {Promise<Known>} */
async function ask(keyId) {
  const [members, accounts, keys] = await Promise.all([
    keyId ? api.get("/admin/members") : [],
    api.get(keyId ? "/admin/accounts" : "/accounts"),
    keyId ? api.get("/admin/api-keys") : [],
  ]);
  return { members, accounts, apiKey: keys.find((/** @type {ApiKey} */ one) => one.id === keyId) };
}
