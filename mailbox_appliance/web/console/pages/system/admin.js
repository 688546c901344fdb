// @ts-check
/** The cards of the system page, including the two for administrators: newest backup and HTTPS. */
import { get } from "../../api.js";
import { html, useEffect } from "../../html.js";
import { to } from "../../router.js";
import { useShared } from "../../shared.js";
import { failure } from "../../status.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { Time } from "../../ui/values.js";
import * as words from "../../words.js";

const SOON = 14 * 86_400_000; // milliseconds: a certificate that expires within this time is marked

/** Like `useLoad`, but the page shows once that the appliance does not respond. When it responds again, this loads again. @type {typeof useLoad} */
export function useCard(load, of, how) {
  const loading = useLoad(load, of, how);
  const lost = useShared(failure);
  useEffect(() => void (lost === undefined && loading.error !== undefined && loading.reload()), [lost]);
  return lost === undefined ? loading : { ...loading, error: undefined };
}

/** @param {{title: string, children: any}} props */
export function Card({ title, children }) {
  return html`<section class="card" aria-label=${title}><h2>${title}</h2>${children}</section>`;
}

export function BackupAge() {
  const loading = useCard((signal) => get("/admin/backups", { limit: 1 }, signal), [], { every: 60_000 });
  return html`<${Card} title="Newest backup">
    <${Loaded} of=${loading} what="backups">${(/** @type {{items: any[]}} */ { items: [newest] }) =>
      newest
        ? html`<p><${Time} at=${newest.createdAt} ago />, ${words.size(newest.sizeBytes)}${newest.verified && ", verified"}</p>`
        : html`<p>No backups yet.</p>`}<//>
    <p><a href=${to("/backups")}>Backups</a></p><//>`;
}

export function Https() {
  const loading = useCard((signal) => get("/admin/https", undefined, signal), []);
  return html`<${Card} title="HTTPS">
    <${Loaded} of=${loading} what="HTTPS">${certificate}<//>
    <p><a href=${to("/settings", { part: "https" })}>HTTPS settings</a></p><//>`;
}

/** @param {any} https */
function certificate({ enabled, url, certificate }) {
  if (!enabled) return html`<p>Off. You can sign in only on this computer.</p>`;
  const ends = certificate && new Date(certificate.notAfter).getTime() - Date.now();
  return html`<p>${url ? `On at ${url}` : html`<span class="wrong">Enabled, but not responding.</span>`}</p>
    ${certificate && html`<p class=${ends < SOON ? "wrong" : ""}>The certificate ${ends < 0 ? "expired" : "expires"} <${Time} at=${certificate.notAfter} />${certificate.selfSigned && ", self-signed"}</p>`}`;
}
