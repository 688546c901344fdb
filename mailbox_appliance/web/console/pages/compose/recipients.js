// @ts-check
/** The recipients field. Each recipient can be edited and removed separately. */
import { ApiError } from "../../api.js";
import { html, useEffect, useId, useRef, useState } from "../../html.js";
import { done } from "../../ui/notices.js";
import { joined, parse, written } from "./addresses.js";

/** @typedef {import("./addresses.js").Recipient} Recipient */

/**
 * @param {{label: string, name: string, autofocus?: boolean,
 *   of: {values: any, errors: Record<string, string>, set: (changed: any) => void}}} props `of`: as for `Field`
 */
export function Recipients({ label, name, of: { values, errors, set }, autofocus = false }) {
  /** @type {Recipient[]} */
  const people = values[name];
  const onChange = (/** @type {Recipient[]} */ list) => set({ [name]: list });
  const id = useId();
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const [text, setText] = useState("");
  useEffect(() => void (autofocus && input.current?.focus()), []);
  const take = (/** @type {string} */ typed) => {
    const found = parse(typed);
    setText("");
    if (found.length) onChange(joined(people, found));
  };
  const without = (/** @type {Recipient} */ person) => {
    onChange(
      joined(
        people.filter((one) => one !== person),
        parse(text),
      ),
    );
    input.current?.focus();
  };
  const change = (/** @type {Recipient} */ person) => {
    without(person);
    setText(written(person));
  };
  const onKeyDown = (/** @type {KeyboardEvent} */ event) => {
    if (!/^(Enter|,|;)$/.test(event.key) || event.isComposing || event.ctrlKey || event.metaKey || !text.trim()) return;
    if (event.key !== "Enter" && parse(text).some((one) => one.isWrong)) return;
    event.preventDefault();
    take(text);
  };
  // A plain input would join pasted lines.
  const onPaste = (/** @type {ClipboardEvent} */ event) => {
    const pasted = event.clipboardData?.getData("text") ?? "";
    if (!/[,;\n]/.test(pasted)) return;
    event.preventDefault();
    take(text + pasted);
  };
  const wrongOf = (/** @type {Recipient} */ person) =>
    person.isWrong ? "not a complete email address" : errors[`/${name}/${people.indexOf(person)}/email`];
  const wrongs = people.flatMap((person) => (wrongOf(person) ? [`${person.email}: ${wrongOf(person)}`] : []));
  if (errors[`/${name}`]) wrongs.push(errors[`/${name}`] ?? "");
  return html`<div class="field people">
    <label for=${id}>${label}</label>
    <div class="entry" onClick=${(/** @type {Event} */ event) => event.target === event.currentTarget && input.current?.focus()}>
      ${
        people.length > 0 &&
        html`<ul aria-label=${`${label}: recipients`}>${people.map(
          (person) => html`<li key=${person.email} class=${wrongOf(person) && "wrong"}>
            <button type="button" aria-label=${`Change ${written(person)}`} onClick=${() => change(person)}>${person.name} <small>${person.email}</small></button>
            <button type="button" aria-label=${`Remove ${person.email}`} onClick=${() => without(person)}>×</button>
          </li>`,
        )}</ul>`
      }
      <input id=${id} ref=${input} value=${text} autocomplete="off" autocapitalize="off" spellcheck=${false} inputmode="email"
        aria-invalid=${wrongs.length ? "true" : undefined} aria-describedby=${wrongs.length ? `${id}-wrong` : undefined}
        onInput=${(/** @type {any} */ event) => setText(event.currentTarget.value)} onKeyDown=${onKeyDown} onPaste=${onPaste}
        onBlur=${() => take(text)} />
    </div>
    ${wrongs.length > 0 && html`<small class="wrong" id=${`${id}-wrong`}>${wrongs.join(" · ")}</small>`}
  </div>`;
}

/**
 * Whether a message has valid recipients. Text that is still in a field is added first; a wrong or empty field gets the focus.
 * @param {() => import("./addresses.js").Recipient[]} everybody
 */
export function isAddressed(everybody) {
  if (document.activeElement instanceof HTMLInputElement) document.activeElement.blur();
  const people = everybody();
  if (people.length && !people.some((one) => one.isWrong)) return true;
  if (!people.length) done("Add at least one recipient."); // invalid addresses have their own message
  const wrong = document.querySelector('.people [aria-invalid="true"]') ?? document.querySelector(".people input");
  if (wrong instanceof HTMLElement) wrong.focus();
  return false;
}

/** Return the messages of an API error by JSON pointer. @param {unknown} error @returns {Record<string, string>} */
export function toldOf(error) {
  return error instanceof ApiError ? Object.fromEntries(error.details.map((one) => [one.path, one.message])) : {};
}
