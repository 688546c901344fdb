// @ts-check
/** The texts for events in the audit log. */
import { html } from "../../html.js";
import { Badge, Time } from "../../ui/values.js";

/** @typedef {{kind: "session" | "api_key" | "local" | "system", id: string | null, memberId: string | null}} Actor */
/** @typedef {{id: string, at: string, actor: Actor, action: string, target: {kind: string, id: string} | null, outcome: "success" | "failure" | "denied", clientAddress: string | null}} Event */

/** @type {[key: string, name: string][]} */
export const OUTCOMES = [
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
export const KINDS = Object.entries(THINGS).map(([kind, thing]) => {
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
export function Row({ event: { at, actor, action, target, outcome, clientAddress }, nameOf }) {
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
