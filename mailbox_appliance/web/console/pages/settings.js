// @ts-check
/** Settings in four parts (`?part=`): settings that can change while running, HTTPS, the license, the store. */
import * as api from "../api.js";
import { html, useState } from "../html.js";
import { to } from "../router.js";
import { sure } from "../ui/dialog.js";
import { Check, Field, Form, useForm } from "../ui/form.js";
import { Loaded, useLoad } from "../ui/load.js";
import { done, failed } from "../ui/notices.js";
import { Facts, Title, Warnings } from "../ui/values.js";
import * as words from "../words.js";
import { Working } from "./backups/backup.js";
import { Https } from "./settings/https.js";
import { Running } from "./settings/running.js";

/** @type {Record<string, [string, () => any]>} */
const PARTS = {
  general: ["General", Running],
  https: ["HTTPS", Https],
  licence: ["License", Licence],
  store: ["Store", Store],
};

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  const chosen = query.part && query.part in PARTS ? query.part : "general";
  const [name, Part] = PARTS[chosen];
  return html`<${Title}>Settings<//>
    <nav class="views" aria-label="Sections of the settings"><ul>
      ${Object.entries(PARTS).map(
        ([part, [label]]) =>
          html`<li key=${part}><a href=${to("/settings", { part })} aria-current=${part === chosen ? "page" : undefined}>${label}</a></li>`,
      )}
    </ul></nav>
    <section aria-label=${name}><${Part} key=${chosen} /></section>`;
}

// --- The store: its size, its key, and the integrity check ---

/** @typedef {{ok: boolean, checked: string[], problems: {message: string}[]}} Checked */
/** @type {Record<string, string>} */
const SLOTS = { file: "the key file (unencrypted)", keyring: "this computer’s keychain", passphrase: "a passphrase" };

function Store() {
  const loading = useLoad((signal) => api.ask("GET", "/admin/store", { signal }), []);
  return html`<${Loaded} of=${loading} what="the store">${(
    /** @type {import("../api.js").Answer} */ { data, warnings },
  ) => html`
      <${Warnings} of=${[...warnings, data.key.problem].filter(Boolean)} />
      <article>
        <h2>Encrypted database</h2>
        <${Facts} of=${[
          ["Folder", data.path],
          ["Size", `${words.size(data.sizeBytes)}, format ${data.format}; ${words.size(data.freeBytes)} free`],
          ["Unlocked by", words.list(data.key.slots.map((/** @type {string} */ one) => SLOTS[one] ?? one))],
          [
            "Newest backup",
            html`<a href=${to("/backups")}>${data.lastBackup ? words.ago(data.lastBackup.at) : "none yet"}</a>`,
          ],
        ]} />
      </article>`}<//>
    <${Look} />`;
}

function Look() {
  const [found, setFound] = useState(/** @type {Checked | null} */ (null));
  const form = useForm({ full: false }, async ({ full }) => {
    setFound(null);
    setFound(await api.post("/admin/store/check", { full }));
  });
  return html`<article>
    <h2>Integrity check</h2>
    <p>The appliance reads every page of the store. Nothing is changed.</p>
    <${Form} of=${form} action="Check integrity" busy="Checking the store…" label="Integrity check">
      <${Check} of=${form} name="full" label="Full check" hint="Also checks indexes, counts and the audit log. Takes several times as long." />
      ${form.isBusy && html`<${Working} label="Checking the store" />`}
      <div role="status">${found && html`<${Verdict} found=${found} />`}</div>
    <//>
  </article>`;
}

/** @param {{found: Checked}} props */
function Verdict({ found }) {
  if (found.ok)
    return html`<p><strong>The store is intact.</strong> <small class="muted">Checked: ${found.checked.join(", ")}.</small></p>`;
  return html`<div class="problem">
    <p><strong>The store is damaged.</strong> Do not change its files, and <a href=${to("/backups")}>restore a backup</a>.</p>
    <ul>${found.problems.map((one) => html`<li key=${one.message}>${one.message}</li>`)}</ul>
  </div>`;
}

// --- The license. None is required; resellers and hosts can set limits with one ---

/** @typedef {{plan: string, status: "none" | "valid" | "expired" | "unverified", issuedTo: string | null, expiresAt: string | null, maxMembers: number | null, maxAccounts: number | null}} License */
const STATES = {
  none: "No license. None is required.",
  valid: "Valid",
  expired: "Expired: no members or mailboxes can be added",
  unverified: "Not confirmed by its issuer",
};

function Licence() {
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
