// @ts-check
/** The audit log: events with filters, and its verification. */
import { get } from "../api.js";
import { html, useState } from "../html.js";
import { go, to } from "../router.js";
import { Title } from "../title.js";
import { Choice } from "../ui/choice.js";
import { useForm } from "../ui/form.js";
import { Empty, Loaded, Pager, Problem, useLoad, usePages } from "../ui/load.js";
import * as words from "../words.js";
import { KINDS, OUTCOMES, Row } from "./audit/wording.js";

/** @typedef {{id: string, name: string, email: string}} Member */

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  const { memberId = "", action = "", outcome = "" } = query;
  const asked = useLoad((signal) => get("/admin/members", undefined, signal), []);
  const members = asked.data ?? [];
  const pages = usePages(
    ({ cursor }, signal) => get("/admin/audit-events", { memberId, action, outcome, cursor, limit: 25 }, signal),
    [memberId, action, outcome],
  );
  const names = new Map(members.map((/** @type {Member} */ one) => [one.id, one.name]));
  const nameOf = (/** @type {string} */ id) => names.get(id);
  const filter = (/** @type {string} */ name) => (/** @type {string} */ value) =>
    go("/audit", { memberId, action, outcome, [name]: value });
  return html`
    <${Title}>Audit log<//>
    <${Verify} />
    <div class="delivery-filters">
      <${Choice} label="Member" every="All members" value=${memberId} onChoose=${filter("memberId")}
        options=${members.map((/** @type {Member} */ one) => [one.id, `${one.name} (${one.email})`])} />
      <${Choice} label="Object" every="All objects" value=${action} options=${KINDS} onChoose=${filter("action")} />
      <${Choice} label="Outcome" every="All outcomes" value=${outcome} options=${OUTCOMES} onChoose=${filter("outcome")} />
    </div>
    <${Problem} error=${asked.error} again=${asked.reload} />
    <${Loaded} of=${asked.data || asked.error ? pages : asked} what="the audit log">
      ${(/** @type {{items: import("./audit/wording.js").Event[]}} */ { items }) =>
        items.length === 0
          ? html`<${Empty} title="No events match."><a role="button" class="secondary" href=${to("/audit")}>Show all events</a><//>`
          : html`<ul class="deliveries" aria-label="Events">${items.map((one) => html`<${Row} key=${one.id} event=${one} nameOf=${nameOf} />`)}</ul>
              <${Pager} of=${pages} label="Pages of the log" />`}
    <//>`;
}

/** The verification of the whole log. */
function Verify() {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const form = useForm({}, async () => {
    setFound(null);
    setFound(await get("/admin/audit-events/verify"));
  });
  return html`<section aria-labelledby="verify">
    <h2 id="verify">Verify the log</h2>
    <p>Each event is sealed together with the one before it. Verification finds events that were changed, removed, added or moved.</p>
    <div role="status">${found && html`<${Verdict} found=${found} />`}</div>
    <${Problem} error=${form.error} />
    <div class="actions"><button type="button" class="secondary" aria-disabled=${form.isBusy} aria-busy=${form.isBusy} onClick=${() => form.submit()}>Verify the log</button></div>
  </section>`;
}

/** @param {{found: {ok: boolean, count: number, firstBroken: {number: number, id: string | null, reason: string} | null}}} props */
function Verdict({ found: { count, firstBroken } }) {
  if (firstBroken === null)
    return html`<p class="all-well">The log is intact: all ${words.number(count)} events are unchanged.</p>`;
  return html`<p class="problem"><strong>The log was altered.</strong> Event ${words.number(firstBroken.number)}${firstBroken.id && html` (<code>${firstBroken.id}</code>)`}: ${firstBroken.reason}.
    Compare the log with a backup.</p>`;
}
