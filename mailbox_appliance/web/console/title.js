// @ts-check
/** The page's heading: also the title of the tab, and where the focus goes when one comes to the page. */
import { html, useEffect, useRef } from "./html.js";

import * as words from "./words.js";

let isFirst = true;

/** @param {{children: string, actions?: any}} props `actions`: buttons beside it */
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
