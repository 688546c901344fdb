// @ts-check
/** API keys: the member's own, for administrators all, and the pages that create and edit them. */
import * as api from "../../api.js";
import { html, useRef } from "../../html.js";
import { to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { sure } from "../../ui/dialog.js";
import { Empty, Loaded, useLoad } from "../../ui/load.js";
import { attempt, done } from "../../ui/notices.js";
import { Time, Title } from "../../ui/values.js";
import { SendingPolicy } from "../sending-policy.js";
import { EditKey } from "./edit-key.js";
import { rightsOf, sentence } from "./rights.js";

/** @typedef {import("./rights.js").ApiKey} ApiKey */

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  const me = useShared(session.member);
  if (me === null) return null;
  const isAdmin = me.role === "admin";
  if (query.new) return html`<${EditKey} me=${me} />`;
  if (query.change && isAdmin) return html`<${EditKey} key=${query.change} me=${me} keyId=${query.change} />`;
  const isAll = isAdmin && Boolean(query.all);
  if (query.policy) return html`<${KeyPolicy} key=${query.policy} me=${me} keyId=${query.policy} isAll=${isAll} />`;
  return html`<${Title} actions=${html`<a role="button" href=${to("/keys", { new: 1 })}>Create a key</a>`}>API keys<//>
    <p>With an API key, a program or AI agent can do what you allow, without your password.</p>
    ${isAdmin && html`<${Views} isAll=${isAll} />`}
    <${List} key=${isAll} me=${me} isAll=${isAll} />`;
}

/** @param {{isAll: boolean}} props */
function Views({ isAll }) {
  return html`<nav class="views" aria-label="Keys to show"><ul>
    <li><a href=${to("/keys")} aria-current=${isAll ? undefined : "page"}>Yours</a></li>
    <li><a href=${to("/keys", { all: 1 })} aria-current=${isAll ? "page" : undefined}>All members</a></li>
  </ul></nav>`;
}

/** @param {{me: session.Member, isAll: boolean}} props */
function List({ me, isAll }) {
  const top = useRef(/** @type {HTMLElement | null} */ (null));
  const path = isAll ? "/admin" : "/me";
  const known = useLoad(async () => {
    const [keys, members, accounts] = await Promise.all([
      api.get(`${path}/api-keys`),
      isAll ? api.get("/admin/members") : [],
      api.get(isAll ? "/admin/accounts" : "/accounts"),
    ]);
    const names = Object.fromEntries(members.map((/** @type {session.Member} */ one) => [one.id, one.name]));
    return { keys, names, accounts };
  }, [isAll]);
  const revoke = async (/** @type {ApiKey} */ key) => {
    const text = "Programs that use it lose access immediately. This cannot be undone.";
    if (!(await sure({ title: `Revoke “${key.name}”?`, text, action: "Revoke key", danger: true }))) return;
    await attempt(async () => {
      await api.remove(path + api.at`/api-keys/${key.id}`);
      done(`Key “${key.name}” revoked.`);
      await known.reload();
      top.current?.focus();
    });
  };
  return html`<div ref=${top} tabindex="-1"><${Loaded} of=${known} what="the keys">${(
    /** @type {any} */ { keys, names, accounts },
  ) =>
    keys.length === 0
      ? html`<${Empty} title="No API keys yet."><p>Create one key for each program, so that you can revoke them separately.</p><//>`
      : html`<ul class="lines">${keys.map(
          (/** @type {ApiKey} */ key) => html`<${Row} key=${key.id} apiKey=${key} me=${me} owner=${names[key.memberId]}
            accounts=${accounts} isAll=${isAll} onRevoke=${() => revoke(key)} />`,
        )}</ul>`}<//></div>`;
}

/** @param {{apiKey: ApiKey, me: session.Member, owner?: string, accounts: any[], isAll: boolean, onRevoke: () => void}} props */
function Row({ apiKey, me, owner, accounts, isAll, onRevoke }) {
  const whose = apiKey.memberId === me.id ? undefined : (owner ?? "its owner");
  return html`<li>
    <div><h2>${apiKey.name}</h2><p>${whose && `Owner: ${whose}. `}${sentence(rightsOf(apiKey), accounts, whose)}</p></div>
    <p class="muted">${apiKey.lastUsedAt ? html`Last used <${Time} at=${apiKey.lastUsedAt} ago />` : "Never used"}<br />
      Created <${Time} at=${apiKey.createdAt} exact /></p>
    <div class="actions">
      <a role="button" class="secondary outline small" href=${to("/keys", { policy: apiKey.id, all: isAll ? 1 : null })}>Sending policy<span class="said"> of ${apiKey.name}</span></a>
      ${me.role === "admin" && html`<a role="button" class="secondary outline small" href=${to("/keys", { change: apiKey.id })}>Edit<span class="said"> ${apiKey.name}</span></a>`}
      <button type="button" class="secondary outline small" onClick=${onRevoke}>Revoke<span class="said"> ${apiKey.name}</span></button>
    </div>
  </li>`;
}

// --- The sending policy of a key: its member may change it, an administrator may only tighten it ---

/** @param {{me: session.Member, keyId: string, isAll: boolean}} props */
function KeyPolicy({ me, keyId, isAll }) {
  const known = useLoad((signal) => api.get(isAll ? "/admin/api-keys" : "/me/api-keys", {}, signal), [isAll]);
  return html`<${Title}>Sending policy<//><p><a href=${to("/keys", { all: isAll ? 1 : null })}>All API keys</a></p>
    <${Loaded} of=${known} what="the key">${(/** @type {ApiKey[]} */ keys) => {
      const key = keys.find((one) => one.id === keyId);
      if (!key) return html`<p>This key no longer exists.</p>`;
      const isOwn = key.memberId === me.id;
      return html`<p>Rules for every message that <strong>${key.name}</strong> sends, from any mailbox. If the mailbox has a policy too, the stricter rule holds.
          ${!isOwn && " You can only make these rules stricter; the key’s owner can loosen them."}</p>
        <${SendingPolicy} path=${(isOwn ? "/me" : "/admin") + api.at`/api-keys/${key.id}/sending-policy`} />`;
    }}<//>`;
}
