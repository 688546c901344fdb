// @ts-check
/** Who besides its owner reaches a mailbox. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import * as session from "../../session.js";
import { Check, Field, Form, useForm } from "../../ui/form.js";
import { Problem, useLoad } from "../../ui/load.js";
import { done } from "../../ui/notices.js";

/** @typedef {import("../../accounts.js").Account} Account */
/** @typedef {import("../../ui/form.js").FormState} FormState */

/** @param {{account: Account, isOwner: boolean, reload: () => Promise<unknown>}} props an administrator who is not the owner only takes away */
export function Sharing({ account, isOwner, reload }) {
  const isAdmin = session.member.value?.role === "admin";
  const members = useLoad(async (signal) => (isAdmin ? api.get("/admin/members", {}, signal) : []), [isAdmin]);
  const start = { sharedWithAll: account.sharedWithAll, memberIds: account.grantedMemberIds, added: "" };
  const form = useForm(start, async ({ sharedWithAll, memberIds, added }) => {
    const ids = added.trim() ? [...memberIds, added.trim()] : memberIds;
    const after = await api.put(api.at`/accounts/${account.id}/access`, { sharedWithAll, memberIds: ids });
    form.set({ sharedWithAll: after.sharedWithAll, memberIds: after.grantedMemberIds, added: "" });
    await reload();
    done("The sharing is saved.");
  });
  const known = /** @type {session.Member[]} */ (members.data ?? []);
  const isShared = account.sharedWithAll || account.grantedMemberIds.length > 0;
  if (!isOwner && !isShared)
    return html`<article><h2>Sharing</h2><p>Only its owner reaches this mailbox.</p></article>`;
  return html`<article><h2>Sharing</h2>
    <p>${isOwner ? "Whom you share it with reads, sorts and sends mail from it as you do. Only you change the mailbox itself." : "You can take access away. Only the owner gives it."}</p>
    ${members.error !== undefined && html`<${Problem} error=${members.error} again=${members.reload} />`}
    <${Form} of=${form} action="Save sharing" label="Sharing">
      ${(isOwner || account.sharedWithAll) && html`<${Check} of=${form} name="sharedWithAll" isSwitch label="Share with every member" hint="Also with everybody who joins later." />`}
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
    <legend>Members who reach it</legend>
    ${shown.length === 0 && html`<p class="muted">Nobody but the owner.</p>`}
    ${shown.map(
      (id) => html`<label key=${id}><input type="checkbox" checked=${chosen.includes(id)}
        onChange=${(/** @type {any} */ event) => take(id, event.currentTarget.checked)} /> ${named.get(id) ?? `Member ${id}`}</label>`,
    )}
    ${
      mayGive &&
      known.length === 0 &&
      html`<${Field} of=${form} name="added" path="/memberIds" label="Add a member by id" autocomplete="off"
      hint="It begins with mem_. Everybody finds their own under Profile; administrators see all." />`
    }
  </fieldset>`;
}
