// @ts-check
/** Connecting a mailbox: the address, then its servers as they were found or as one knows them, or by its provider's own sign-in. */
import * as accounts from "../../accounts.js";
import * as api from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { to } from "../../router.js";
import { Title } from "../../title.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { connected, ProviderSignIn } from "./provider-sign-in.js";
import { Checks, LoginFields, Servers, serversOf, valuesOf } from "./servers.js";

/** @typedef {import("./servers.js").Candidate} Candidate */
/** @typedef {{email: string, candidates: Candidate[], note: string}} Known what is known after the first step */

export default function Connect() {
  const [known, setKnown] = useState(/** @type {Known | null} */ (null));
  const [email, setEmail] = useState("");
  const back = (/** @type {string} */ last) => {
    setEmail(last);
    setKnown(null);
  };
  return html`<${Title}>Connect a mailbox<//>
    ${
      known
        ? html`<${SignIn} known=${known} back=${back} />`
        : html`<${FirstStep} email=${email} onDone=${setKnown} /><${ProviderSignIn} />`
    }
    <p><a href=${to("/mailboxes")}>Back to the mailboxes</a></p>`;
}

/** @param {{email: string, onDone: (known: Known) => void}} props */
function FirstStep({ email: start, onDone }) {
  const form = useForm({ email: start }, async ({ email }) => onDone(await discovered(email.trim())));
  const byHand = () => onDone({ email: form.values.email.trim(), candidates: [], note: "" });
  const hand = html`<button type="button" class="secondary outline" onClick=${byHand}>Enter the servers by hand</button>`;
  return html`<section class="narrow">
    <p>Its mail stays on its server. The appliance keeps an encrypted copy, so that it can be searched and read quickly.</p>
    <${Form} of=${form} action="Find the servers" busy="Looking …" more=${hand} label="Connect a mailbox">
      <${Field} of=${form} name="email" label="Email address of the mailbox" type="email" autocomplete="email" autofocus required />
    <//>
  </section>`;
}

/** What is found about the servers of an address. @param {string} email @returns {Promise<Known>} */
async function discovered(email) {
  const { data } = await api.ask("POST", "/accounts/discover", { body: { email } }).catch(missing);
  const candidates = data?.candidates ?? [];
  const found =
    data === null
      ? "This appliance cannot look servers up."
      : `Nothing was found out about ${email.split("@").at(-1)}.`;
  const note = `${found} The provider tells them, mostly under “IMAP” or “other mail programs”.`;
  return { email, candidates, note: candidates.length ? "" : note };
}

/** An appliance that does not know the question is not a fault. @param {unknown} error @returns {{data: any}} */
function missing(error) {
  if (error instanceof api.ApiError && [404, 405].includes(error.status)) return { data: null };
  throw error;
}

/** @param {{known: Known, back: (email: string) => void}} props */
function SignIn({ known, back }) {
  const { candidates, note } = known;
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => heading.current?.focus(), []);
  const start = {
    ...valuesOf(candidates[0]),
    email: known.email,
    username: known.email,
    smtpUsername: known.email,
    displayName: "",
  };
  const form = useForm(start, connect);
  const again = html`<button type="button" class="secondary outline" onClick=${() => back(form.values.email)}>Use another address</button>`;
  return html`<section class="form-page">
    <h2 ref=${heading} tabindex="-1">Sign in to ${known.email || "the mailbox"}</h2>
    ${note && html`<p class="warning">${note}</p>`}
    <${Form} of=${form} action="Connect" busy="Trying both logins …" more=${again} label="Sign in to the mailbox">
      ${candidates.length > 0 && html`<${Found} candidates=${candidates} form=${form} />`}
      ${!known.email && html`<${Field} of=${withLogin(form)} name="email" label="Email address" type="email" autocomplete="email" required />`}
      <${LoginFields} of=${form} hint="Some providers want an “app password”, which you make on their site, in place of your own." />
      <${Servers} of=${form} isOpen=${candidates.length === 0}>Servers<//>
      <${Field} of=${form} name="displayName" label="Name of the mailbox (optional)" hint="As it is shown here, such as “Office”." />
      <${Checks} of=${form} />
    <//>
  </section>`;
}

/** The user names follow the address until one types another. @param {import("./servers.js").FormState} form @returns {import("./servers.js").FormState} */
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
    form.set(valuesOf(/** @type {Candidate} */ (candidates[index])));
  };
  return html`<fieldset>
    <legend>${candidates.length > 1 ? "Several ways were found; the first is the most likely:" : "This was found:"}</legend>
    ${candidates.map(
      ({ imap, smtp }, index) => html`<label key=${index}>
        <input type="radio" name="candidate" checked=${index === chosen} onChange=${() => choose(index)} />
        ${[...new Set([imap.host, smtp.host])].join(" and ")}
      </label>`,
    )}
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
