// @ts-check
/** The recipients field. Each recipient can be edited and removed separately. */
import { ApiError } from "../../api.js";
import { html, useEffect, useId, useRef, useState } from "../../html.js";
import { done } from "../../ui/notices.js";

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
 * @param {() => Recipient[]} everybody
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

// --- Recipients, parsed from typed or pasted text ---

/** `isWrong`: not a valid address; `email` is then the typed text. @typedef {{email: string, name?: string, isWrong?: boolean}} Recipient */

const PERSON = /^(?:"((?:[^"\\]|\\.)*)"|([^<>"]*?))\s*<\s*([^<>\s]+)\s*>$/;
const EMAIL = /^(?:"[^"]+"|[^\s@<>,;"]+)@[^\s@<>,;"]+$/;

/** Return all recipients in a text, separated by commas, semicolons or lines. @param {string} text @returns {Recipient[]} */
export function parse(text) {
  return pieces(text).flatMap(read);
}

/** @param {string} piece @returns {Recipient[]} */
function read(piece) {
  const [, quoted, plain, email = ""] = PERSON.exec(piece) ?? [];
  const name = (quoted?.replace(/\\(.)/g, "$1") ?? plain ?? "").trim();
  if (EMAIL.test(email)) return [name ? { email, name } : { email }];
  if (EMAIL.test(piece)) return [{ email: piece }];
  const words = piece.split(/\s+/);
  if (words.every((word) => EMAIL.test(word))) return words.map((word) => ({ email: word }));
  return [{ email: piece, isWrong: true }];
}

/** Return a recipient as text. @param {Recipient} person */
export function written({ email, name }) {
  if (!name) return email;
  return /[",;<>@]/.test(name) ? `"${name.replace(/["\\]/g, "\\$&")}" <${email}>` : `${name} <${email}>`;
}

/** @param {Recipient[]} list */
export function people(list) {
  return list.map(written).join(", ");
}

/** Return a list with the new recipients added, without duplicates. @param {Recipient[]} people @param {Recipient[]} more */
function joined(people, more) {
  const known = new Set(people.map((one) => one.email.toLowerCase()));
  return [
    ...people,
    ...more.filter((one) => !known.has(one.email.toLowerCase()) && known.add(one.email.toLowerCase())),
  ];
}

/** Return the valid recipients in the form of the API. @param {Recipient[]} people */
export function given(people) {
  return people.filter((one) => !one.isWrong).map(({ email, name }) => (name ? { email, name } : { email }));
}

/** Split a text at commas, semicolons and line ends outside quotes and angle brackets. @param {string} text */
function pieces(text) {
  const found = text.match(/(?:"(?:[^"\\]|\\.)*"|<[^<>]*>|[^,;\n\r"<]|["<])+/g) ?? [];
  return found.map((piece) => piece.trim()).filter(Boolean);
}
