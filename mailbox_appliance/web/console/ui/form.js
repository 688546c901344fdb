// @ts-check
/** Forms. Errors appear beside their fields, and typed values are kept. */
import { ApiError } from "../api.js";
import { html, useEffect, useId, useRef, useState } from "../html.js";
import { Problem } from "./load.js";
import { ApiText } from "./values.js";

const NEEDED = "Required.";

/** @typedef {Record<string, any>} Values */

/**
 * @param {Values} start
 * @param {(values: Values) => Promise<unknown>} send throws an ApiError on failure
 * @returns a form for `Form` and its fields
 */
export function useForm(start, send) {
  const [values, setValues] = useState(start);
  const [error, setError] = useState(/** @type {unknown} */ (undefined));
  const [isBusy, setBusy] = useState(false);
  const errors =
    error instanceof ApiError ? Object.fromEntries(error.details.map((one) => [one.path, one.message])) : {};
  const submit = async (/** @type {Values} */ given = values) => {
    if (isBusy) return;
    setBusy(true);
    setError(undefined);
    try {
      await send(given);
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return {
    values,
    errors,
    error,
    isBusy,
    submit,
    setError,
    set: (/** @type {Values} */ changed) => setValues((before) => ({ ...before, ...changed })),
    reset: () => setValues(start),
  };
}

/** @typedef {ReturnType<typeof useForm>} FormState */

/**
 * @param {{of: FormState, action: string, busy?: string, children: any, danger?: boolean, more?: any, label?: string}} props
 *   `action`: the text of the button; `busy`: its text while sending; `more`: further buttons; `label`: of the form
 */
export function Form({ of: form, action, busy = "Please wait…", children, danger = false, more, label }) {
  const element = useRef(/** @type {HTMLFormElement | null} */ (null));
  useEffect(() => {
    if (form.error === undefined) return;
    const wrong = element.current?.querySelector('[aria-invalid="true"]');
    if (wrong instanceof HTMLElement) wrong.focus();
  }, [form.error]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const empty = [...(element.current?.querySelectorAll("[required]") ?? [])].filter(
      (one) => !(/** @type {HTMLInputElement} */ (one).value.trim()),
    );
    const details = empty.map((one) => ({ path: one.getAttribute("data-path") ?? "", message: NEEDED }));
    if (details.length) form.setError(new ApiError(400, { code: "invalid_request", message: NEEDED, details }));
    else void form.submit();
  };
  return html`<form ref=${element} onSubmit=${submit} aria-label=${label} novalidate>
    ${children}
    <${Problem} error=${withoutShown(form.error, element.current)} />
    <div class="actions">
      <button type="submit" class=${danger ? "danger" : ""} aria-disabled=${form.isBusy} aria-busy=${form.isBusy}>
        ${form.isBusy ? busy : action}
      </button>
      ${more}
    </div>
  </form>`;
}

/**
 * Return the error without the details that fields show.
 * @param {unknown} error
 * @param {HTMLFormElement | null} form
 */
function withoutShown(error, form) {
  if (!(error instanceof ApiError) || form === null) return error;
  const shown = new Set([...form.querySelectorAll("[data-path]")].map((one) => one.getAttribute("data-path")));
  const details = error.details.filter((one) => !shown.has(one.path));
  // The API's message names JSON fields, which people do not know.
  const told = details.length ? "This could not be saved:" : "Check the marked fields.";
  const message = error.code === "invalid_request" && error.details.length ? told : error.message;
  return new ApiError(error.status, { code: error.code, message, requestId: error.requestId, details });
}

/**
 * A field of a form. `path`: its JSON pointer in errors of the API, by default `/name`.
 * @param {{of: FormState, name: string, label: string, path?: string, type?: string, hint?: any, placeholder?: string,
 *   autocomplete?: string, required?: boolean, inputmode?: string, rows?: number, options?: [string, string][],
 *   autofocus?: boolean, min?: string | number, max?: string | number, disabled?: boolean}} props
 */
export function Field({
  of: form,
  name,
  label,
  path = `/${name}`,
  type = "text",
  hint,
  options,
  rows,
  autofocus,
  ...more
}) {
  const id = useId();
  const input = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => void (autofocus && input.current?.focus()), []);
  const wrong = form.errors[path];
  const told = `${hint ? `${id}-hint ` : ""}${wrong ? `${id}-wrong` : ""}`.trim() || undefined;
  const shared = {
    id,
    name,
    ref: input,
    "data-path": path,
    "aria-describedby": told,
    "aria-invalid": wrong ? "true" : undefined,
    ...more,
  };
  const take = (/** @type {any} */ event) => form.set({ [name]: event.currentTarget.value });
  const value = form.values[name] ?? "";
  const entry = options
    ? html`<select ...${shared} onChange=${take}>
        ${options.map(([key, text]) => html`<option value=${key} selected=${key === value}>${text}</option>`)}
      </select>`
    : rows
      ? html`<textarea ...${shared} rows=${rows} value=${value} onInput=${take} />`
      : html`<input ...${shared} type=${type} value=${value} onInput=${take} />`;
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${entry}
    ${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}
    ${wrong && html`<small class="wrong" id=${`${id}-wrong`}><${ApiText} text=${wrong} /></small>`}
  </div>`;
}

/**
 * @param {{of: FormState, name: string, label: any, path?: string, hint?: any, isSwitch?: boolean, disabled?: boolean}} props
 */
export function Check({ of: form, name, label, path = `/${name}`, hint, isSwitch, disabled }) {
  const id = useId();
  const wrong = form.errors[path];
  return html`<div class="field">
    <label for=${id}>
      <input id=${id} name=${name} type="checkbox" role=${isSwitch ? "switch" : undefined} checked=${Boolean(form.values[name])}
        data-path=${path} disabled=${disabled} aria-describedby=${hint ? `${id}-hint` : undefined}
        aria-invalid=${wrong ? "true" : undefined}
        onChange=${(/** @type {any} */ event) => form.set({ [name]: event.currentTarget.checked })} />
      ${label}
    </label>
    ${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}
    ${wrong && html`<small class="wrong"><${ApiText} text=${wrong} /></small>`}
  </div>`;
}

/** @typedef {{value: string, label: string, hint?: string, disabled?: boolean}} Pick */

/**
 * A choice of one, or of several if the value is a list.
 * @param {{of: FormState, name: string, legend: string, choices: Pick[], more?: (value: string) => Record<string, any>, none?: string,
 *   isInner?: boolean}} props `more`: returns other values that a choice sets; `isInner`: it belongs to the choice before it
 */
export function Picks({ of: form, name, legend, choices, more = () => ({}), none, isInner = true }) {
  const group = useId();
  const now = form.values[name];
  const isMany = Array.isArray(now);
  const isChosen = (/** @type {string} */ value) => (isMany ? now.includes(value) : now === value);
  const toggled = (/** @type {string} */ value) =>
    isChosen(value) ? now.filter((/** @type {string} */ one) => one !== value) : [...now, value];
  const set = (/** @type {string} */ value) => form.set({ ...more(value), [name]: isMany ? toggled(value) : value });
  return html`<fieldset class=${isMany && isInner ? "picks inner" : "picks"}><legend>${legend}</legend>
    ${choices.map(
      (
        one,
      ) => html`<${Line} key=${one.value} type=${isMany ? "checkbox" : "radio"} group=${group} choice=${one} checked=${isChosen(one.value)}
        onChange=${() => set(one.value)} />`,
    )}
    ${choices.length === 0 && html`<small>${none}</small>`}</fieldset>`;
}

/** @param {{type: string, group: string, choice: Pick, checked: boolean, onChange: () => void}} props */
function Line({ type, group, choice, checked, onChange }) {
  const id = useId();
  return html`<div class="pick">
    <input id=${id} type=${type} name=${group} checked=${checked} disabled=${choice.disabled && !checked}
      aria-describedby=${choice.hint ? `${id}-hint` : undefined} onChange=${onChange} />
    <div><label for=${id}>${choice.label}</label>${choice.hint && html`<small id=${`${id}-hint`}>${choice.hint}</small>`}</div>
  </div>`;
}

// --- A choice outside a form, such as a filter, that applies immediately ---

/**
 * @param {{label: string, value: string, options: [string, string][], onChoose: (value: string) => void, every?: string, disabled?: boolean}} props
 *   `every`: the text of the first entry, which means no filter
 */
export function Choice({ label, value, options, onChoose, every, disabled }) {
  const id = useId();
  const all = every === undefined ? options : [["", every], ...options];
  return html`<div class="choice">
    <label for=${id}>${label}</label>
    <select id=${id} disabled=${disabled} onChange=${(/** @type {any} */ event) => onChoose(event.currentTarget.value)}>
      ${all.map(([key, name]) => html`<option key=${key} value=${key} selected=${key === value}>${name}</option>`)}
    </select>
  </div>`;
}
