// @ts-check
/** Recipients, parsed from typed or pasted text. */

/** `isWrong`: not a valid address; `email` is then the typed text. @typedef {{email: string, name?: string, isWrong?: boolean}} Recipient */

const PERSON = /^(?:"((?:[^"\\]|\\.)*)"|([^<>"]*?))\s*<\s*([^<>\s]+)\s*>$/;
const EMAIL = /^(?:"[^"]+"|[^\s@<>,;"]+)@[^\s@<>,;"]+$/;

/** Return all recipients in a text, separated by commas, semicolons or lines. @param {string} text @returns {Recipient[]} */
export function parse(text) {
  return pieces(text).flatMap(read);
}

/** @param {string} piece @returns {Recipient[]} */
function read(piece) {
  const [, quoted, plain, email = ""] = PERSON.exec(piece) ?? [];
  const name = (quoted?.replace(/\\(.)/g, "$1") ?? plain ?? "").trim();
  if (EMAIL.test(email)) return [name ? { email, name } : { email }];
  if (EMAIL.test(piece)) return [{ email: piece }];
  const words = piece.split(/\s+/);
  if (words.every((word) => EMAIL.test(word))) return words.map((word) => ({ email: word }));
  return [{ email: piece, isWrong: true }];
}

/** Return a recipient as text. @param {Recipient} person */
export function written({ email, name }) {
  if (!name) return email;
  return /[",;<>@]/.test(name) ? `"${name.replace(/["\\]/g, "\\$&")}" <${email}>` : `${name} <${email}>`;
}

/** @param {Recipient[]} list */
export function people(list) {
  return list.map(written).join(", ");
}

/** Return a list with the new recipients added, without duplicates. @param {Recipient[]} people @param {Recipient[]} more */
export function joined(people, more) {
  const known = new Set(people.map((one) => one.email.toLowerCase()));
  return [
    ...people,
    ...more.filter((one) => !known.has(one.email.toLowerCase()) && known.add(one.email.toLowerCase())),
  ];
}

/** Return the valid recipients in the form of the API. @param {Recipient[]} people */
export function given(people) {
  return people.filter((one) => !one.isWrong).map(({ email, name }) => (name ? { email, name } : { email }));
}

/** Split a text at commas, semicolons and line ends outside quotes and angle brackets. @param {string} text */
function pieces(text) {
  const found = text.match(/(?:"(?:[^"\\]|\\.)*"|<[^<>]*>|[^,;\n\r"<]|["<])+/g) ?? [];
  return found.map((piece) => piece.trim()).filter(Boolean);
}
