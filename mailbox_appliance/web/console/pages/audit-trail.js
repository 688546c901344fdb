// @ts-check
/** The member's own events in the audit log. */
import { get } from "../api.js";
import { html } from "../html.js";
import { Loaded, Pager, usePages } from "../ui/load.js";
import { Row } from "./audit/wording.js";

/** @typedef {import("./audit/wording.js").Event} Event */

/** @param {{me: string}} props `me`: the member's id */
export function AuditTrail({ me }) {
  const pages = usePages((query, signal) => get("/me/audit-events", { ...query, limit: 20 }, signal), [me]);
  const nameOf = (/** @type {string} */ id) => (id === me ? "You" : "An administrator");
  return html`<section class="topic"><h2>Recent activity</h2>
    <${Loaded} of=${pages} what="the audit log">${(/** @type {{items: Event[]}} */ { items }) =>
      html`<ul class="deliveries">${items.map((one) => html`<${Row} key=${one.id} event=${one} nameOf=${nameOf} />`)}</ul>`}<//>
    <${Pager} of=${pages} label="Pages of the audit log" />
  </section>`;
}
