// @ts-check
/** The dialog that creates a backup, with or without a passphrase. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { Dialog } from "../../ui/dialog.js";
import { Check, Field, Form, useForm } from "../../ui/form.js";
import { done } from "../../ui/notices.js";
import { Working } from "./work.js";

/**
 * @param {{onClose: () => void, onMade: (warnings: string[]) => void, isSealed?: boolean}} props
 *   `onMade` gets the warnings; `isSealed`: with a passphrase
 */
export function CreateBackup({ onClose, onMade, isSealed = false }) {
  const form = useForm({ isSealed, passphrase: "", again: "" }, async ({ isSealed, passphrase, again }) => {
    if (isSealed && passphrase !== again) throw different();
    const { data, warnings } = await api.ask("POST", "/admin/backups", { body: isSealed ? { passphrase } : {} });
    done("Backup complete. The backup was verified.");
    onMade(warnings.map((one) => `${data.fileName}: ${one}`));
  });
  const field = { of: form, type: "password", autocomplete: "new-password" };
  return html`<${Dialog} title="Create a backup?" onClose=${onClose}>
    <p>The appliance saves everything in one file and keeps running.</p>
    <${Form} of=${form} action="Create backup" busy="Creating the backup…" label="Create a backup">
      <${Check} of=${form} name="isSealed" isSwitch label="Protect with a passphrase"
        hint="Without a passphrase, anyone with the file can open it, and you cannot download it here." />
      ${
        form.values.isSealed &&
        html`<${Field} ...${field} name="passphrase" label="Passphrase"
            hint="At least 12 characters. Keep it separate from the backup. Without it, the backup cannot be opened." />
          <${Field} ...${field} name="again" label="Repeat the passphrase" />`
      }
      ${form.isBusy && html`<${Working} label="Creating the backup" /><p><small>The backup continues if you close this window.</small></p>`}
    <//>
  <//>`;
}

/** The error for different passphrases, in the form of an API error. */
function different() {
  const details = [{ path: "/again", message: "The passphrases do not match." }];
  return new api.ApiError(400, { code: "invalid_request", message: "No backup was created.", details });
}
