// @ts-check
/** The dialog that verifies a backup and shows its contents. */
import { at } from "../../api.js";
import { html, useState } from "../../html.js";
import { Dialog } from "../../ui/dialog.js";
import { Contents, Look, moment } from "./backup.js";

/** @param {{backup: import("./backup.js").Backup, onClose: () => void}} props */
export function CheckBackup({ backup, onClose }) {
  const [summary, setSummary] = useState(/** @type {import("./backup.js").Summary | null} */ (null));
  return html`<${Dialog} title=${`Verify the backup of ${moment(backup)}?`} onClose=${onClose}>
    ${
      summary === null
        ? html`<${Look} backup=${backup} action="Verify backup" path=${at`/admin/backups/${backup.id}/verify`} found=${setSummary} />`
        : html`<p role="status"><strong>The backup is ${summary.ok ? "intact" : "damaged"}.</strong></p><${Contents} summary=${summary} />
          <footer><button type="button" onClick=${onClose}>Close</button></footer>`
    }
  <//>`;
}
