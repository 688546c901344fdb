// @ts-check
/** Creating and editing a key. */
import { nameOf } from "../../accounts.js";
import * as api from "../../api.js";
import { html, useState } from "../../html.js";
import { go, to } from "../../router.js";
import { Field, Form, Picks, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { done } from "../../ui/notices.js";
import { Snippet, Title } from "../../ui/values.js";
import { ShownOnce } from "../credentials.js";
import { reaches } from "../mailboxes/state.js";
import { ADMIN, cautions, MAIL, noRights, PROFILES, permissionsOf, rightsOf, scopeOf, sentence } from "./rights.js";

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
  const [issued, setIssued] = useState(/** @type {Issued | null} */ (null));
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
  const form = useForm(before, async (values) => {
    const rights = /** @type {Rights} */ (/** @type {any} */ (values));
    const scope = changedScope(rights, before, mine);
    await api.patch(api.at`/admin/api-keys/${apiKey.id}`, { ...permissionsOf(rights), ...scope });
    go("/keys", isOwn ? {} : { all: 1 });
    done(`Key “${apiKey.name}” saved.`);
  });
  const owner = isOwn ? undefined : (members.find((one) => one.id === apiKey.memberId)?.name ?? "its owner");
  return html`<${Edit} form=${form} action="Save key" isOwn=${isOwn} owner=${owner} accounts=${mine} choices=${{ accounts: mine, isAdmin: true }}>
      <p><strong>${apiKey.name}</strong>, a key of ${owner ?? "yours"}, keeps its token.
        ${owner && ` It never does more than ${owner} may do. ${owner} is informed of the change.`}</p>
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

// --- The form fields for the permissions and mailboxes of a key ---

/** @typedef {import("../../ui/form.js").FormState} FormState */

/**
 * @param {{of: FormState, accounts: import("../../accounts.js").Account[], isAdmin: boolean}} props
 */
function Choices({ of: form, accounts, isAdmin }) {
  const profiles = Object.entries(PROFILES).map(([value, one]) => ({ value, ...one }));
  const custom = { value: "custom", label: "Custom", hint: "Only the permissions you select." };
  const reach = [
    { value: "all", label: "All mailboxes", hint: "Including mailboxes connected later." },
    { value: "some", label: "Selected mailboxes" },
  ];
  return html`
    <${Picks} of=${form} name="profile" legend="Mail permissions" choices=${[...profiles, custom]}
      more=${(/** @type {string} */ value) => (PROFILES[value] ? { mail: PROFILES[value].mail } : {})} />
    ${
      form.values.profile === "custom" &&
      html`<${Picks} of=${form} name="mail" legend="Permissions"
        choices=${MAIL.map((one) => ({ value: one.id, label: one.full, hint: one.id }))} />`
    }
    <${Picks} of=${form} name="reach" legend="Mailbox access" choices=${reach} />
    ${
      form.values.reach === "some" &&
      html`<${Picks} of=${form} name="accounts" legend="Mailboxes" none="No mailbox is connected yet."
        choices=${accounts.map((one) => ({ value: one.id, label: nameOf(one) }))} />`
    }
    ${isAdmin && html`<${Administration} of=${form} isOpen=${form.values.admin.length > 0} />`}`;
}

/** @param {{of: FormState, isOpen: boolean}} props */
function Administration({ of: form, isOpen }) {
  const choices = ADMIN.map((one) => ({ value: one.id, label: one.full, hint: one.id }));
  return html`<details open=${isOpen}>
    <summary>Administration</summary>
    <p><small>For programs that manage the appliance. AI agents do not need these. Only “manage members” can lead to access to mail.</small></p>
    <${Picks} of=${form} name="admin" legend="Administration permissions" choices=${choices} />
  </details>`;
}

// --- The summary of a key's permissions during editing ---

/** @param {{rights: import("./rights.js").Rights, accounts: Account[], owner?: string}} props
 *   `owner`: the owner's name, if it is another member */
function Summary({ rights, accounts, owner }) {
  const warned = cautions(rights);
  return html`<aside class="summary" aria-label="Permissions of this key">
    <h2>Summary</h2>
    <p aria-live="polite">${sentence(rights, accounts, owner)}</p>
    ${warned.length > 0 && html`<div class="warning"><ul>${warned.map((text) => html`<li key=${text}>${text}</li>`)}</ul></div>`}
    <p><small>It can never do more than ${owner ?? "you"} can.</small></p>
  </aside>`;
}

// --- The dialog for a new key: its token, shown only once, and how to use it ---

/** @typedef {{apiKey: import("./rights.js").ApiKey, token: string}} Issued */

/** @param {{issued: Issued, onClose: () => void}} props */
function NewToken({ issued, onClose }) {
  const uses = usesOf(location.origin, issued.token, issued.apiKey.capabilities);
  const isOwnCertificate = location.protocol === "https:";
  return html`<${ShownOnce} title=${`Key “${issued.apiKey.name}”`} what="token" wide onClose=${onClose}>
    <p>Copy the token now: <strong>it is shown only once</strong>. Anyone who has it can do what the key allows.</p>
    <${Snippet} label="Token" copy="Copy token" text=${issued.token} />
    <h3>Use the key</h3>
    ${uses.map(
      (
        [title, hint, label, text],
        index,
      ) => html`<details key=${label} name="uses" open=${index === 0}><summary>${title}</summary>
        <p><small>${hint}</small></p><${Snippet} label=${label} text=${text} /></details>`,
    )}
    ${
      isOwnCertificate &&
      html`<p><small>If the appliance uses a self-signed certificate, run <code>mailbox-appliance login ${location.origin}</code> once and compare
      the fingerprint it shows. For curl, pass the certificate with <code>--cacert</code>.</small></p>`
    }
  <//>`;
}

