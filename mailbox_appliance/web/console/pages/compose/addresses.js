// @ts-check
/** Recipients as people type and paste them. */

/** `isWrong`: no address yet; it is kept as it was typed. @typedef {{email: string, name?: string, isWrong?: boolean}} Recipient */

const PERSON = /^(?:"((?:[^"\\]|\\.)*)"|([^<>"]*?))\s*<\s*([^<>\s]+)\s*>$/;
const EMAIL = /^(?:"[^"]+"|[^\s@<>,;"]+)@[^\s@<>,;"]+$/;

/** Every recipient in a text, apart by commas, semicolons or lines. @param {string} text @returns {Recipient[]} */
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

/** As one would type it. @param {Recipient} person */
export function written({ email, name }) {
  if (!name) return email;
  return /[",;<>@]/.test(name) ? `"${name.replace(/["\\]/g, "\\$&")}" <${email}>` : `${name} <${email}>`;
}

/** @param {Recipient[]} list */
export function people(list) {
  return list.map(written).join(", ");
}

/** With those added that are not there yet. @param {Recipient[]} people @param {Recipient[]} more */
export function joined(people, more) {
  const known = new Set(people.map((one) => one.email.toLowerCase()));
  return [
    ...people,
    ...more.filter((one) => !known.has(one.email.toLowerCase()) && known.add(one.email.toLowerCase())),
  ];
}

/** For the API: those that are addresses. @param {Recipient[]} people */
export function given(people) {
  return people.filter((one) => !one.isWrong).map(({ email, name }) => (name ? { email, name } : { email }));
}

/** Apart at commas, semicolons and lines that stand in no quotes and no brackets. @param {string} text */
function pieces(text) {
  const found = text.match(/(?:"(?:[^"\\]|\\.)*"|<[^<>]*>|[^,;\n\r"<]|["<])+/g) ?? [];
  return found.map((piece) => piece.trim()).filter(Boolean);
}
