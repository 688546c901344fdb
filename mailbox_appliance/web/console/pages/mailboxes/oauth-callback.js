// @ts-check
/** Where a provider's sign-in comes back to, in the tab that was opened for it. */
import { html, useEffect, useState } from "../../html.js";
import { go, to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { Title } from "../../title.js";
import { Busy, Problem } from "../../ui/load.js";
import { Snippet } from "../../ui/values.js";
import * as oauth from "./oauth.js";
import { connected } from "./provider-sign-in.js";

/** @param {{query: Record<string, string>}} props */
export default function Callback({ query }) {
  const [given] = useState(query);
  const [address] = useState(location.href);
  const member = useShared(session.member);
  const [outcome, setOutcome] = useState(/** @type {(oauth.Outcome & {isMine?: boolean}) | null} */ (null));
  const take = async () => {
    const elsewhere = given.state ? await oauth.handOver(given) : null;
    setOutcome(elsewhere ?? { isMine: true });
  };
  useEffect(() => {
    if (!given.state && !given.error) return;
    go("/oauth-callback", {}, { replace: true }); // the code is good once, and nobody is to find it in the history
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
  if (!given.state && !given.error)
    return html`<p>No sign-in came back to this address.</p><p><a href=${to("/mailboxes/connect")}>Connect a mailbox</a></p>`;
  if (outcome === null) return html`<${Busy} what="the mailbox" />`;
  if (outcome.account)
    return html`<p role="status">${outcome.account.email} is connected. You can close this tab: the other one goes on.</p>`;
  if (outcome.error) return html`<${Problem} error=${outcome.error} /><p>You can close this tab.</p>`;
  if (member === null)
    return html`<p>Nobody is signed in to the console at this address. Go back to the tab where you began, and paste this there:</p>
      <${Snippet} text=${address} label="Address" />`;
  return html`<${Finish} given=${given} />`;
}

/** The tab that began is gone, but its session is the one of this tab. @param {{given: Record<string, string>}} props */
function Finish({ given }) {
  const [error, setError] = useState(/** @type {unknown} */ (undefined));
  const finish = async () => {
    const state = given.state ?? "";
    try {
      oauth.refuse(given);
      const account = await oauth.finish(oauth.lastProvider(), { state, code: given.code ?? "" });
      oauth.tell(state, { account });
      connected(account);
    } catch (problem) {
      oauth.tell(state, { error: problem });
      setError(problem);
    }
  };
  useEffect(() => void finish(), []);
  if (error === undefined) return html`<${Busy} what="the mailbox" />`;
  return html`<${Problem} error=${error} /><p><a href=${to("/mailboxes/connect")}>Begin anew</a></p>`;
}
