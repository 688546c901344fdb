// @ts-check
/** A choice outside a form, such as a filter, that applies immediately. */
import { html, useId } from "../html.js";

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
