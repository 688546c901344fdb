// @ts-check
/** What a message adds to the one that it answers. Pure functions. */

/** @typedef {import("./wording.js").Person} Person */
/** A piece of a text; `isQuoted`: every line begins with ">"; `isKnown`: the earlier message has this text. @typedef {{text: string, isQuoted: boolean, isKnown: boolean}} Piece */

const MARKS = /^(?:>[ \t]?)+/gm;

/**
 * Return the pieces of a text. A quote counts as known only if the earlier message contains it. Otherwise the writer could
 * hide new text in a quote.
 * @param {string} text
 * @param {string[]} earlier the forms of the earlier message's text
 * @returns {Piece[]}
 */
export function piecesOf(text, earlier) {
  const known = earlier.map(plain);
  /** @type {{isQuoted: boolean, lines: string[]}[]} */
  const runs = [];
  for (const line of text.split(/\r?\n/)) {
    const isQuoted = line.startsWith(">");
    const last = runs.at(-1);
    if (last?.isQuoted === isQuoted) last.lines.push(line);
    else runs.push({ isQuoted, lines: [line] });
  }
  return runs.map(({ isQuoted, lines }) => {
    const piece = lines.join("\n");
    const words = plain(piece).replace(/ ?\[…\]$/, "");
    return { text: piece, isQuoted, isKnown: isQuoted && known.some((one) => one.includes(words)) };
  });
}

/** Return a text without the marks of quotes, on one line. @param {string} text */
function plain(text) {
  return text.replace(MARKS, "").replace(/\s+/g, " ").trim();
}

/**
 * @typedef {object} Changes
 * @property {Person[]} added recipients that the earlier message does not name
 * @property {Person[]} left people of the earlier message who are not recipients
 * @property {boolean} hasOtherSubject
 */

/**
 * Return how a message differs from the one that it answers.
 * @param {{from: Person, to: Person[], cc: Person[], bcc: Person[], subject: string}} message
 * @param {{from?: Person, replyTo?: Person[], to: Person[], cc: Person[], subject: string}} earlier
 * @returns {Changes}
 */
export function changesOf(message, earlier) {
  const recipients = [...message.to, ...message.cc, ...message.bcc];
  const before = [...(earlier.from ? [earlier.from] : []), ...earlier.to, ...earlier.cc];
  const own = [message.from];
  return {
    added: without(recipients, [...before, ...(earlier.replyTo ?? []), ...own]),
    left: without(before, [...recipients, ...own]),
    hasOtherSubject: topic(message.subject) !== topic(earlier.subject),
  };
}

/** @param {Person[]} people @param {Person[]} others */
function without(people, others) {
  const emails = new Set(others.map(keyOf));
  return people.filter((one) => {
    const isFirst = !emails.has(keyOf(one));
    emails.add(keyOf(one));
    return isFirst;
  });
}

/** Return an address for comparing. Only ASCII letters are folded: some others, such as the Kelvin sign, imitate them. @param {Person} person */
function keyOf({ email }) {
  return email.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** Return a subject without the prefixes of replies and forwards. @param {string} subject */
function topic(subject) {
  return subject.replace(/^(?:\s*(?:re|aw|sv|fwd?|wg)\s*:)+/i, "").trim();
}
