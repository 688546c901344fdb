// @ts-check
/** The store: its size, its key, and the integrity check. */
import * as api from "../../api.js";
import { html, useState } from "../../html.js";
import { to } from "../../router.js";
import { Check, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { Facts, Warnings } from "../../ui/values.js";
import * as words from "../../words.js";
import { Working } from "../backups/work.js";

/** @typedef {{ok: boolean, checked: string[], problems: {message: string}[]}} Checked */
/** @type {Record<string, string>} */
const SLOTS = { file: "the key file (unencrypted)", keyring: "this computer’s keychain", passphrase: "a passphrase" };

export function Store() {
  const loading = useLoad((signal) => api.ask("GET", "/admin/store", { signal }), []);
  return html`<${Loaded} of=${loading} what="the store">${(
    /** @type {import("../../api.js").Answer} */ { data, warnings },
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
