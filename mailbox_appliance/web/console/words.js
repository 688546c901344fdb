// @ts-check
/** Times, sizes and numbers as text. Pure functions; tests pass `now`. */

const DAY = 86_400_000;
const LANGUAGE = navigator.languages?.length ? [...navigator.languages] : undefined;
const UNITS = ["KB", "MB", "GB", "TB"];

/** The time if it is today, otherwise the day, with the year if it is not this year. @param {string} at RFC 3339 @param {Date} [now] */
export function shortTime(at, now = new Date()) {
  const when = new Date(at);
  if (Number.isNaN(when.getTime())) return "";
  if (when.toDateString() === now.toDateString()) return formatted(when, { hour: "2-digit", minute: "2-digit" });
  const year = when.getFullYear() === now.getFullYear() ? undefined : /** @type {const} */ ("numeric");
  return formatted(when, { day: "numeric", month: "short", year });
}

/** Day and time in full, with the time zone. @param {string} at RFC 3339 @param {Intl.DateTimeFormatOptions} [options] */
export function longTime(at, options = { dateStyle: "full", timeStyle: "long" }) {
  const when = new Date(at);
  return Number.isNaN(when.getTime()) ? "" : formatted(when, options);
}

/** Day and hour: "1 Jun 2026, 10:00". @param {string} at RFC 3339 */
export function exactTime(at) {
  return longTime(at, { dateStyle: "medium", timeStyle: "short" });
}

/** @type {Map<string, Intl.DateTimeFormat>} creating a format takes 100 times as long as using it */
const FORMATS = new Map();

/** @param {Date} when @param {Intl.DateTimeFormatOptions} options */
function formatted(when, options) {
  const key = JSON.stringify(options);
  const format = FORMATS.get(key) ?? new Intl.DateTimeFormat(LANGUAGE, options);
  FORMATS.set(key, format);
  return format.format(when);
}

/** The time from now: "3 minutes ago", "in 2 days". @param {string} at RFC 3339 @param {Date} [now] */
export function ago(at, now = new Date()) {
  const seconds = (new Date(at).getTime() - now.getTime()) / 1000;
  /** @type {[Intl.RelativeTimeFormatUnit, number][]} */
  const steps = [
    ["day", DAY / 1000],
    ["hour", 3600],
    ["minute", 60],
  ];
  const [unit, length] = steps.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return new Intl.RelativeTimeFormat(LANGUAGE, { numeric: "auto" }).format(Math.round(seconds / length), unit);
}

/** @param {number} bytes in steps of 1000, as disks count */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  let value = bytes;
  let unit = -1;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** @param {number} value */
export function number(value) {
  return value.toLocaleString(LANGUAGE);
}

/** "1 message", "2 messages". @param {number} count @param {string} one @param {string} [many] */
export function count(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

/** The name of a person, or the address if there is no name, or if the name looks like an address. @param {{name?: string | null, email: string}} person */
export function person({ name, email }) {
  const given = straight(name ?? "").trim();
  return given && !/[@\uff20\ufe6b]/.test(given) ? given : straight(email);
}

/** "a, b and c", or "a, b or c" if `any`; always in English, like the text around it. @param {string[]} items @param {boolean} [any] */
export function list(items, any = false) {
  return new Intl.ListFormat("en", { type: any ? "disjunction" : "conjunction", style: "long" }).format(items);
}

/** The text without direction marks: one that a sender left open would reverse the text after it. @param {string} text */
export function straight(text) {
  return text.replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "");
}
