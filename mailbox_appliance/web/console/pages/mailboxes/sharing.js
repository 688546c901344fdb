// @ts-check
/** Access of other members to a mailbox. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import * as session from "../../session.js";
import { Check, Field, Form, useForm } from "../../ui/form.js";
import { Problem, useLoad } from "../../ui/load.js";
import { done } from "../../ui/notices.js";

/** @typedef {import("../../accounts.js").Account} Account */
/** @typedef {import("../../ui/form.js").FormState} FormState */

/** @param {{account: Account, isOwner: boolean, reload: () => Promise<unknown>}} props an administrator who is not the owner can only remove access */
export function Sharing({ account, isOwner, reload }) {
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
