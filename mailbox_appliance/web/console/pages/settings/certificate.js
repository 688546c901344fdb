// @ts-check
/** The dialog for a CA-issued certificate and its key, from files or as text. */
import { html } from "../../html.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";

/** @param {{onClose: () => void, take: (body: object) => Promise<void>}} props */
export function ImportCertificate({ onClose, take }) {
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
