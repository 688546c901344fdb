// @ts-check
/**
 * Connecting by a provider's own sign-in. It opens in a tab of its own; the page that it ends at hands what it brought to
 * the tab that began, over a channel that only tabs of this console hear, or goes on by itself where that tab is gone.
 */
import * as accounts from "../../accounts.js";
import * as api from "../../api.js";
import { member } from "../../session.js";
import { Shared } from "../../shared.js";

/** @typedef {"google" | "outlook"} Provider */
/** @typedef {{email?: string, accountId?: string, device?: boolean}} Wanted whose mailbox, and how one signs in */
/** @typedef {{provider: Provider, state: string, url: string, expiresAt: string, userCode?: string, interval?: number}} Begun */
/** @typedef {{state: string, code?: string} | {redirectUrl: string}} Brought what the provider gave */
/** @typedef {{account?: accounts.Account, error?: unknown}} Outcome */

const CHANNEL = new BroadcastChannel("mailbox-appliance.oauth");
const LAST = "mailbox-appliance.oauth-provider"; // goes along into the tab that is opened

/** What this tab began and has not finished. @type {Shared<Begun | null>} */
export const begun = new Shared(/** @type {Begun | null} */ (null));
/** How it ended, where this tab was told by another one. @type {Shared<Outcome | null>} */
export const ended = new Shared(/** @type {Outcome | null} */ (null));

member.watch((now) => void (now ?? settle(null))); // nothing of whoever signed out stays

/** Call it in the click itself: only then may a tab be opened. @param {Provider} provider @param {Wanted} wanted */
export async function begin(provider, wanted) {
  sessionStorage.setItem(LAST, provider);
  const tab = wanted.device ? null : window.open("about:blank", "_blank");
  if (tab) tab.document.title = "One moment …";
  try {
    const { authorizationUrl, ...made } = await api.post(api.at`/accounts/oauth/${provider}`, wanted);
    const url = new URL(authorizationUrl);
    if (url.protocol !== "https:" && url.protocol !== "http:")
      throw new Error("The provider's page has no address of the web.");
    ended.set(null);
    const mine = { provider, url: url.href, ...made };
    begun.set(mine);
    if (tab) leave(tab, url.href);
    if (made.userCode) void agreed(mine);
  } catch (error) {
    tab?.close();
    throw error;
  }
}

/** Asks now and then whether the code was typed and agreed to. @param {Begun} mine */
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
  tab.opener = null; // the provider's page has no business with this one
  tab.location.replace(url);
}

/** @param {Provider} provider @param {Brought} brought @returns {Promise<accounts.Account>} */
export async function finish(provider, brought) {
  const account = await api.post(api.at`/accounts/oauth/${provider}/finish`, brought);
  begun.set(null);
  await accounts.reload();
  return account;
}

/** What came back, as the API takes it; what a provider refused is told by the API. @param {Record<string, string>} given */
export function brought(given) {
  const { state = "", code } = given;
  return code ? { state, code } : { redirectUrl: `?${new URLSearchParams(given)}` };
}

/** What this tab was opened for. @returns {Provider} */
export function lastProvider() {
  return sessionStorage.getItem(LAST) === "outlook" ? "outlook" : "google";
}

/**
 * Gives what came back to the tab that began.
 * @param {Record<string, string>} given of the page's address
 * @param {number} patience milliseconds until that tab counts as gone; it may be a slow computer
 * @returns {Promise<Outcome | null>} null: no tab waits for it
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

/** Says how it ended to the tab that began, should it be there after all. @param {string} state @param {Outcome} outcome */
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

/** What was begun is over: a state is good once. @param {Outcome | null} outcome */
function settle(outcome) {
  begun.set(null);
  ended.set(outcome);
}
