// @ts-check
/** The field for a new password. It is typed once, since it can be shown (WCAG 3.3.8: password managers can fill it). */
import { ApiError } from "../api.js";
import { html, useState } from "../html.js";
import { Field } from "../ui/form.js";

/** @param {{of: import("../ui/form.js").FormState, name?: string, label?: string, path?: string, autofocus?: boolean}} props */
export function NewPassword({ of: form, name = "password", label = "Password", path = `/${name}`, autofocus }) {
  const [isShown, setShown] = useState(false);
  const hint = "At least 12 characters, for example four words. Do not use your name or email address.";
  return html`<${Field} of=${form} name=${name} label=${label} path=${path} hint=${hint} autofocus=${autofocus}
      type=${isShown ? "text" : "password"} autocomplete="new-password" required spellcheck=${false} autocapitalize="none" />
    <div class="field"><label><input type="checkbox" checked=${isShown} onChange=${() => setShown(!isShown)} /> Show password</label></div>`;
}

/**
 * Show an error with this code beside a field, if the API names none.
 * @template T
 * @param {Promise<T>} asked
 * @param {string} code
 * @param {string} path
 * @param {string} message
 */
export async function beside(asked, code, path, message) {
  try {
    return await asked;
  } catch (problem) {
    if (problem instanceof ApiError && problem.code === code) problem.details = [{ path, message }];
    throw problem;
  }
}