// --- Configurations and commands that use a key, ready to paste. Pure functions ---

/** @typedef {[title: string, hint: string, label: string, text: string]} Use */

/**
 * @param {string} address of the appliance, without a slash at the end
 * @param {string} token
 * @param {string[]} capabilities of the key
 * @returns {Use[]}
 */
function usesOf(address, token, capabilities) {
  const reads = capabilities.includes("mail.read");
  const program = `mailbox-appliance --instance ${address}`;
  /** @type {Use[]} */
  const uses = [
    [
      "AI agent over stdio (MCP)",
      "Add this to the MCP client’s configuration. The command must be installed on the same computer.",
      "Configuration for stdio",
      mcp({
        command: "mailbox-appliance",
        args: ["--instance", address, "mcp"],
        env: { MAILBOX_APPLIANCE_TOKEN: token },
      }),
    ],
    [
      "AI agent over HTTP (MCP)",
      "Add this to the MCP client’s configuration. The client must be able to connect to the address and trust its certificate.",
      "Configuration for HTTP",
      mcp({ type: "http", url: `${address}/mcp`, headers: { Authorization: `Bearer ${token}` } }),
    ],
    [
      "Command line",
      "For bash and zsh. Lasts until you close the terminal.",
      "Commands",
      `export MAILBOX_APPLIANCE_TOKEN=${token}\n${program} ${reads ? `accounts list\n${program} status` : "whoami"}`,
    ],
    [
      "curl and your own programs",
      `The API is described at ${address}/api/v1/openapi.json.`,
      "curl command",
      `curl -H "Authorization: Bearer ${token}" ${address}/api/v1/${reads ? "accounts" : "me"}`,
    ],
  ];
  const hasMail = capabilities.some((one) => one.startsWith("mail."));
  return uses.slice(hasMail ? 0 : 2);
}

/** @param {object} mailbox the server */
function mcp(mailbox) {
  return JSON.stringify({ mcpServers: { mailbox } }, null, 2);
}
