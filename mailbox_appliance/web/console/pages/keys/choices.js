// @ts-check
/** The form fields for the permissions and mailboxes of a key. */
import { nameOf } from "../../accounts.js";
import { html, useId } from "../../html.js";
import { ADMIN, MAIL, PROFILES } from "./rights.js";

/** @typedef {import("../../ui/form.js").FormState} FormState */
/** @typedef {{value: string, label: string, hint?: string, disabled?: boolean}} Choice */

/**
 * @param {{of: FormState, accounts: import("../../accounts.js").Account[], isAdmin: boolean, most?: string[] | null,
 *   mayWiden?: boolean}} props `most`: the mail capabilities that can be granted; `mayWiden`: whether all mailboxes can be chosen
 */
export function Choices({ of: form, accounts, isAdmin, most = null, mayWiden = true }) {
  const isBeyond = (/** @type {string[]} */ wanted) => most !== null && wanted.some((one) => !most.includes(one));
  const profiles = Object.entries(PROFILES).map(([value, one]) => ({ value, ...one, disabled: isBeyond(one.mail) }));
  const custom = { value: "custom", label: "Custom", hint: "Only the permissions you select." };
  const reach = [
    { value: "all", label: "All mailboxes", hint: "Including mailboxes connected later.", disabled: !mayWiden },
    { value: "some", label: "Selected mailboxes" },
  ];
  return html`
    <${Picks} of=${form} name="profile" legend="Mail permissions" choices=${[...profiles, custom]}
      more=${(/** @type {string} */ value) => (PROFILES[value] ? { mail: PROFILES[value].mail } : {})} />
    ${
      form.values.profile === "custom" &&
      html`<${Picks} of=${form} name="mail" legend="Permissions"
        choices=${MAIL.map((one) => ({ value: one.id, label: one.full, hint: one.id, disabled: isBeyond([one.id]) }))} />`
    }
    <${Picks} of=${form} name="reach" legend="Mailbox access" choices=${reach} />
    ${
      form.values.reach === "some" &&
      html`<${Picks} of=${form} name="accounts" legend="Mailboxes" none="No mailbox is connected yet."
        choices=${accounts.map((one) => ({ value: one.id, label: nameOf(one) }))} />`
    }
    ${isAdmin && html`<${Administration} of=${form} isOpen=${form.values.admin.length > 0} />`}`;
}

/** @param {{of: FormState, isOpen: boolean}} props */
function Administration({ of: form, isOpen }) {
  const choices = ADMIN.map((one) => ({ value: one.id, label: one.full, hint: one.id }));
  return html`<details open=${isOpen}>
    <summary>Administration</summary>
    <p><small>For programs that manage the appliance. AI agents do not need these. Only “manage members” can lead to access to mail.</small></p>
    <${Picks} of=${form} name="admin" legend="Administration permissions" choices=${choices} />
  </details>`;
}

/**
 * A choice of one, or of several if the value is a list.
 * @param {{of: FormState, name: string, legend: string, choices: Choice[], more?: (value: string) => Record<string, any>, none?: string}} props
 *   `more`: returns other values that a choice sets
 */
function Picks({ of: form, name, legend, choices, more = () => ({}), none }) {
  const group = useId();
  const now = form.values[name];
  const isMany = Array.isArray(now);
  const isChosen = (/** @type {string} */ value) => (isMany ? now.includes(value) : now === value);
  const toggled = (/** @type {string} */ value) =>
    isChosen(value) ? now.filter((/** @type {string} */ one) => one !== value) : [...now, value];
  const set = (/** @type {string} */ value) => form.set({ ...more(value), [name]: isMany ? toggled(value) : value });
  return html`<fieldset class=${isMany ? "picks inner" : "picks"}><legend>${legend}</legend>
    ${choices.map(
      (
        one,
      ) => html`<${Line} key=${one.value} type=${isMany ? "checkbox" : "radio"} group=${group} choice=${one} checked=${isChosen(one.value)}
        onChange=${() => set(one.value)} />`,
    )}
    ${choices.length === 0 && html`<small>${none}</small>`}</fieldset>`;
}

/** @param {{type: string, group: string, choice: Choice, checked: boolean, onChange: () => void}} props */
function Line({ type, group, choice, checked, onChange }) {
  const id = useId();
  return html`<div class="pick">
    <input id=${id} type=${type} name=${group} checked=${checked} disabled=${choice.disabled && !checked}
      aria-describedby=${choice.hint ? `${id}-hint` : undefined} onChange=${onChange} />
    <div><label for=${id}>${choice.label}</label>${choice.hint && html`<small id=${`${id}-hint`}>${choice.hint}</small>`}</div>
  </div>`;
}
