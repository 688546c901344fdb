// @ts-check
/** Dialogs. The browser's own keep the focus, close on Escape, and return the focus. */
import { html, useEffect, useId, useLayoutEffect, useRef } from "../html.js";
import { place } from "../router.js";
import { member } from "../session.js";
import { Shared, useShared } from "../shared.js";

/** @param {{title: string, onClose: () => void, children: any, wide?: boolean}} props */
export function Dialog({ title, onClose, children, wide = false }) {
  const id = useId();
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // This runs before the effects of the children, so that a child with autofocus gets the focus.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      dialog?.close(); // an open dialog would keep the focus
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  const cancel = (/** @type {Event} */ event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${element} aria-labelledby=${id} class=${wide ? "wide" : ""} onCancel=${cancel}>
    <article>
      <header>
        <button type="button" class="close" aria-label="Close" onClick=${onClose}>×</button>
        <h2 id=${id}>${title}</h2>
      </header>
      ${children}
    </article>
  </dialog>`;
}

/**
 * @typedef {object} Question
 * @property {string} title
 * @property {any} text
 * @property {string} action the text of the confirming button: a verb
 * @property {string} [dismiss] the text of the other button; "Cancel" by default
 * @property {boolean} [danger] the action cannot be undone
 */
/** @type {Shared<(Question & {answer: (yes: boolean) => void}) | null>} */
const open = new Shared(/** @type {any} */ (null));

/** Ask for confirmation; true means yes. @param {Question} question @returns {Promise<boolean>} */
export function sure(question) {
  return new Promise((resolve) => {
    open.value?.answer(false);
    open.set({
      ...question,
      answer: (yes) => {
        open.set(null);
        resolve(yes);
      },
    });
  });
}

/** The place where questions appear: once, in the shell. They close when the page or the session changes. */
export function Questions() {
  const question = useShared(open);
  const { path } = useShared(place);
  const who = useShared(member)?.id;
  useEffect(() => () => open.value?.answer(false), [path, who]);
  if (question === null) return null;
  return html`<${Dialog} title=${question.title} onClose=${() => question.answer(false)}>
    <p>${question.text}</p>
    <footer>
      <button type="button" class="secondary" onClick=${() => question.answer(false)}>${question.dismiss ?? "Cancel"}</button>
      <button type="button" class=${question.danger ? "danger" : ""} onClick=${() => question.answer(true)}>${question.action}</button>
    </footer>
  <//>`;
}
