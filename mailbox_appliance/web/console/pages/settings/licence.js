// @ts-check
/** The licence. None is needed; who sells or hosts the appliance may set limits by one. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { sure } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { done, failed } from "../../ui/notices.js";
import { Facts } from "../../ui/values.js";
import * as words from "../../words.js";

/** @typedef {{plan: string, status: "none" | "valid" | "expired" | "unverified", issuedTo: string | null, expiresAt: string | null, maxMembers: number | null, maxAccounts: number | null}} License */
const STATES = {
  none: "No licence, and none needed",
  valid: "Valid",
  expired: "Expired: nothing can be added",
  unverified: "Could not be confirmed by its issuer",
};

export function Licence() {
  const loading = useLoad((signal) => api.get("/admin/license", {}, signal), []);
  const form = useForm({ token: "" }, async ({ token }) => {
    const { data, warnings } = await api.ask("PUT", "/admin/license", { body: { token } });
    loading.set(data);
    form.reset();
    done(warnings[0] ?? "The licence is installed.");
  });
  return html`<${Loaded} of=${loading} what="the licence">${(/** @type {License} */ license) => html`<article>
      <h2>In force</h2>
      <${Facts} of=${termsOf(license)} />
      ${license.status !== "none" && html`<div class="actions"><button type="button" class="secondary" onClick=${() => remove(loading.reload)}>Remove the licence</button></div>`}
    </article>`}<//>
    <article>
      <h2>Install a licence</h2>
      <${Form} of=${form} action="Install licence" label="Install a licence">
        <${Field} of=${form} name="token" label="Licence token" rows=${4} hint="The text that its issuer gave you." />
      <//>
    </article>`;
}

/** @param {License} license @returns {[string, string][]} */
function termsOf({ status, plan, issuedTo, expiresAt, maxMembers, maxAccounts }) {
  const most = (/** @type {number | null} */ limit) => (limit === null ? "no limit" : words.number(limit));
  return [
    ["State", STATES[status]],
    ["Plan", plan],
    ["Issued to", issuedTo ?? "nobody"],
    ["Good until", expiresAt ? words.longTime(expiresAt) : "for good"],
    ["Members", most(maxMembers)],
    ["Mailboxes", most(maxAccounts)],
  ];
}

/** @param {() => unknown} reload */
async function remove(reload) {
  const text = "The plan is “community” again. Keep the token if you may want it back.";
  if (!(await sure({ title: "Remove the licence?", text, action: "Remove licence", danger: true }))) return;
  await api.remove("/admin/license").catch(failed);
  await reload();
}
