// @ts-check
/** The heading of a page. It is also the title of the tab, and gets the focus when the page opens. */
import { html, useEffect, useRef } from "./html.js";

import * as words from "./words.js";

let isFirst = true;

/** @param {{children: string, actions?: any}} props `actions`: buttons beside the heading */
export function Title({ children: given, actions }) {
  const children = words.straight(given);
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    document.title = `${children} · mailbox-appliance`;
  }, [children]);
  useEffect(() => {
    if (!isFirst && !document.activeElement?.closest("main, dialog")) heading.current?.focus();
    isFirst = false;
  }, []);
  return html`<header class="title"><h1 ref=${heading} tabindex="-1">${children}</h1>${actions && html`<div class="actions">${actions}</div>`}</header>`;
}
