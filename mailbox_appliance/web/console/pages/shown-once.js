// @ts-check
/** A dialog with a value that cannot be shown again. Closing it or leaving the page needs a confirmation. */
import { html, useEffect, useRef } from "../html.js";
import { guard } from "../router.js";
import { Dialog, sure } from "../ui/dialog.js";

/** @param {{title: string, what: string, wide?: boolean, onClose: () => void, children: any}} props `what`: "token" */
export function ShownOnce({ title, what, wide, onClose, children }) {
  const text = `The ${what} cannot be shown again.`;
  const isKept = useRef(false);
  useEffect(() => guard(() => (isKept.current ? null : `${text} Leave this page without saving it?`)), []);
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
