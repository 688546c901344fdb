// @ts-check
/** Dialogs: the browser's own, so that focus stays in them, Escape closes them, and it returns to where it was. */
import { html, useEffect, useId, useLayoutEffect, useRef } from "../html.js";
import { place } from "../router.js";
import { member } from "../session.js";
import { Shared, useShared } from "../shared.js";

/** @param {{title: string, onClose: () => void, children: any, wide?: boolean}} props */
export function Dialog({ title, onClose, children, wide = false }) {
  const id = useId();
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // Before the effects of what is in it: a field that asks for the focus gets it.
  useLayoutEffect(() => {
    const before = document.activeElement;
    const dialog = element.current;
    dialog?.showModal();
    return () => {
      dialog?.close(); // while it is open, nothing behind it takes the focus
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
 * @property {string} action what the button says that does it: a verb
 * @property {boolean} [danger] it cannot be taken back
 */
/** @type {Shared<(Question & {answer: (yes: boolean) => void}) | null>} */
const open = new Shared(/** @type {any} */ (null));

/** Asks before something is done; true: do it. @param {Question} question @returns {Promise<boolean>} */
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

/** Where such questions appear; once, in the shell. They end with the page, and with the session, that they are about. */
export function Questions() {
  const question = useShared(open);
  const { path } = useShared(place);
  const who = useShared(member)?.id;
  useEffect(() => () => open.value?.answer(false), [path, who]);
  if (question === null) return null;
  return html`<${Dialog} title=${question.title} onClose=${() => question.answer(false)}>
    <p>${question.text}</p>
    <footer>
      <button type="button" class="secondary" onClick=${() => question.answer(false)}>Cancel</button>
      <button type="button" class=${question.danger ? "danger" : ""} onClick=${() => question.answer(true)}>${question.action}</button>
    </footer>
  <//>`;
}
