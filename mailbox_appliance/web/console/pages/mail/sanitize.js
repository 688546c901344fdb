// @ts-check
/**
 * A message's HTML as inert nodes, with an allowlist of elements and attributes. DOMPurify enforces it in the frame's own
 * realm. The nodes are never serialized again, so they cannot be parsed differently a second time (mutation XSS). Links
 * lose their `href` and pictures their `src`; the values are kept in `data-` attributes.
 */
import "../../vendor/purify.js";

const TAGS =
  "a abbr acronym address article aside b bdi bdo big blockquote br caption center cite code col colgroup dd del dfn dir" +
  " div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 header hr i img ins kbd li main mark menu ol p pre q rp" +
  " rt ruby s samp section small span strike strong sub sup table tbody td tfoot th thead time tr tt u ul var wbr";
const ATTRIBUTES =
  "align alt bgcolor border cellpadding cellspacing class clear color colspan dir face height href hspace id lang noshade" +
  " nowrap reversed rowspan rules size span src start style title type valign value vspace width";
const RASTER = /^data:image\/(?:png|gif|jpe?g|webp|bmp)[;,]/i;
// An attribute value, or the start of an event handler's name.
const HANDLER = /=\s*(?:"[^"]*"|'[^']*'|[^\s"'>][^\s>]*)|(?<=[\s"'/`])on(?=\w+\s*=)/gi;
const SCHEMES = new Set(["http:", "https:", "mailto:", "tel:"]);

/**
 * @typedef {object} Sanitized
 * @property {DocumentFragment} nodes of the frame's document
 * @property {Record<string, string>} paper attributes of the sender's `body`: color, style, direction
 * @property {string} styles
 * @property {number} remote number of pictures on other servers
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
 * Rename event handlers and the elements `base` and `track`, since browsers log errors or load them already while parsing.
 * Attribute values are not changed. This only avoids noise; the sanitizer decides afterwards what is safe.
 * @param {string} html
 */
function quieted(html) {
  return html
    .replace(/<[a-z][^<>]*/gi, (tag) => tag.replace(HANDLER, (found) => (found[0] === "=" ? found : "x-")))
    .replace(/<(?=(?:base|track)\b)/gi, "<x-");
}

/** Return the content of `body`, and its attributes separately. @param {Document} document @param {DocumentFragment} whole */
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

/** Replace a picture that is not loaded by its alternative text, or remove it. @param {Element} image */
function unseen(image) {
  const words = image.ownerDocument.createElement("i");
  words.textContent = image.getAttribute("alt");
  if (words.textContent) image.replaceWith(words);
  else image.remove();
}

/** Return a function that cleans styles and remembers results: senders repeat the same styles many times. @returns {(element: HTMLElement) => void} */
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

/** @param {Element} element @returns {number} 1 if the picture is on another server */
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

/** Return the address as a browser resolves it, or "" if it must not be opened. @param {string} text */
export function addressOf(text) {
  try {
    const url = new URL(text);
    return SCHEMES.has(url.protocol) ? url.href : "";
  } catch {
    return "";
  }
}

// --- A sender's styles, parsed by the browser itself (CSSOM) and rebuilt from an allowlist ---
//
// Nothing is left that fetches, covers, moves or imitates: no addresses, positions, animations, content or other rules.

const MOST_CHARACTERS = 400_000;
const MOST_RULES = 5_000;
// Longhands only, since a declaration block lists only these.
const LOOKS = new RegExp(
  "^(?:margin|padding|border(?!-image)|font(?!-palette)|text-(?!emphasis)|background-color|color$|(?:min-|max-)?(?:width|height)" +
    "|(?:min-|max-)?(?:inline|block)-size|line-height|letter-spacing|word-|white-space|display|vertical-align|float|clear" +
    "|table-layout|caption-side|empty-cells|overflow|direction|unicode-bidi|writing-mode|list-style-(?:type|position)|opacity" +
    "|visibility|box-|flex|align-|justify-|gap|row-gap|column-|order$|hyphens|object-fit|object-position|tab-size|quotes|hanging)",
);
// Values that could contain an address, take a value defined in another place, or depend on the frame's size, which follows the mail.
const FOREIGN =
  /url|image|src\s*\(|attr\s*\(|var\s*\(|env\s*\(|element\s*\(|expression|[\\@;{}]|:\/\/|[\d.](?:[sld]?v(?:h|w|i|b|min|max)|cq\w+)\b/i;
const PLAIN_MEDIA = /^[\w\s():,.<>=/-]*$/;
const REACHING = /:has\(|:visited|:target|::(?!before|after|first|marker)/i;

/** Return the allowed declarations. @param {CSSStyleDeclaration} style @returns {string} */
function declarations(style) {
  const kept = [];
  for (const name of Array.from(style)) {
    const value = style.getPropertyValue(name);
    if (!value || !LOOKS.test(name) || FOREIGN.test(value)) continue;
    kept.push(`${name}: ${value}${style.getPropertyPriority(name) && " !important"}`);
  }
  return kept.join("; ");
}

/**
 * Return the allowed rules of all style elements of a message.
 * @param {Window & typeof globalThis} window of the frame
 * @param {string} text
 */
function rules(window, text) {
  const sheet = new window.CSSStyleSheet();
  // Escapes are removed first, so that they cannot disguise a name. The browser would log a warning about an import.
  sheet.replaceSync(
    text
      .slice(0, MOST_CHARACTERS)
      .replaceAll("\\", "")
      .replace(/@import/gi, "@none"),
  );
  /** @type {string[]} */
  const kept = [];
  gather(window, sheet.cssRules, kept);
  return kept.join("\n");
}

/** @param {Window & typeof globalThis} window @param {CSSRuleList} those @param {string[]} kept */
function gather(window, those, kept) {
  for (const rule of Array.from(those)) {
    if (kept.length > MOST_RULES) return;
    if (rule instanceof window.CSSStyleRule) {
      const text = REACHING.test(rule.selectorText) ? "" : declarations(rule.style);
      if (text) kept.push(`${selector(rule.selectorText)} { ${text} }`);
    } else if (rule instanceof window.CSSMediaRule && isPlain(rule.conditionText)) {
      /** @type {string[]} */
      const inner = [];
      gather(window, rule.cssRules, inner);
      if (inner.length) kept.push(`@media ${rule.conditionText} {\n${inner.join("\n")}\n}`);
    }
  }
}

/** Whether a media condition is allowed. Dark variants are not, since messages always have a white background. @param {string} condition */
function isPlain(condition) {
  return PLAIN_MEDIA.test(condition) && !/prefers-|height/i.test(condition);
}

/** Adapt a selector to links, whose address is not in `href`. @param {string} text */
function selector(text) {
  return text.replace(/:(?:any-)?link\b/gi, "[data-address]");
}
