// @ts-check
/** The page to which a provider's sign-in returns, in the tab that was opened for it. */
import { html, useEffect, useState } from "../../html.js";
import { go, to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { Busy, Problem } from "../../ui/load.js";
import { Snippet, Title } from "../../ui/values.js";
import * as oauth from "./oauth.js";

/** @param {{query: Record<string, string>}} props */
export default function Callback({ query }) {
  const [given] = useState(query);
  const [address] = useState(location.href.replace(/&hop=\d$/, ""));
  const member = useShared(session.member);
  const [outcome, setOutcome] = useState(/** @type {(oauth.Outcome & {isMine?: boolean}) | null} */ (null));
  const take = async () => {
    const elsewhere = given.hop === "2" ? null : await oauth.handOver(given, member ? 2_000 : 1_000);
    if (!elsewhere && !member && hopped(given)) return;
    setOutcome(elsewhere ?? { isMine: true });
  };
  useEffect(() => {
    if (!given.state) return;
    go("/oauth-callback", {}, { replace: true }); // so that going back does not use the code again; the browser's history still has it
    void take();
  }, []);
  return html`<section class="narrow"><${Title}>Connecting<//>${drawn(given, outcome, member, address)}</section>`;
}

/**
 * @param {Record<string, string>} given
 * @param {(oauth.Outcome & {isMine?: boolean}) | null} outcome
 * @param {session.Member | null} member
 * @param {string} address
 */
function drawn(given, outcome, member, address) {
  if (!given.state)
    return html`<p>${given.error ? "The provider rejected this sign-in and did not identify it." : "This address contains no sign-in."}</p><p><a href=${to("/mailboxes/connect")}>Connect a mailbox</a></p>`;
  if (outcome === null) return html`<${Busy} what="the mailbox" />`;
  if (outcome.account)
    return html`<p role="status">${outcome.account.email} is connected. You can close this tab and continue in the other one.</p>`;
  if (outcome.error) return html`<${Problem} error=${outcome.error} /><p>You can close this tab.</p>`;
  if (member === null)
    return html`<p>You are not signed in to the console at this address. Go back to the tab or terminal where you started, and paste this there:</p>
      <${Snippet} text=${address} label="Address" />`;
  return html`<${Finish} given=${given} address=${address} />`;
}

const SIBLINGS = { localhost: "127.0.0.1", "127.0.0.1": "localhost" };

/**
 * This computer has two names, and the provider may return to the one at which the sign-in was not started. Go to the
 * other name, and return with an error if it was not started there either.
 * @param {Record<string, string>} given
 */
function hopped(given) {
  const other = SIBLINGS[/** @type {keyof typeof SIBLINGS} */ (location.hostname)];
  if (!other || given.hop === "2" || location.protocol !== "http:") return false;
  const hop = Number(given.hop ?? 0) + 1;
  location.replace(`http://${other}:${location.port}/${to("/oauth-callback", { ...given, hop })}`);
  return true;
}

/** Finish in this tab if the tab that started the sign-in is closed and the session is the same. @param {{given: Record<string, string>, address: string}} props */
function Finish({ given, address }) {
  const [error, setError] = useState(/** @type {unknown} */ (undefined));
  const finish = async () => {
    const state = given.state ?? "";
    try {
      const account = await oauth.finishThere(oauth.brought(given));
      oauth.tell(state, { account });
      oauth.connected(account);
    } catch (problem) {
      if (oauth.isUnknown(problem) && hopped(given)) return;
      oauth.tell(state, { error: problem });
      setError(problem);
    }
  };
  useEffect(() => void finish(), []);
  if (error === undefined) return html`<${Busy} what="the mailbox" />`;
  return html`<${Problem} error=${error} /><p><a href=${to("/mailboxes/connect")}>Start again</a></p>
    <p>If you started in a terminal, paste this there:</p><${Snippet} text=${address} label="Address" />`;
}
