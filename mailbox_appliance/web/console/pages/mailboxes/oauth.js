// @ts-check
/**
 * Connecting by a provider's own sign-in. It opens in a tab of its own; the page that it ends at hands what it brought to
 * the tab that began, over a channel that only tabs of this console hear, or goes on by itself where that tab is gone.
 */
import * as accounts from "../../accounts.js";
import * as api from "../../api.js";
import { go, place } from "../../router.js";
import { member } from "../../session.js";
import { Shared } from "../../shared.js";
import { done } from "../../ui/notices.js";

/** @typedef {"google" | "outlook"} Provider */
/** @typedef {{email?: string, accountId?: string, device?: boolean}} Wanted whose mailbox, and how one signs in */
/** @typedef {{provider: Provider, accountId?: string, hasTab: boolean, state: string, url: string, expiresAt: string, userCode?: string, interval?: number}} Begun */
/** @typedef {{state: string, code?: string} | {redirectUrl: string}} Brought what the provider gave */
/** @typedef {{account?: accounts.Account, error?: unknown}} Outcome */

const CHANNEL = new BroadcastChannel("mailbox-appliance.oauth");
const LAST = "mailbox-appliance.oauth-provider"; // goes along into the tab that is opened, but not by a link
const LASTS = 600_000; // milliseconds, by this computer's clock
const OVER = "This sign-in has expired. Start again; a sign-in is valid for 10 minutes.";

/** What this tab began and has not finished. @type {Shared<Begun | null>} */
export const begun = new Shared(/** @type {Begun | null} */ (null));
/** Why it came to nothing, and for which mailbox. @type {Shared<{accountId?: string, error: unknown} | null>} */
export const failed = new Shared(/** @type {{accountId?: string, error: unknown} | null} */ (null));

member.watch((now) => void (now ?? settle(null))); // nothing of whoever signed out stays

/** Call it in the click itself: only then may a tab be opened. @param {Provider} provider @param {Wanted} wanted */
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

/** Finishes what another tab of this session began, at whichever provider knows it. @param {Brought} brought */
export async function finishThere(brought) {
  const [first, second] = /** @type {Provider[]} */ (["google", "outlook"]);
  const isSecond = sessionStorage.getItem(LAST) === second;
  return finish(isSecond ? second : first, brought).catch((error) => {
    if (!isUnknown(error)) throw error;
    return finish(isSecond ? first : second, brought);
  });
}

/** Whether this session has not begun it, or it is over. @param {unknown} error */
export function isUnknown(error) {
  return error instanceof api.ApiError && error.details.some(({ path }) => ["/state", "/redirectUrl"].includes(path));
}

/** Says so wherever one is by now, and leads on where one waits for it. @param {accounts.Account} account */
export function connected(account) {
  done(`${account.email} is connected. Its mail is being fetched.`);
  const waits = ["/mailboxes/connect", "/oauth-callback"].includes(place.value.path);
  if (waits) go(`/mailboxes/${account.id}`, {}, { replace: true });
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
  const accountId = begun.value?.accountId;
  begun.set(null);
  failed.set(outcome?.error === undefined ? null : { accountId, error: outcome.error });
  if (outcome?.account) connected(outcome.account);
}
