// @ts-check
/** The attachments of a message. The browser downloads them with a link that expires after five minutes. */
import { at, post } from "../../api.js";
import { html } from "../../html.js";
import { useForm } from "../../ui/form.js";
import { Problem } from "../../ui/load.js";
import { count, size } from "../../words.js";

/** @typedef {{id: string, filename: string, mimeType: string, sizeBytes: number, contentId?: string, disposition?: string}} Attachment */

// File types that are programs or contain them. The page warns about them, but does not block them.
const RUNS =
  /\.(?:exe|com|scr|bat|cmd|ps1|vbs?|vbe|jse?|wsf|wsh|hta|msi|msix|lnk|url|jar|app|dmg|pkg|iso|img|vhdx?|reg|cpl|dll|sh|docm|xlsm|pptm|xll|one|html?|svg|chm)$/i;

/** @param {{accountId: string, messageId: string, of: Attachment[]}} props */
export function Attachments({ accountId, messageId, of: files }) {
  if (files.length === 0) return null;
  return html`<section class="mail-files" aria-label="Attachments">
    <h2>${count(files.length, "attachment")}</h2>
    <ul class="deliveries">${files.map((file) => html`<${File} key=${file.id} accountId=${accountId} messageId=${messageId} file=${file} />`)}</ul>
  </section>`;
}

/** @param {{accountId: string, messageId: string, file: Attachment}} props */
function File({ accountId, messageId, file }) {
  const name = file.filename || "Unnamed file";
  const { submit, isBusy, error } = useForm({}, async () => {
    const { url } = await post(at`/accounts/${accountId}/messages/${messageId}/attachments/${file.id}/download-link`);
    saved(new URL(url).pathname, name);
  });
  return html`<li>
    <span class="what"><bdi>${name}</bdi> <small class="muted">${file.mimeType}, ${size(file.sizeBytes)}</small>
      ${RUNS.test(name) && html`<small class="wrong">Files of this type can run programs. Open only files that you expect.</small>`}</span>
    <button type="button" class="secondary outline small" aria-label=${`Download ${name}`} aria-busy=${isBusy} disabled=${isBusy} onClick=${() => submit()}>Download</button>
    <${Problem} error=${error} />
  </li>`;
}

/** Save the file at an address of the console. @param {string} address @param {string} name */
export function saved(address, name) {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}
