// @ts-check
/** The summary of a key's permissions during editing. */
import { html } from "../../html.js";
import { cautions, sentence } from "./rights.js";

/** @typedef {import("../../accounts.js").Account} Account */

/** @param {{rights: import("./rights.js").Rights, accounts: Account[], owner?: string}} props
 *   `owner`: the owner's name, if it is another member */
export function Summary({ rights, accounts, owner }) {
  const warned = cautions(rights);
  return html`<aside class="summary" aria-label="Permissions of this key">
    <h2>Summary</h2>
    <p aria-live="polite">${sentence(rights, accounts, owner)}</p>
    ${warned.length > 0 && html`<div class="warning"><ul>${warned.map((text) => html`<li key=${text}>${text}</li>`)}</ul></div>`}
    <p><small>It can never do more than ${owner ?? "you"} can.</small></p>
  </aside>`;
}
