// @ts-check
/** The dialog for a new key: its token, shown only once, and how to use it. */
import { html } from "../../html.js";
import { Snippet } from "../../ui/values.js";
import { ShownOnce } from "../shown-once.js";
import { usesOf } from "./snippets.js";

/** @typedef {{apiKey: import("./rights.js").ApiKey, token: string}} Issued */

/** @param {{issued: Issued, onClose: () => void}} props */
export function NewToken({ issued, onClose }) {
  const uses = usesOf(location.origin, issued.token, issued.apiKey.capabilities);
  const isOwnCertificate = location.protocol === "https:";
  return html`<${ShownOnce} title=${`Key “${issued.apiKey.name}”`} what="token" wide onClose=${onClose}>
    <p>Copy the token now: <strong>it is shown only once</strong>. Anyone who has it can do what the key allows.</p>
    <${Snippet} label="Token" copy="Copy token" text=${issued.token} />
    <h3>Use the key</h3>
    ${uses.map(
      (
        [title, hint, label, text],
        index,
      ) => html`<details key=${label} name="uses" open=${index === 0}><summary>${title}</summary>
        <p><small>${hint}</small></p><${Snippet} label=${label} text=${text} /></details>`,
    )}
    ${
      isOwnCertificate &&
      html`<p><small>If the appliance uses a self-signed certificate, run <code>mailbox-appliance login ${location.origin}</code> once and compare
      the fingerprint it shows. For curl, pass the certificate with <code>--cacert</code>.</small></p>`
    }
  <//>`;
}
