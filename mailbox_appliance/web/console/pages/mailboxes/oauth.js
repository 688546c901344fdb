// @ts-check
/**
 * Connecting with a provider's own sign-in, which opens in a new tab. Its last page passes the result to the tab that
 * started it, over a channel that only tabs of this console receive. If that tab was closed, the last page finishes itself.
 */
import * as accounts from "../../accounts.js";
import * as api from "../../api.js";
import { go, place } from "../../router.js";
import { member } from "../../session.js";
import { Shared } from "../../shared.js";
import { done } from "../../ui/notices.js";

/** @typedef {"google" | "outlook"} Provider */
/** @typedef {{email?: string, accountId?: string, device?: boolean}} Wanted the mailbox and the kind of sign-in */
/** @typedef {{provider: Provider, accountId?: string, hasTab: boolean, state: string, url: string, expiresAt: string, userCode?: string, interval?: number}} Begun */
/** @typedef {{state: string, code?: string} | {redirectUrl: string}} Brought the result from the provider */
/** @typedef {{account?: accounts.Account, error?: unknown}} Outcome */

const CHANNEL = new BroadcastChannel("mailbox-appliance.oauth");
const LAST = "mailbox-appliance.oauth-provider"; // copied into the new tab, but not into tabs opened by a link
const LASTS = 600_000; // milliseconds on this computer's clock
const OVER = "This sign-in has expired. Start again; a sign-in is valid for 10 minutes.";

/** The sign-in that this tab started and has not finished. @type {Shared<Begun | null>} */
export const begun = new Shared(/** @type {Begun | null} */ (null));
/** The error of the last sign-in, and its mailbox. @type {Shared<{accountId?: string, error: unknown} | null>} */
export const failed = new Shared(/** @type {{accountId?: string, error: unknown} | null} */ (null));

member.watch((now) => void (now ?? settle(null))); // at sign-out, nothing is kept

/** Start a sign-in. Call this in the click handler: only then can a tab be opened. @param {Provider} provider @param {Wanted} wanted */
export async function begin(provider, wanted) {
  sessionStorage.setItem(LAST, provider);
  const tab = wanted.device ? null : window.open("about:blank", "_blank");
  if (tab) tab.document.title = "Please wait…";
  try {
    const { authorizationUrl, ...made } = await api.post(api.at`/accounts/oauth/${provider}`, wanted);
    const url = new URL(authorizationUrl);
    if (url.protocol !== "https:" && url.protocol !== "http:")
      throw new Error("The provider returned an invalid sign-in address.");
    failed.set(null);
    const mine = { provider, accountId: wanted.accountId, hasTab: tab !== null, url: url.href, ...made };
    begun.set(mine);
    setTimeout(() => begun.value === mine && settle({ error: new Error(OVER) }), LASTS);
    if (tab) leave(tab, url.href);
    if (made.userCode) void agreed(mine);
  } catch (error) {
    tab?.close();
    throw error;
  }
}

/** Poll until the person has entered the code and agreed. @param {Begun} mine */
async function agreed(mine) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, (mine.interval ?? 5) * 1000));
    if (begun.value !== mine) return;
    try {
      return settle({ account: await finish(mine.provider, { state: mine.state }) });
    } catch (error) {
      if (begun.value === mine && !isPassing(error)) return settle({ error });
    }
  }
}

/** @param {unknown} error */
function isPassing(error) {
  return error instanceof api.ApiError && (error.code === "conflict" || [0, 429].includes(error.status));
}

/** @param {Window} tab @param {string} url */
function leave(tab, url) {
  tab.opener = null; // the provider's page must not control this one
  tab.location.replace(url);
}

/** @param {Provider} provider @param {Brought} brought @returns {Promise<accounts.Account>} */
export async function finish(provider, brought) {
  const account = await api.post(api.at`/accounts/oauth/${provider}/finish`, brought);
  begun.set(null);
  await accounts.reload();
  return account;
}

/** Return the result from the provider in the form of the API, which explains errors of the provider. @param {Record<string, string>} given */
export function brought(given) {
  const { state = "", code } = given;
  return code ? { state, code } : { redirectUrl: `?${new URLSearchParams(given)}` };
}

/** Finish a sign-in that another tab of this session started, at the provider that knows it. @param {Brought} brought */
export async function finishThere(brought) {
  const [first, second] = /** @type {Provider[]} */ (["google", "outlook"]);
  const isSecond = sessionStorage.getItem(LAST) === second;
  return finish(isSecond ? second : first, brought).catch((error) => {
    if (!isUnknown(error)) throw error;
    return finish(isSecond ? first : second, brought);
  });
}

/** Whether this session did not start the sign-in, or it has expired. @param {unknown} error */
export function isUnknown(error) {
  return error instanceof api.ApiError && error.details.some(({ path }) => ["/state", "/redirectUrl"].includes(path));
}

/** Show that the mailbox is connected; open its page if the person is waiting for that. @param {accounts.Account} account */
export function connected(account) {
  done(`${account.email} is connected. Its mail is being fetched.`);
  const waits = ["/mailboxes/connect", "/oauth-callback"].includes(place.value.path);
  if (waits) go(`/mailboxes/${account.id}`, {}, { replace: true });
}

/**
 * Pass the result to the tab that started the sign-in.
 * @param {Record<string, string>} given the query of the page's address
 * @param {number} patience milliseconds until that tab counts as closed, enough for a slow computer
 * @returns {Promise<Outcome | null>} null: no tab waits for the result
 */
export function handOver(given, patience) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => settle(null), patience);
    /** @param {Outcome | null} outcome */
    const settle = (outcome) => {
      CHANNEL.removeEventListener("message", hear);
      resolve(outcome);
    };
    /** @param {MessageEvent} event */
    const hear = ({ data }) => {
      if (data.state !== given.state) return;
      if (data.kind === "mine") {
        clearTimeout(timer);
        CHANNEL.postMessage({ kind: "brought", state: given.state, given });
      }
      if (data.kind === "ended") settle(data.message ? { error: new Error(data.message) } : { account: data.account });
    };
    CHANNEL.addEventListener("message", hear);
    CHANNEL.postMessage({ kind: "whose", state: given.state });
  });
}

/** Tell the tab that started the sign-in how it ended, if that tab still exists. @param {string} state @param {Outcome} outcome */
export function tell(state, { account, error }) {
  const message = error instanceof Error ? error.message : undefined;
  CHANNEL.postMessage({ kind: "ended", state, account, message });
}

CHANNEL.addEventListener("message", ({ data }) => {
  const mine = begun.value;
  if (!mine || data.state !== mine.state) return;
  if (data.kind === "whose") CHANNEL.postMessage({ kind: "mine", state: mine.state });
  if (data.kind === "brought") void goOn(mine, data.given);
  if (data.kind === "ended") settle(data.account ? { account: data.account } : { error: new Error(data.message) });
});

/** @param {Begun} mine @param {Record<string, string>} given */
async function goOn(mine, given) {
  /** @type {Outcome} */
  let outcome;
  try {
    outcome = { account: await finish(mine.provider, brought(given)) };
  } catch (error) {
    outcome = { error };
  }
  tell(mine.state, outcome);
  settle(outcome);
}

/** End the sign-in; its state is single-use. @param {Outcome | null} outcome */
function settle(outcome) {
  const accountId = begun.value?.accountId;
  begun.set(null);
  failed.set(outcome?.error === undefined ? null : { accountId, error: outcome.error });
  if (outcome?.account) connected(outcome.account);
}
