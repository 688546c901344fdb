// @ts-check
/** The editor of a sending policy: allowed recipients, limits, and required approvals. */
import * as api from "../api.js";
import { html } from "../html.js";
import { Check, Field, Form, Picks, useForm } from "../ui/form.js";
import { Loaded, useLoad } from "../ui/load.js";
import { done } from "../ui/notices.js";

/**
 * @typedef {object} Policy
 * @property {"never" | "always" | "newRecipients"} approval
 * @property {string[] | null} allowedRecipients null: everybody
 * @property {string[]} blockedRecipients
 * @property {number | null} maxRecipients null: no rule
 * @property {number | null} perHour
 * @property {number | null} perDay
 * @property {boolean} internalOnly
 */

const APPROVALS = [
  { value: "never", label: "No approval", hint: "Messages are sent at once." },
  {
    value: "newRecipients",
    label: "Messages to new recipients",
    hint: "New is an address to which the mailbox has neither written nor received mail from. Spam does not count.",
  },
  { value: "always", label: "Every message" },
];
const REACH = [
  { value: "all", label: "Everybody" },
  { value: "some", label: "Only these addresses and domains" },
];
const LIMITS = [
  ["maxRecipients", "Recipients of a message, at most"],
  ["perHour", "Messages an hour, at most"],
  ["perDay", "Messages a day, at most"],
];
const LISTS = ["allowedRecipients", "blockedRecipients"];

/** @param {{path: string}} props of the policy in the API */
export function SendingPolicy({ path }) {
  const known = useLoad((signal) => api.get(path, {}, signal), [path]);
  return html`<${Loaded} of=${known} what="the sending policy">${(/** @type {Policy} */ policy) => html`<${Edit} key=${path} path=${path} policy=${policy} />`}<//>`;
}

/** @param {{path: string, policy: Policy}} props */
function Edit({ path, policy }) {
  const form = useForm(valuesOf(policy), async (values) => {
    try {
      form.set(valuesOf(await api.put(path, policyOf(values))));
    } catch (error) {
      throw error instanceof api.ApiError ? atFields(error, values) : error;
    }
    done("Sending policy saved.");
  });
  return html`<${Form} of=${form} action="Save sending policy" label="Sending policy">
    <${Picks} of=${form} name="approval" legend="Needs a person’s approval" choices=${APPROVALS} />
    <${Picks} of=${form} name="reach" legend="Allowed recipients" choices=${REACH} />
    ${
      form.values.reach === "some" &&
      html`<${Field} of=${form} name="allowedRecipients" label="Allowed addresses and domains" rows=${3}
      hint="One on each line, such as ann@example.org or example.org. Subdomains are not included. If it is empty, nothing can be sent." />`
    }
    <${Field} of=${form} name="blockedRecipients" label="Blocked addresses and domains" rows=${3} hint="One on each line. A domain includes its subdomains." />
    <${Check} of=${form} name="internalOnly" isSwitch label="Only inside" hint="Messages may only go to the domains of this appliance’s own mailboxes." />
    <div class="pair">${LIMITS.map(
      ([name, label]) =>
        html`<${Field} key=${name} of=${form} name=${name} label=${label} inputmode="numeric" autocomplete="off" placeholder="No limit" />`,
    )}</div>
  <//>`;
}

/** @param {Policy} policy */
function valuesOf(policy) {
  const limits = LIMITS.map(([name = ""]) => [name, String(/** @type {any} */ (policy)[name] ?? "")]);
  return {
    approval: policy.approval,
    internalOnly: policy.internalOnly,
    reach: policy.allowedRecipients === null ? "all" : "some",
    allowedRecipients: (policy.allowedRecipients ?? []).join("\n"),
    blockedRecipients: policy.blockedRecipients.join("\n"),
    ...Object.fromEntries(limits),
  };
}

/** @param {import("../ui/form.js").Values} values @returns {Policy} */
function policyOf(values) {
  return {
    approval: values.approval,
    internalOnly: values.internalOnly,
    allowedRecipients: values.reach === "all" ? null : entriesOf(values.allowedRecipients),
    blockedRecipients: entriesOf(values.blockedRecipients),
    .../** @type {any} */ (Object.fromEntries(LIMITS.map(([name = ""]) => [name, limitOf(name, values[name])]))),
  };
}

/** @param {string} text */
function entriesOf(text) {
  return text.split(/[\s,;]+/).filter(Boolean);
}

/** Return a limit, null if the field is empty. An invalid number must never count as no rule. @param {string} name @param {string} text */
function limitOf(name, text) {
  const given = text.trim();
  if (given === "") return null;
  if (/^\d{1,7}$/.test(given)) return Number(given);
  const message = "Enter a whole number, or leave it empty for no limit.";
  throw new api.ApiError(400, { code: "invalid_request", message, details: [{ path: `/${name}`, message }] });
}

/** Return an error with its details at the fields: one about an entry of a list names the entry. @param {api.ApiError} error @param {import("../ui/form.js").Values} values */
function atFields(error, values) {
  const details = error.details.map(({ path, message }) => {
    const [, name = "", index] = path.split("/");
    if (!LISTS.includes(name) || index === undefined) return { path, message };
    return { path: `/${name}`, message: `${entriesOf(values[name])[Number(index)]}: ${message}` };
  });
  return new api.ApiError(error.status, { code: error.code, message: error.message, details });
}
