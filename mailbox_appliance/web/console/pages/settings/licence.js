// @ts-check
/** The license. None is required; resellers and hosts can set limits with one. */
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
  none: "No license. None is required.",
  valid: "Valid",
  expired: "Expired: no members or mailboxes can be added",
  unverified: "Not confirmed by its issuer",
};

export function Licence() {
  const loading = useLoad((signal) => api.get("/admin/license", {}, signal), []);
  const form = useForm({ token: "" }, async ({ token }) => {
    const { data, warnings } = await api.ask("PUT", "/admin/license", { body: { token } });
    loading.set(data);
    form.reset();
    done(warnings[0] ?? "License installed.");
  });
  return html`<${Loaded} of=${loading} what="the license">${(/** @type {License} */ license) => html`<article>
      <h2>Current license</h2>
      <${Facts} of=${termsOf(license)} />
      ${license.status !== "none" && html`<div class="actions"><button type="button" class="secondary" onClick=${() => remove(loading.reload)}>Remove license</button></div>`}
    </article>`}<//>
    <article>
      <h2>Install a license</h2>
      <${Form} of=${form} action="Install license" label="Install a license">
        <${Field} of=${form} name="token" label="License token" rows=${4} hint="The text you received from the issuer." />
      <//>
    </article>`;
}

/** @param {License} license @returns {[string, string][]} */
function termsOf({ status, plan, issuedTo, expiresAt, maxMembers, maxAccounts }) {
  const most = (/** @type {number | null} */ limit) => (limit === null ? "no limit" : words.number(limit));
  return [
    ["Status", STATES[status]],
    ["Plan", plan],
    ["Issued to", issuedTo ?? "nobody"],
    ["Expires", expiresAt ? words.longTime(expiresAt) : "never"],
    ["Members", most(maxMembers)],
    ["Mailboxes", most(maxAccounts)],
  ];
}

/** @param {() => unknown} reload */
async function remove(reload) {
  const text = "The plan returns to “community”. Keep the token if you want to install it again.";
  if (!(await sure({ title: "Remove the license?", text, action: "Remove license", danger: true }))) return;
  await api.remove("/admin/license").catch(failed);
  await reload();
}
