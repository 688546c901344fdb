// @ts-check
/** The HTTPS settings: on or off, port, address and certificate. */
import * as api from "../../api.js";
import { html, useState } from "../../html.js";
import { refresh } from "../../status.js";
import { Dialog, sure } from "../../ui/dialog.js";
import { Check, Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { done, failed } from "../../ui/notices.js";
import { Badge, Facts, Snippet, Warnings } from "../../ui/values.js";
import * as words from "../../words.js";

/** @typedef {{fingerprint: string, notAfter: string, names: string[], selfSigned: boolean, trusted: boolean}} Certificate */
/** @typedef {{enabled: boolean, host: string, port: number, url: string | null, certificate: Certificate | null, warnings: string[]}} Offered */

export function Https() {
  const loading = useLoad((signal) => ask("GET", "", undefined, signal), []);
  return html`<${Loaded} of=${loading} what="the HTTPS settings">${(/** @type {Offered} */ offered) => html`
    <${Warnings} of=${offered.warnings} />
    <${Offer} offered=${offered} set=${loading.set} />
    <${Served} certificate=${offered.certificate} set=${loading.set} />`}<//>`;
}

/** @param {string} method @param {string} path @param {unknown} [body] @param {AbortSignal} [signal] @returns {Promise<Offered>} */
async function ask(method, path, body, signal) {
  const { data, warnings } = await api.ask(method, `/admin/https${path}`, { body, signal });
  if (method !== "GET") void refresh();
  return { ...data, warnings };
}

/** @param {{offered: Offered, set: (offered: Offered) => void}} props */
function Offer({ offered, set }) {
  const { url } = offered;
  const start = { enabled: offered.enabled, port: String(offered.port), host: offered.host };
  const form = useForm(start, async ({ enabled, port, host }) => {
    if (!enabled && offered.enabled && !(await mayTurnOff())) return;
    const number = /^\d+$/.test(port.trim()) ? Number(port) : port.trim() || null;
    const now = await ask("PATCH", "", { enabled, port: number, host: host.trim() });
    set(now);
    form.set({ port: String(now.port), host: now.host });
    done(now.enabled ? "HTTPS is on." : "HTTPS is off.");
  });
  return html`<article>
    <h2>Remote access</h2>
    <p>Other computers need HTTPS to sign in and to manage the appliance. <${Badge} kind=${url ? "good" : "plain"}>${url ? "On" : "Off"}<//>
      ${url && html` at <a href=${url} rel="noopener" target="_blank">${url}</a>`}</p>
    <${Form} of=${form} action="Save" label="HTTPS">
      <${Check} of=${form} name="enabled" label="Enable HTTPS" isSwitch />
      <div class="columns">
        <${Field} of=${form} name="port" label="Port" inputmode="numeric" hint="From 1 to 65535; 0 selects a free port." />
        <${Field} of=${form} name="host" label="Listen address" hint="An IP address or localhost. Leave empty for all addresses." />
      </div>
    <//>
  </article>`;
}

/** Ask first if the person is connected over HTTPS, since turning it off disconnects them. */
async function mayTurnOff() {
  if (location.protocol !== "https:") return true;
  const text =
    "You are connected over HTTPS. Turning it off disconnects you; you can turn it on again only on the appliance’s own machine.";
  return sure({ title: "Turn off HTTPS?", text, action: "Turn off", danger: true });
}

/** @param {{certificate: Certificate | null, set: (offered: Offered) => void}} props */
function Served({ certificate, set }) {
  const [isImporting, setImporting] = useState(false);
  const replace = async (/** @type {string} */ method, /** @type {string} */ path, /** @type {object} */ body) => {
    set(await ask(method, path, body));
    setImporting(false);
    done("Certificate replaced.");
  };
  const rotate = async () => {
    const text =
      "The appliance creates a new self-signed certificate. Clients that pinned the current one must sign in again with the new fingerprint.";
    if (await sure({ title: "Replace the certificate?", text, action: "Replace certificate", danger: true }))
      await replace("POST", "/rotate", {}).catch(failed);
  };
  return html`<article>
    <h2>Certificate</h2>
    ${certificate ? html`<${Shown} certificate=${certificate} />` : html`<p>The appliance creates a certificate when you first enable HTTPS.</p>`}
    <div class="actions">
      <button type="button" class="secondary" onClick=${() => setImporting(true)}>Use a CA-issued certificate</button>
      <button type="button" class="secondary outline" onClick=${rotate}>Create a new self-signed certificate</button>
    </div>
    ${
      isImporting &&
      html`<${ImportCertificate} onClose=${() => setImporting(false)} take=${(/** @type {object} */ body) => replace("PUT", "/certificate", body)} />`
    }
  </article>`;
}

/** @param {{certificate: Certificate}} props */
function Shown({ certificate }) {
  const { selfSigned, trusted, names, notAfter, fingerprint } = certificate;
  const issuer = `A CA that this computer ${trusted ? "trusts" : "does not trust"}`;
  return html`<${Facts} of=${[
    ["Issued by", selfSigned ? "The appliance (self-signed): clients compare its fingerprint" : issuer],
    ["Names", names.join(", ") || "none"],
    ["Expires", `${words.longTime(notAfter)} (${words.ago(notAfter)})`],
  ]} />
    <${Snippet} label="Fingerprint" text=${fingerprint} />`;
}

// --- The dialog for a CA-issued certificate and its key, from files or as text ---

/** @param {{onClose: () => void, take: (body: object) => Promise<void>}} props */
function ImportCertificate({ onClose, take }) {
  const form = useForm({ certificate: "", privateKey: "" }, take);
  return html`<${Dialog} title="Use a CA-issued certificate?" onClose=${onClose} wide>
    <${Form} of=${form} action="Use certificate" busy="Checking…" label="CA-issued certificate">
      <${Pem} form=${form} name="certificate" label="Certificate with its chain" hint="PEM with the server certificate first, often named fullchain.pem." />
      <${Pem} form=${form} name="privateKey" label="Private key" hint="PEM without a passphrase, often named privkey.pem." />
    <//>
  <//>`;
}

/** @param {{form: import("../../ui/form.js").FormState, name: string, label: string, hint: string}} props */
function Pem({ form, name, label, hint }) {
  const read = async (/** @type {any} */ event) => {
    const file = event.currentTarget.files[0];
    if (file) form.set({ [name]: await file.text() });
  };
  return html`<${Field} of=${form} name=${name} label=${label} hint=${hint} rows=${4} />
    <label>${label} from a file<input type="file" onChange=${read} /></label>`;
}
