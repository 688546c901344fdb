// @ts-check
/** Components that show values, and the heading of a page. */
import { html, useEffect, useRef, useState } from "../html.js";
import * as words from "../words.js";

/** A time in short form, with the full form as its title. @param {{at: string | null, ago?: boolean, exact?: boolean, none?: string}} props `exact`: day and time */
export function Time({ at, ago, exact, none = "–" }) {
  if (!at) return html`<span>${none}</span>`;
  const text = ago ? words.ago(at) : exact ? words.exactTime(at) : words.shortTime(at);
  return html`<time datetime=${at} title=${words.longTime(at)}>${text}</time>`;
}

/** A status as text on a color, never the color alone. @param {{kind?: "good" | "bad" | "busy" | "plain", children: any}} props */
export function Badge({ kind = "plain", children }) {
  return html`<span class=${`badge ${kind}`}>${children}</span>`;
}

/** A button that copies `text`. @param {{text: string, label?: string}} props */
export function Copy({ text, label = "Copy" }) {
  const [told, setTold] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setTold("Copied");
    } catch {
      setTold("Could not copy. Select the text and copy it manually.");
    }
  };
  return html`<button type="button" class="secondary outline small" onClick=${copy}>${label}</button>
    <small role="status">${told}</small>`;
}

/** A text to copy, such as a token or a command. @param {{text: string, label: string, copy?: string}} props */
export function Snippet({ text, label, copy }) {
  return html`<figure class="snippet" aria-label=${label}>
    <pre tabindex="0"><code>${text}</code></pre>
    <figcaption><${Copy} text=${text} label=${copy ?? `Copy ${label.toLowerCase()}`} /></figcaption>
  </figure>`;
}

/** A message of the API. Text between backticks is shown as code. @param {{text: string}} props */
export function ApiText({ text }) {
  return text.split(/`([^`]+)`/).map((piece, index) => (index % 2 ? html`<code>${piece}</code>` : piece));
}

/** Warnings of the API. @param {{of: string[]}} props */
export function Warnings({ of: all }) {
  return all.map((one) => html`<p class="warning" key=${one}><${ApiText} text=${one} /></p>`);
}

/** Names with their values; empty values are left out. @param {{of: [string, any][], wide?: boolean}} props */
export function Facts({ of, wide = false }) {
  return html`<dl class=${wide ? "facts wide" : "facts"}>
    ${of.map(([name, value]) => value && html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/** A progress bar. @param {{label: string, done?: number, total?: number}} props without a total, the bar is indeterminate */
export function Progress({ label, done = 0, total = 0 }) {
  const known = total > 0 ? { value: done, max: total } : {};
  return html`<div class="progress">
    <span>${label}${total > 0 && ` (${Math.floor((100 * done) / total)}%)`}</span>
    <progress aria-label=${label} ...${known}></progress>
  </div>`;
}

// --- The heading of a page. It is also the title of the tab, and gets the focus when the page opens ---

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
