// @ts-check
/** Values as they are shown. */
import { html, useState } from "../html.js";
import * as words from "../words.js";

/** A moment: short, in full where one points at it. @param {{at: string | null, ago?: boolean, exact?: boolean, none?: string}} props `exact`: day and hour */
export function Time({ at, ago, exact, none = "–" }) {
  if (!at) return html`<span>${none}</span>`;
  const text = ago ? words.ago(at) : exact ? words.exactTime(at) : words.shortTime(at);
  return html`<time datetime=${at} title=${words.longTime(at)}>${text}</time>`;
}

/** A state: a word on a colour, never the colour alone. @param {{kind?: "good" | "bad" | "busy" | "plain", children: any}} props */
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

/** A text to take along, such as a token or a command. @param {{text: string, label: string, copy?: string}} props */
export function Snippet({ text, label, copy }) {
  return html`<figure class="snippet" aria-label=${label}>
    <pre tabindex="0"><code>${text}</code></pre>
    <figcaption><${Copy} text=${text} label=${copy ?? `Copy ${label.toLowerCase()}`} /></figcaption>
  </figure>`;
}

/** What a person should see to. @param {{of: string[]}} props */
export function Warnings({ of: all }) {
  return all.map((one) => html`<p class="warning" key=${one}>${one}</p>`);
}

/** Names and their values, of which those that are nothing are left out. @param {{of: [string, any][], wide?: boolean}} props */
export function Facts({ of, wide = false }) {
  return html`<dl class=${wide ? "facts wide" : "facts"}>
    ${of.map(([name, value]) => value && html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/** How far a long step is. @param {{label: string, done?: number, total?: number}} props without a total: open */
export function Progress({ label, done = 0, total = 0 }) {
  const known = total > 0 ? { value: done, max: total } : {};
  return html`<div class="progress">
    <span>${label}${total > 0 && ` (${Math.floor((100 * done) / total)}%)`}</span>
    <progress aria-label=${label} ...${known}></progress>
  </div>`;
}
