// @ts-check
/**
 * A message's HTML as nodes that show and do nothing: an allowance for elements and attributes, kept by DOMPurify, which
 * works in the frame's own realm. The nodes are never written as text again, so that nothing is read a second time in
 * another way (mutation XSS). Links lose their `href` and pictures their `src`: what they were lies in `data-`.
 */
import "../../vendor/purify.js";
import { declarations, rules } from "./css.js";

const TAGS =
  "a abbr acronym address article aside b bdi bdo big blockquote br caption center cite code col colgroup dd del dfn dir" +
  " div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main mark menu ol p pre q rp" +
  " rt ruby s samp section small span strike strong sub sup table tbody td tfoot th thead time tr tt u ul var wbr";
const ATTRIBUTES =
  "align alt bgcolor border cellpadding cellspacing class clear color colspan dir face height href hspace id lang noshade" +
  " nowrap reversed rowspan rules size span src start style title type valign value vspace width";
const RASTER = /^data:image\/(?:png|gif|jpe?g|webp|bmp)[;,]/i;
// A value, or the beginning of a handler's name.
const HANDLER = /=\s*(?:"[^"]*"|'[^']*'|[^\s"'>][^\s>]*)|(?<=[\s"'/`])on(?=\w+\s*=)/gi;
const SCHEMES = new Set(["http:", "https:", "mailto:", "tel:"]);

/**
 * @typedef {object} Sanitized
 * @property {DocumentFragment} nodes of the frame's document
 * @property {Record<string, string>} paper attributes of what the sender took for the page: colour, style, direction
 * @property {string} styles
 * @property {number} remote pictures that lie at other servers
 */

/**
 * @param {Window & typeof globalThis} window of the frame
 * @param {string} html
 * @returns {Sanitized}
 */
export function sanitized(window, html) {
  /** @type {import("dompurify").DOMPurify} */
  const purify = /** @type {any} */ (globalThis).DOMPurify(window);
  if (!purify.isSupported)
    throw new Error("This browser cannot show formatted messages safely. Use the plain text view.");
  /** @type {string[]} */
  const sheets = [];
  const found = { remote: 0 };
  const styleOf = remembered();
  purify.addHook("uponSanitizeElement", (node, { tagName }) => {
    if (tagName === "style" && node.textContent) sheets.push(node.textContent);
  });
  purify.addHook("afterSanitizeAttributes", (element) => {
    if (element.hasAttribute("style")) styleOf(/** @type {HTMLElement} */ (element));
    if (element.localName === "img") found.remote += picture(element);
    else element.removeAttribute("src");
    link(element);
  });
  const whole = purify.sanitize(quieted(html), {
    ALLOWED_TAGS: [...TAGS.split(" "), "#text"],
    ALLOWED_ATTR: ATTRIBUTES.split(" "),
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_NAMESPACES: ["http://www.w3.org/1999/xhtml"],
    ADD_URI_SAFE_ATTR: ATTRIBUTES.split(" ").filter((one) => one !== "href" && one !== "src"),
    ALLOWED_URI_REGEXP: /^\s*(?:https?:|mailto:|tel:|cid:|data:image\/|#)/i,
    WHOLE_DOCUMENT: true,
    RETURN_DOM_FRAGMENT: true,
  });
  const { nodes, paper } = unwrapped(window.document, whole);
  return { nodes, paper, styles: rules(window, sheets.join("\n")), remote: found.remote };
}

/**
 * Browsers complain of handlers, and begin with `base` and `track`, while they read markup that is never shown. So these
 * have another name by then, unless that stands in a value. This keeps it quiet, no more: what is safe is decided after it.
 * @param {string} html
 */
function quieted(html) {
  return html
    .replace(/<[a-z][^<>]*/gi, (tag) => tag.replace(HANDLER, (found) => (found[0] === "=" ? found : "x-")))
    .replace(/<(?=(?:base|track)\b)/gi, "<x-");
}

/** Only what stood on the page; its own attributes apart. @param {Document} document @param {DocumentFragment} whole */
function unwrapped(document, whole) {
  const nodes = document.createDocumentFragment();
  const body = whole.querySelector("body");
  /** @type {Record<string, string>} */
  const paper = {};
  for (const { name, value } of Array.from(body?.attributes ?? [])) paper[name] = value;
  nodes.append(...Array.from((body ?? whole).childNodes).filter((one) => one.nodeName !== "HEAD"));
  for (const image of nodes.querySelectorAll("img:not([src], [data-cid])")) unseen(image);
  return { nodes, paper };
}

/** A picture that is not loaded is what stands for it, if anything does. @param {Element} image */
function unseen(image) {
  const words = image.ownerDocument.createElement("i");
  words.textContent = image.getAttribute("alt");
  if (words.textContent) image.replaceWith(words);
  else image.remove();
}

/** Senders write the same styles a thousand times over. @returns {(element: HTMLElement) => void} */
function remembered() {
  /** @type {Map<string, string>} */
  const known = new Map();
  return (element) => {
    const given = element.getAttribute("style") ?? "";
    const kept = known.get(given) ?? declarations(element.style);
    known.set(given, kept);
    if (kept) element.setAttribute("style", kept);
    else element.removeAttribute("style");
  };
}

/** @param {Element} element @returns {number} 1 where the picture lies at another server */
function picture(element) {
  const source = (element.getAttribute("src") ?? "").trim();
  if (RASTER.test(source)) return 0;
  element.removeAttribute("src");
  const [, id] = /^cid:(.+)$/i.exec(source) ?? [];
  if (id) element.setAttribute("data-cid", id);
  return /^(?:https?:)?\/\//i.test(source) ? 1 : 0;
}

/** @param {Element} element */
function link(element) {
  const given = element.getAttribute("href");
  element.removeAttribute("href");
  if (element.localName !== "a" || !given) return;
  const address = given.trim().startsWith("#") ? given.trim() : addressOf(given);
  if (!address) return;
  element.setAttribute("data-address", address);
  element.setAttribute("role", "link");
  element.setAttribute("tabindex", "0");
  element.setAttribute("title", address);
}

/** The address as a browser would go to it; "" where that is not to be gone to. @param {string} text */
export function addressOf(text) {
  try {
    const url = new URL(text);
    return SCHEMES.has(url.protocol) ? url.href : "";
  } catch {
    return "";
  }
}
