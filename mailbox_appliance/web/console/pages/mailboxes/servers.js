// @ts-check
/** The form fields for the two servers of a mailbox, and the results of their check. */
import { ApiError } from "../../api.js";
import { html, useEffect, useState } from "../../html.js";
import { Check, Field } from "../../ui/form.js";
import { Badge } from "../../ui/values.js";

/** @typedef {import("../../ui/form.js").FormState} FormState */
/** @typedef {import("../../ui/form.js").Values} Values */
/** @typedef {"imap" | "smtp"} Kind */
/** @typedef {{host: string, port: number, security: "tls" | "starttls" | "none", username: string}} Server */
/** @typedef {{source: string, imap: Server, smtp: Server, provider: "google" | "outlook" | null, name: string | null, note: string | null}} Candidate */

/** @type {[Kind, string][]} */
const KINDS = [
  ["imap", "Incoming mail (IMAP)"],
  ["smtp", "Outgoing mail (SMTP)"],
];
/** RFC 8314 3.2 and 3.3, RFC 3501, RFC 6409. @type {Record<Kind, Record<string, string>>} */
const PORTS = {
  imap: { tls: "993", starttls: "143", none: "143" },
  smtp: { tls: "465", starttls: "587", none: "587" },
};
/** @type {[string, string][]} */
const SECURITY = [
  ["tls", "TLS"],
  ["starttls", "STARTTLS"],
  ["none", "None (private networks only)"],
];

/** Return the initial values of a form; `found`: the servers that were found. @param {Candidate} [found] @returns {Values} */
export function valuesOf(found) {
  const start = KINDS.flatMap(([kind]) => [
    [`${kind}Host`, found?.[kind].host ?? ""],
    [`${kind}Port`, String(found?.[kind].port ?? PORTS[kind].tls)],
    [`${kind}Security`, found?.[kind].security ?? "tls"],
  ]);
  return Object.fromEntries(start);
}

/** The address and security of both servers; `isChange`: empty fields stay unchanged. @param {{of: FormState, isChange: boolean}} props */
function ServerFields({ of: form, isChange }) {
  const securities = isChange ? [/** @type {[string, string]} */ (["", "Unchanged"]), ...SECURITY] : SECURITY;
  return html`<div class="pair">${KINDS.map(
    ([kind, label]) => html`<fieldset key=${kind}>
      <legend><strong>${label}</strong></legend>
      <${Field} of=${form} name=${`${kind}Host`} path=${`/${kind}/host`} label="Server" placeholder=${isChange ? "Unchanged" : `${kind}.example.org`} autocomplete="off" required=${!isChange} />
      <${Field} of=${withPorts(form, kind)} name=${`${kind}Security`} path=${`/${kind}/security`} label="Security" options=${securities} />
      <${Field} of=${form} name=${`${kind}Port`} path=${`/${kind}/port`} label="Port" inputmode="numeric" placeholder=${isChange ? "Unchanged" : ""} required=${!isChange} />
      ${isChange && html`<${Field} of=${form} name=${`${kind}Username`} path=${`/${kind}/username`} label="User name" placeholder="Unchanged" autocomplete="off" />`}
    </fieldset>`,
  )}</div>`;
}

/** The form in which a standard port follows the security setting; another port is kept. @param {FormState} form @param {Kind} kind @returns {FormState} */
function withPorts(form, kind) {
  const usual = Object.values(PORTS[kind]);
  return {
    ...form,
    set: (changed) => {
      const port = PORTS[kind][changed[`${kind}Security`]];
      const follows = port && usual.includes(form.values[`${kind}Port`]);
      form.set(follows ? { ...changed, [`${kind}Port`]: port } : changed);
    },
  };
}

/** One sign-in for both servers, or one for each. If there is no field for the user name, its errors appear at the password. @param {{of: FormState, hint?: any, isChange?: boolean}} props */
export function LoginFields({ of: form, hint, isChange = false }) {
  const { isApart } = form.values;
  const told = isChange ? "username" : "password";
  return html`
    ${!isChange && html`<${Field} of=${form} name="username" path="/imap/username" label="User name" hint="Usually the complete email address." autocomplete="off" required />`}
    <${Field} of=${form} name="password" path=${`/imap/${told}`} label=${isChange ? "New password" : "Password"} type="password" hint=${hint} autocomplete="off" required=${!isChange} />
    <${Check} of=${form} name="isApart" label=${`Use a different ${isChange ? "password" : "sign-in"} for sending`} />
    ${isApart && !isChange && html`<${Field} of=${form} name="smtpUsername" path="/smtp/username" label="User name for sending" autocomplete="off" required />`}
    ${isApart && html`<${Field} of=${form} name="smtpPassword" path=${`/smtp/${told}`} label="Password for sending" type="password" autocomplete="off" required=${!isChange} />`}`;
}

/** Return the servers in the form of the API, without empty values. @param {Values} values @returns {Record<Kind, object>} */
export function serversOf(values) {
  const servers = KINDS.map(([kind]) => {
    const isApart = kind === "smtp" && values.isApart;
    const own = values[`${kind}Username`]; // the form of a new mailbox has `username` and `smtpUsername`
    const given = {
      host: values[`${kind}Host`],
      port: values[`${kind}Port`] && portOf(values[`${kind}Port`]),
      security: values[`${kind}Security`],
      username: isApart || !values.username ? own : values.username,
      password: isApart ? values.smtpPassword : values.password,
    };
    return [kind, Object.fromEntries(Object.entries(given).filter(([, value]) => value))];
  });
  return Object.fromEntries(servers);
}

/** Return the port as a number; other text is passed on, and the API explains what is wrong. @param {string} text */
function portOf(text) {
  return /^\d+$/.test(text.trim()) ? Number(text) : text;
}

/** The server fields, hidden until the person opens them or they have an error. @param {{of: FormState, isChange?: boolean, isOpen?: boolean, children: any}} props */
export function Servers({ of: form, isChange = false, isOpen: start = false, children }) {
  const [isOpen, setOpen] = useState(start);
  const isWrong = Object.keys(form.errors).some((path) => /^\/(imap|smtp)\/(host|port|security)$/.test(path));
  useEffect(() => void (isWrong && setOpen(true)), [isWrong]);
  return html`<details open=${isOpen || isWrong} onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}>
    <summary>${children}</summary>
    <${ServerFields} of=${form} isChange=${isChange} />
  </details>`;
}

/** The result for each server. The error messages are beside the fields and below. @param {{of: FormState}} props */
export function Checks({ of: form }) {
  if (form.isBusy) return html`<p role="status">Signing in to both servers. This can take half a minute…</p>`;
  const error = form.error;
  if (!(error instanceof ApiError) || !isOfServers(error)) return null;
  return html`<ul class="checks" aria-label="Server check results">${KINDS.map(([kind, label]) => {
    const isBad = error.details.some((one) => one.path === kind || one.path.startsWith(`/${kind}/`));
    // The API reports an unavailable server only if nothing else is wrong, so after a 400 the other server may not work.
    const [look, result] = isBad
      ? ["bad", "failed"]
      : error.status === 400
        ? ["plain", "no error found"]
        : ["good", "works"];
    return html`<li key=${kind}>${label}: <${Badge} kind=${look}>${result}<//></li>`;
  })}</ul>`;
}

/** @param {ApiError} error */
function isOfServers(error) {
  return error.details.length > 0 && error.details.every((one) => /^(imap|smtp)$|^\/(imap|smtp)\//.test(one.path));
}
