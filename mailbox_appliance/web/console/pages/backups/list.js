// @ts-check
/** The list of backups, newest first, with the actions for each. */
import * as api from "../../api.js";
import { html, useState } from "../../html.js";
import { to } from "../../router.js";
import { Title } from "../../title.js";
import { Empty, Loaded, Pager, usePages } from "../../ui/load.js";
import { Warnings } from "../../ui/values.js";
import { About, moment } from "./backup.js";
import { CheckBackup } from "./check.js";
import { CreateBackup } from "./create.js";
import { DownloadBackup } from "./download.js";

/** @typedef {import("./backup.js").Backup} Backup */
/** @typedef {{kind: "create", isSealed?: boolean} | {kind: "check" | "download", backup: Backup} | null} Open the open dialog */

export function Backups() {
  const pages = usePages(load, []);
  const [open, setOpen] = useState(/** @type {Open} */ (null));
  const [told, setTold] = useState(/** @type {string[]} */ ([])); // warnings about the newest backup
  const close = () => {
    setOpen(null);
    void pages.reload(); // a backup may have been added or found damaged
  };
  const made = (/** @type {string[]} */ warnings) => {
    setTold(warnings);
    close();
  };
  return html`<${Title} actions=${html`<button type="button" onClick=${() => setOpen({ kind: "create" })}>Create a backup</button>`}>Backups<//>
    <p>The appliance creates a backup every day (<a href=${to("/settings")}>settings</a>). Create one yourself before large changes, and keep copies on
      another computer.</p>
    <${Loaded} of=${pages} what="the backups">${(/** @type {any} */ page) => html`
      <${Warnings} of=${[...told, ...page.warnings]} />
      ${page.items.length === 0 && html`<${Empty} title="No backups yet."><p>Create the first one now.</p><//>`}
      <ul class="entries" aria-label="Backups">${page.items.map((/** @type {Backup} */ one) => html`<${Entry} key=${one.id} backup=${one} open=${setOpen} />`)}</ul>`}<//>
    <${Pager} of=${pages} label="Pages of backups" />
    <details>
      <summary>Adding and deleting backup files</summary>
      <p>Backups are files in the folder <code>backups</code> of the data directory. Files that you copy there are listed here. Only old daily backups are deleted automatically.</p>
    </details>
    ${open?.kind === "create" && html`<${CreateBackup} onClose=${close} onMade=${made} isSealed=${open.isSealed} />`}
    ${open?.kind === "check" && html`<${CheckBackup} backup=${open.backup} onClose=${close} />`}
    ${
      open?.kind === "download" &&
      html`<${DownloadBackup} backup=${open.backup} onClose=${close} onSeal=${() => setOpen({ kind: "create", isSealed: true })} />`
    }`;
}

/** @param {{cursor: string | null}} query @param {AbortSignal} signal */
async function load(query, signal) {
  return api.whole("/admin/backups", { ...query, limit: 20 }, signal);
}

/** @param {{backup: Backup, open: (one: Open) => void}} props */
function Entry({ backup, open }) {
  const act = (/** @type {string} */ verb, /** @type {"check" | "download"} */ kind) =>
    html`<button type="button" class="secondary outline small" aria-label=${`${verb} the backup of ${moment(backup)}`} onClick=${() => open({ kind, backup })}>${verb}</button>`;
  return html`<li>
    <${About} backup=${backup} />
    <div class="actions">
      ${act("Verify", "check")} ${act("Download", "download")}
      <a role="button" class="secondary outline small" aria-label=${`Restore the backup of ${moment(backup)}`} href=${to("/backups", { restore: backup.id })}>Restore…</a>
    </div>
  </li>`;
}
