// @ts-check
/** Connecting a mailbox: the address, then its servers, found or entered, or the provider's own sign-in. */
import * as accounts from "../../accounts.js";
import * as api from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { to } from "../../router.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Title } from "../../ui/values.js";
import { connected } from "./oauth.js";
import { ProviderSignIn } from "./provider-sign-in.js";
import { Checks, LoginFields, Servers, serversOf, valuesOf } from "./servers.js";

/** @typedef {import("./servers.js").Candidate} Candidate */
/** @typedef {{source: string, outcome: string}} Source */
/** @typedef {{email: string, candidates: Candidate[], sources: Source[], note: string}} Known the result of the first step */
/** @type {Record<string, string>} */
const SOURCES = {
  table: "Provider list",
  srv: "DNS SRV records",
  autoconfig: "Autoconfiguration",
  mx: "DNS MX records",
  guess: "Common server names",
};

export default function Connect() {
  const [known, setKnown] = useState(/** @type {Known | null} */ (null));
  const form = useForm({ email: "" }, async ({ email }) => setKnown(await discovered(email.trim())));
  const email = form.values.email.trim();
  const byHand = () => setKnown({ email, candidates: [], sources: [], note: "" });
  const back = (/** @type {string} */ last) => {
    form.set({ email: last });
    setKnown(null);
  };
  return html`<${Title}>Connect a mailbox<//>
    ${
      known
        ? html`<${SignIn} known=${known} back=${back} />`
        : html`<${FirstStep} form=${form} byHand=${byHand} /><${ProviderSignIn} wanted=${email ? { email } : {}} />`
    }
    <p><a href=${to("/mailboxes")}>Back to mailboxes</a></p>`;
}

/** @param {{form: import("../../ui/form.js").FormState, byHand: () => void}} props */
function FirstStep({ form, byHand }) {
  const hand = html`<button type="button" class="secondary outline" onClick=${byHand}>Enter servers manually</button>`;
  return html`<section class="narrow">
    <p>The mail stays on its server. The appliance keeps an encrypted copy for fast reading and search.</p>
    <${Form} of=${form} action="Find servers" busy="Searching…" more=${hand} label="Connect a mailbox">
      <${Field} of=${form} name="email" label="Email address" type="email" autocomplete="email" autofocus required />
    <//>
  </section>`;
}

/** Find the servers of an address. @param {string} email @returns {Promise<Known>} */
async function discovered(email) {
  const { candidates, sources } = await api.post("/accounts/discover", { email });
  const note = `No servers were found for ${email.split("@").at(-1)}. Your provider lists them, often under “IMAP” or “other mail programs”.`;
  return { email, candidates, sources, note: candidates.length ? "" : note };
}

/** @param {{known: Known, back: (email: string) => void}} props */
function SignIn({ known, back }) {
  const { candidates, sources, note } = known;
  const provider = candidates.find((one) => one.provider)?.provider;
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => heading.current?.focus(), []);
  const start = {
    ...valuesOf(candidates[0]),
    email: known.email,
    ...namesOf(candidates[0], known.email),
    displayName: "",
  };
  const form = useForm(start, connect);
  const again = html`<button type="button" class="secondary outline" onClick=${() => back(form.values.email)}>Use another address</button>`;
  return html`<section class="form-page">
    <h2 ref=${heading} tabindex="-1">Sign in to ${known.email || "the mailbox"}</h2>
    ${note && html`<p class="warning">${note}</p>`}
    ${sources.length > 0 && html`<details><summary>Where the appliance searched</summary><ul>${sources.map((one, index) => html`<li key=${index}>${SOURCES[one.source]}: ${one.outcome}</li>`)}</ul></details>`}
    ${provider && html`<${ProviderSignIn} only=${provider} wanted=${{ email: known.email }} /><h2>Or sign in with a password</h2>`}
    <${Form} of=${form} action="Connect" busy="Signing in to both servers…" more=${again} label="Sign in to the mailbox">
      ${candidates.length > 0 && html`<${Found} candidates=${candidates} form=${form} />`}
      ${!known.email && html`<${Field} of=${withLogin(form)} name="email" label="Email address" type="email" autocomplete="email" required />`}
      <${LoginFields} of=${form} hint="Some providers require an “app password”, which you create on their site." />
      <${Servers} of=${form} isOpen=${candidates.length === 0}>Servers<//>
      <${Field} of=${form} name="displayName" label="Mailbox name (optional)" hint="Shown in the console, for example “Office”." />
      <${Checks} of=${form} />
    <//>
  </section>`;
}

/** @param {Candidate | undefined} found @param {string} email @returns {{username: string, smtpUsername: string}} */
function namesOf(found, email) {
  return { username: found?.imap.username ?? email, smtpUsername: found?.smtp.username ?? email };
}

/** The form in which the user names follow the address until the person changes them. @param {import("./servers.js").FormState} form @returns {import("./servers.js").FormState} */
function withLogin(form) {
  const isSame = form.values.username === form.values.email;
  return {
    ...form,
    set: ({ email }) => form.set(isSame ? { email, username: email, smtpUsername: email } : { email }),
  };
}

/** @param {{candidates: Candidate[], form: import("./servers.js").FormState}} props */
function Found({ candidates, form }) {
  const [chosen, setChosen] = useState(0);
  const choose = (/** @type {number} */ index) => {
    setChosen(index);
    const found = /** @type {Candidate} */ (candidates[index]);
    form.set({ ...valuesOf(found), ...namesOf(found, form.values.email) });
  };
  const note = candidates[chosen]?.note;
  return html`<fieldset>
    <legend>${candidates.length > 1 ? "Servers found (most likely first):" : "Servers found:"}</legend>
    ${candidates.map(
      ({ source, name, imap, smtp }, index) => html`<label key=${index}>
        <input type="radio" name="candidate" checked=${index === chosen} onChange=${() => choose(index)} />
        ${name && `${name}: `}${[...new Set([imap.host, smtp.host])].join(" and ")} (${SOURCES[source]})
      </label>`,
    )}
    ${note && html`<p class="muted">${note}</p>`}
  </fieldset>`;
}

/** @param {import("./servers.js").Values} values */
async function connect(values) {
  const displayName = values.displayName.trim();
  const body = { email: values.email.trim(), ...(displayName && { displayName }), ...serversOf(values) };
  const account = await api.post("/accounts", body);
  await accounts.reload();
  connected(account);
}
