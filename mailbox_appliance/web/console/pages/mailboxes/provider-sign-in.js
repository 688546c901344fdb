// @ts-check
/** Sign-in on the pages of Google and Microsoft. */
import * as api from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Problem, useLoad } from "../../ui/load.js";
import { Snippet, Time } from "../../ui/values.js";
import * as oauth from "./oauth.js";
import { PROVIDERS } from "./state.js";

/** @typedef {oauth.Provider} Provider */
/** @type {Provider[]} */
const ALL = ["google", "outlook"];

/** @param {{only?: Provider, wanted?: oauth.Wanted}} props `only`: the only provider to offer; `wanted`: the mailbox */
export function ProviderSignIn({ only, wanted = {} }) {
  const section = useRef(/** @type {HTMLElement | null} */ (null));
  const own = (/** @type {any} */ one) => (one?.accountId === wanted.accountId ? one : null);
  const begun = own(useShared(oauth.begun));
  const failed = own(useShared(oauth.failed));
  useEffect(() => () => void (own(oauth.failed.value) && oauth.failed.set(null)), []);
  useEffect(() => {
    if (begun) return () => void setTimeout(() => document.activeElement === document.body && section.current?.focus());
    return undefined; // the panel that had the focus was removed
  }, [begun]);
  return html`<section class="form-page" ref=${section} tabindex="-1">
    ${!only && html`<h2>Or sign in with Google or Microsoft</h2>`}
    ${failed && html`<${Problem} error=${failed.error} />`}
    ${begun ? html`<${begun.userCode ? Code : Waiting} key=${begun.state} begun=${begun} />` : html`<${Choice} providers=${only ? [only] : ALL} wanted=${wanted} />`}
  </section>`;
}

/** @param {{providers: Provider[], wanted: oauth.Wanted}} props */
function Choice({ providers, wanted }) {
  const isAdmin = session.member.value?.role === "admin";
  const apps = useLoad((signal) => configured(isAdmin, signal), [isAdmin]);
  const [error, setError] = useState(/** @type {unknown} */ (undefined));
  const [busy, setBusy] = useState(/** @type {Provider | null} */ (null));
  const begin = async (/** @type {Provider} */ provider, device = false) => {
    if (busy) return;
    setBusy(provider);
    setError(undefined);
    await oauth.begin(provider, { ...wanted, ...(device && { device }) }).catch(setError);
    setBusy(null);
  };
  const offered = providers.filter((one) => apps.data?.[one] !== false);
  const left = providers.filter((one) => !offered.includes(one));
  if (!apps.data && apps.isBusy) return null;
  return html`${
    offered.length > 0 &&
    html`<p>You sign in on the provider’s page. The appliance never sees that password.</p>
      <p class="actions">${offered.map(
        (
          one,
        ) => html`<button key=${one} type="button" class="secondary" aria-disabled=${busy !== null} aria-busy=${busy === one}
          onClick=${() => begin(one)}>Sign in ${wanted.accountId ? "again " : ""}with ${PROVIDERS[one]}</button>`,
      )}</p>
      ${
        offered.includes("outlook") &&
        html`<p><button type="button" class="secondary outline small" onClick=${() => begin("outlook", true)}>Use a Microsoft code on another device</button></p>
        ${providers.length > 1 && html`<p class="muted">For a shared Microsoft mailbox, enter its address above first, then sign in as yourself.</p>`}`
      }`
  }
    ${
      left.length > 0 &&
      html`<p>No OAuth app is set up for ${left.map((one) => PROVIDERS[one]).join(" and ")}.
      ${" "}<a href=${to("/oauth-apps")}>Set one up</a></p>`
    }
    ${error !== undefined && html`<${Problem} error=${error} />`}`;
}

/**
 * Return which providers are set up; empty if the member cannot know.
 * @param {boolean} isAdmin
 * @param {AbortSignal} signal
 * @returns {Promise<Partial<Record<Provider, boolean>>>}
 */
async function configured(isAdmin, signal) {
  if (!isAdmin) return {};
  try {
    const apps = await api.get("/admin/oauth-apps", {}, signal);
    return Object.fromEntries(ALL.map((one) => [one, Boolean(apps[one].clientId)]));
  } catch {
    return {}; // the error appears when the person starts the sign-in
  }
}

/** @param {{begun: oauth.Begun}} props */
function Waiting({ begun }) {
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => panel.current?.focus(), []);
  const name = PROVIDERS[begun.provider];
  const form = useForm({ redirectUrl: "" }, async ({ redirectUrl }) => {
    oauth.connected(await oauth.finish(begun.provider, { redirectUrl }));
  });
  const link = html`<a href=${begun.url} target="_blank" rel="noopener noreferrer">Open the ${name} page</a>`;
  return html`<article ref=${panel} tabindex="-1" aria-label=${`Signing in with ${name}`}>
    <p role="status">${begun.hasTab ? `Continue in the ${name} tab that has opened.` : html`${link} and continue there.`} This page continues automatically when you have finished.</p>
    <p>${begun.hasTab && html`No new tab? ${link}. `}The sign-in expires at <${Time} at=${begun.expiresAt} />.</p>
    <details>
      <summary>The tab shows an error or a page that cannot be reached</summary>
      <p>Copy the complete address of that tab and paste it here.</p>
      <${Form} of=${form} action="Finish sign-in" label="Finish sign-in manually">
        <${Field} of=${form} name="redirectUrl" label="Address of that tab" inputmode="url" autocomplete="off" required />
      <//>
    </details>
    <${Stop} />
  </article>`;
}

function Stop() {
  return html`<footer class="actions"><button type="button" class="secondary outline small" onClick=${() => oauth.begun.set(null)}>Stop waiting</button></footer>`;
}

/** @param {{begun: oauth.Begun}} props */
function Code({ begun }) {
  const panel = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => panel.current?.focus(), []);
  return html`<article ref=${panel} tabindex="-1" aria-label="Signing in with a code">
    <p role="status">Open <a href=${begun.url} target="_blank" rel="noopener noreferrer">${begun.url}</a> on any device and enter this code.
      This page continues automatically when you have agreed.</p>
    <${Snippet} text=${begun.userCode} label="Code" />
    <p class="muted">The code expires at <${Time} at=${begun.expiresAt} />.</p>
    <${Stop} />
  </article>`;
}
