// @ts-check
/**
 * The signed-in member. The token is in this tab's sessionStorage, which ends with the tab; other tabs of the console
 * ask for it when they open. It is not in a cookie, so no other site can make requests with it.
 */
import { isUnsaved } from "./router.js";
import { Shared } from "./shared.js";

const KEY = "mailbox-appliance.session";
const CHANNEL = new BroadcastChannel("mailbox-appliance.session");
const LOCK = "mailbox-appliance.session"; // held as a shared lock by every tab with a session
const WAIT_FOR_OTHERS = 300; // milliseconds, if such a tab exists

/** @typedef {{id: string, name: string, email: string, role: "admin" | "member", status: string}} Member */
/** @typedef {{token: string, member: Member, session: {id: string, deviceName: string, expiresAt: string}}} LoggedIn */

/** The signed-in member, or null. @type {Shared<Member | null>} */
export const member = new Shared(/** @type {Member | null} */ (null));
/** Whether the session has ended while the page was open, and the page waits for a new sign-in. */
export const isLost = new Shared(false);
/** Why the session has ended and what to do, if the page knows; shown instead of the standard text. */
export const why = new Shared("");

/** @type {((isBack: boolean) => void)[]} */
let waiting = [];

/** The token of the member on this page; never another member's. @returns {string | null} */
export function token() {
  const known = stored();
  return known && (member.value === null || member.value.id === known.member.id) ? known.token : null;
}

/** Restore the session of this tab, or take it from another tab. @returns {Promise<void>} */
export async function begin() {
  CHANNEL.onmessage = (event) => heard(event.data);
  const known = stored() ?? ((await isElsewhere()) ? await fromOthers() : null);
  if (known) keep(known);
}

/** Start a session from the response to a sign-in, an enrollment or a link. @param {LoggedIn} loggedIn */
export function start(loggedIn) {
  keep(loggedIn);
  CHANNEL.postMessage({ kind: "begun", known: stored() });
}

/** Keep changed data of the member, such as the name. @param {Member} changed */
export function update(changed) {
  const known = stored();
  if (known) start({ ...known, member: changed });
}

/** Delete the session in this tab and in the other tabs that have it. */
export function end() {
  const id = stored()?.session.id;
  forget();
  CHANNEL.postMessage({ kind: "ended", id });
}

/**
 * The API rejected the token `used`: wait until the same member has signed in again.
 * @param {string | null} used
 * @returns {Promise<boolean>} whether the request can be repeated
 */
export function renewed(used) {
  if (used !== null && token() !== null && token() !== used) return Promise.resolve(true);
  if (member.value === null) return Promise.resolve(false);
  isLost.set(true);
  return new Promise((resolve) => void waiting.push(resolve));
}

/** The person does not sign in again: the waiting requests fail, and the session is deleted. */
export function giveUp() {
  end();
}

/** @param {LoggedIn} known */
function keep(known) {
  const isAnother = member.value !== null && member.value.id !== known.member.id;
  sessionStorage.setItem(KEY, JSON.stringify(known));
  if (isAnother) return void location.reload(); // no data of the previous member may stay on the page
  if (member.value === null) hold();
  member.set(known.member);
  release(true);
}

/** Hold the lock that shows other tabs that a session exists, as long as it lasts. */
function hold() {
  const ended = new Promise((/** @type {(value?: unknown) => void} */ end) => {
    const stop = member.watch((now) => {
      if (now !== null) return;
      stop();
      end();
    });
  });
  void navigator.locks?.request(LOCK, { mode: "shared" }, () => ended);
}

/** Whether another tab may have a session. @returns {Promise<boolean>} */
async function isElsewhere() {
  if (!navigator.locks) return true;
  const { held } = await navigator.locks.query();
  return held?.some((one) => one.name === LOCK) ?? true;
}

function forget() {
  sessionStorage.removeItem(KEY);
  member.set(null);
  release(false);
}

/** @param {boolean} isBack */
function release(isBack) {
  isLost.set(false);
  const those = waiting;
  waiting = [];
  for (const resolve of those) resolve(isBack);
}

/** @returns {LoggedIn | null} */
function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  } catch {
    return null;
  }
}

/** @param {{kind: string, known?: LoggedIn, id?: string}} told */
function heard(told) {
  if (told.kind === "wanted" && stored() && !isLost.value) CHANNEL.postMessage({ kind: "known", known: stored() });
  if (told.kind === "begun" && told.known && (member.value === null || member.value.id === told.known.member.id))
    keep(told.known);
  if (told.kind !== "ended" || !member.value || told.id !== stored()?.session.id) return;
  if (isUnsaved())
    isLost.set(true); // unsaved text is kept until the person signs in again
  else forget();
}

/** @returns {Promise<LoggedIn | null>} */
function fromOthers() {
  return new Promise((resolve) => {
    const timer = setTimeout(() => done(null), WAIT_FOR_OTHERS);
    /** @param {LoggedIn | null} known */
    const done = (known) => {
      clearTimeout(timer);
      CHANNEL.removeEventListener("message", listen);
      resolve(known);
    };
    /** @param {MessageEvent} event */
    const listen = (event) => void (event.data.kind === "known" && done(event.data.known));
    CHANNEL.addEventListener("message", listen);
    CHANNEL.postMessage({ kind: "wanted" });
  });
}
