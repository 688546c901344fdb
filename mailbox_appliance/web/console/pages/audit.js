// @ts-check
/** The audit log: events with filters, and its verification. */
import { get } from "../api.js";
import { html, useState } from "../html.js";
import { go, to } from "../router.js";
import { Choice, useForm } from "../ui/form.js";
import { Empty, Loaded, Pager, Problem, useLoad, usePages } from "../ui/load.js";
import { Badge, Time, Title } from "../ui/values.js";
import * as words from "../words.js";

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
      ${(/** @type {{items: Event[]}} */ { items }) =>
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

// --- The member's own events in the audit log ---

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

// --- The texts for events in the audit log ---

/** @typedef {{kind: "session" | "api_key" | "local" | "system", id: string | null, memberId: string | null}} Actor */
/** @typedef {{id: string, at: string, actor: Actor, action: string, target: {kind: string, id: string} | null, outcome: "success" | "failure" | "denied", clientAddress: string | null}} Event */

/** @type {[key: string, name: string][]} */
const OUTCOMES = [
  ["success", "Succeeded"],
  ["failure", "Failed"],
  ["denied", "Denied"],
];

/** The objects of actions, by the first part of the action. @type {Record<string, string>} */
const THINGS = {
  session: "a session",
  password: "a password",
  password_reset: "a password reset",
  invitation: "an invitation",
  console_link: "a console sign-in link",
  member: "a member",
  api_key: "an API key",
  account: "a mailbox",
  delivery: "an uncertain delivery",
  schedule: "a scheduled message",
  oauth_app: "an OAuth app",
  settings: "a setting",
  certificate: "a certificate",
  backup: "a backup",
  key: "the store’s key",
  license: "the license",
  setup: "the setup",
  store: "the store",
};
/** The objects as filter options. @type {[string, string][]} */
const KINDS = Object.entries(THINGS).map(([kind, thing]) => {
  const name = thing.slice(thing.indexOf(" ") + 1);
  return [kind, name.charAt(0).toUpperCase() + name.slice(1)];
});

/** The verbs by the last part of the action, and texts for whole actions that differ. @type {Record<string, string>} */
const DEEDS = {
  setup: "set the appliance up",
  "session.create": "signed in",
  "member.create": "added a member",
  "member.enroll": "accepted an invitation",
  "member.update": "changed a name or email address",
  "member.promote": "made a member an administrator",
  "member.demote": "removed a member’s administrator role",
  "password_reset.create": "issued a password reset",
  "account.create": "connected a mailbox",
  "account.access": "changed who has access to a mailbox",
  "account.folders": "mapped the folders of a mailbox",
  "delivery.resolve_succeeded": "resolved a delivery as delivered",
  "delivery.resolve_failed": "resolved a delivery as not sent",
  "delivery.confirm": "confirmed an uncertain delivery",
  "member.activate": "reactivated a member",
  create: "created",
  make: "created",
  redeem: "used",
  rotate: "replaced",
  set: "set",
};

/** @param {string} action such as `member.create` @param {string} outcome */
function deed(action, outcome) {
  const [kind = "", end = ""] = action.split(".");
  const past = DEEDS[end] ?? end.replace(/e?$/, "ed");
  const words = DEEDS[action] ?? `${past} ${THINGS[kind] ?? kind}`;
  if (outcome === "success") return words;
  return action === "session.create" ? "tried to sign in" : `${words} (not successful)`;
}

/** @param {{event: Event, nameOf: (memberId: string) => string | undefined}} props `nameOf`: returns a member's name, if it is known */
function Row({ event: { at, actor, action, target, outcome, clientAddress }, nameOf }) {
  const name = target?.kind === "member" && nameOf(target.id);
  return html`<li>
    <div class="what">
      <span><strong>${who(actor, outcome, nameOf)}</strong> ${deed(action, outcome)}</span>
      <small class="muted"><code>${action}</code>${target && html` · ${target.kind.replace("_", " ")} ${name || html`<code>${target.id}</code>`}`}${clientAddress && ` · from ${clientAddress}`}</small>
    </div>
    <span class="when">
      <${Badge} kind=${outcome === "success" ? "plain" : "bad"}>${OUTCOMES.find(([key]) => key === outcome)?.[1]}<//>
      <small><${Time} at=${at} /></small>
    </span>
  </li>`;
}

/** @param {Actor} actor @param {string} outcome @param {(memberId: string) => string | undefined} nameOf */
function who({ kind, memberId }, outcome, nameOf) {
  if (kind === "local") return outcome === "success" ? "The operator" : "A user on this computer";
  if (memberId === null) return kind === "system" && outcome === "success" ? "The appliance" : "Unknown";
  const name = nameOf(memberId) ?? `Member ${memberId}`;
  return kind === "api_key" ? `${name} (API key)` : name;
}
