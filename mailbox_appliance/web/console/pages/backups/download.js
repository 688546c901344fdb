// @ts-check
/** The dialog that downloads a backup of any size: see `saving.js`. */
import { html, useEffect, useRef, useState } from "../../html.js";
import { Dialog } from "../../ui/dialog.js";
import { Form, useForm } from "../../ui/form.js";
import { Progress } from "../../ui/values.js";
import * as words from "../../words.js";
import { moment } from "./backup.js";
import { save } from "./saving.js";

/** @param {{backup: import("./backup.js").Backup, onClose: () => void, onSeal: () => void}} props `onSeal`: opens the dialog for a new backup */
export function DownloadBackup({ backup, onClose, onSeal }) {
  return html`<${Dialog} title=${`Download the backup of ${moment(backup)}?`} onClose=${onClose}>
    ${
      backup.passphraseProtected
        ? html`<${Saving} backup=${backup} />`
        : html`<p>This backup has no passphrase, so anyone with the file could read everything in it. You can download only backups with a passphrase.</p>
          <footer><button type="button" onClick=${onSeal}>Create a backup with a passphrase</button></footer>`
    }
  <//>`;
}

/** The download, which ends when the dialog closes. @param {{backup: import("./backup.js").Backup}} props */
function Saving({ backup }) {
  const [got, setGot] = useState(0);
  const [isSaved, setSaved] = useState(false);
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const form = useForm({}, async () => setSaved(await save(backup, setGot, stop.current.signal)));
  return html`<p><code>${backup.fileName}</code>, ${words.size(backup.sizeBytes)}. You need its passphrase to open it.</p>
    <${Form} of=${form} action="Download" busy="Downloading…">
      ${form.isBusy && html`<${Progress} label="Downloading" done=${got} total=${backup.sizeBytes} />`}
      <p role="status">${isSaved && "Backup saved. Keep it and its passphrase in two different places."}</p>
    <//>`;
}
