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
            accounts=${accounts} onRevoke=${() => revoke(key)} />`,
        )}</ul>`}<//></div>`;
}

/** @param {{apiKey: ApiKey, me: session.Member, owner?: string, accounts: any[], onRevoke: () => void}} props */
function Row({ apiKey, me, owner, accounts, onRevoke }) {
  const whose = apiKey.memberId === me.id ? undefined : (owner ?? "its owner");
  return html`<li>
    <div><h2>${apiKey.name}</h2><p>${whose && `Owner: ${whose}. `}${sentence(rightsOf(apiKey), accounts, whose)}</p></div>
    <p class="muted">${apiKey.lastUsedAt ? html`Last used <${Time} at=${apiKey.lastUsedAt} ago />` : "Never used"}<br />
      Created <${Time} at=${apiKey.createdAt} exact /></p>
    <div class="actions">
      ${me.role === "admin" && html`<a role="button" class="secondary outline small" href=${to("/keys", { change: apiKey.id })}>Edit<span class="said"> ${apiKey.name}</span></a>`}
      <button type="button" class="secondary outline small" onClick=${onRevoke}>Revoke<span class="said"> ${apiKey.name}</span></button>
    </div>
  </li>`;
}
