// @ts-check
/** Passwords, and tokens and links that cannot be shown again. */
import { ApiError } from "../api.js";
import { html, useLayoutEffect, useRef, useState } from "../html.js";
import { guard } from "../router.js";
import { Dialog, sure } from "../ui/dialog.js";
import { Field } from "../ui/form.js";
import { Snippet, Time } from "../ui/values.js";

/** A dialog with a value that cannot be shown again. Closing it or leaving the page needs a confirmation. @param {{title: string, what: string, wide?: boolean, onClose: () => void, children: any}} props `what`: "token" */
export function ShownOnce({ title, what, wide, onClose, children }) {
  const text = `The ${what} cannot be shown again.`;
  const isKept = useRef(false);
  useLayoutEffect(() => guard(() => (isKept.current ? null : `${text} Leave this page without saving it?`)), []);
  const close = () => {
    isKept.current = true;
    onClose();
  };
  const ask = async () => {
    if (await sure({ title: "Close this window?", text, action: "Close" })) close();
  };
  return html`<${Dialog} title=${title} wide=${wide} onClose=${ask}>
    ${children}
    <footer><button type="button" onClick=${close}>I have saved the ${what}</button></footer>
  <//>`;
}

// --- A one-time link for a member, shown only once ---

/** The host names of the browser's own computer. */
export const THIS_COMPUTER = ["localhost", "127.0.0.1", "[::1]"];

/** @typedef {{token: string, url: string, expiresAt: string}} Invitation */

/** @param {{title: string, name: string, invitation: Invitation, onClose: () => void}} props */
export function OneTimeLink({ title, name, invitation, onClose }) {
  const isOnlyHere = THIS_COMPUTER.includes(new URL(invitation.url).hostname);
  return html`<${ShownOnce} title=${title} what="link" onClose=${onClose}>
    <p>Send this link to ${name} privately: the first person who opens it can use it. <strong>It is shown only once</strong>,
      is single-use, and expires on <${Time} at=${invitation.expiresAt} exact />.</p>
    <${Snippet} label="Link" text=${invitation.url} />
    ${
      isOnlyHere &&
      html`<div class="warning"><p>This link works only on this computer. For other computers, turn on HTTPS in the settings, then create a new link.</p></div>`
    }
  <//>`;
}

// --- The field for a new password. It is typed once, since it can be shown (WCAG 3.3.8: password managers can fill it) ---

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
