// @ts-check
/**
 * A sender's styles, parsed by the browser itself (CSSOM) and rebuilt from an allowlist. Nothing is left that fetches,
 * covers, moves or imitates: no addresses, positions, animations, content or other rules.
 */

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
export function declarations(style) {
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
export function rules(window, text) {
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
