// @ts-check
/** Setup: the first administrator of a new appliance. */
import * as api from "../api.js";
import { html } from "../html.js";
import { go, to } from "../router.js";
import * as session from "../session.js";
import { Field, Form, useForm } from "../ui/form.js";
import { Loaded, useLoad } from "../ui/load.js";
import { done } from "../ui/notices.js";
import { Title } from "../ui/values.js";
import { beside, NewPassword, THIS_COMPUTER } from "./credentials.js";
import { deviceName } from "./sign-in.js";

export default function SetUp() {
  const about = useLoad(async () => (await api.ask("GET", "/", { isAnonymous: true })).data, []);
  return html`<section class="narrow">
    <${Title}>Set up the appliance<//>
    <${Loaded} of=${about}>${(/** @type {any} */ data) => (data.setupRequired ? html`<${Begin} />` : html`<${Already} />`)}<//>
  </section>`;
}

function Already() {
  return html`<p>This appliance is already set up.</p><p><a role="button" href=${to("/sign-in")}>Sign in</a></p>`;
}

function Begin() {
  const start = { setupCode: "", name: "", email: "", password: "" };
  const form = useForm(start, async (values) => {
    const body = { ...values, setupCode: values.setupCode?.trim(), deviceName: deviceName() };
    const asked = api.ask("POST", "/setup", { body, isAnonymous: true });
    session.start(
      (await beside(asked, "invalid_token", "/setupCode", "This is not the setup code of this appliance.")).data,
    );
    go("/mailboxes/connect", {}, { replace: true });
    done("Your appliance is set up. Next, connect a mailbox.");
  });
  return html`<p>Create the first administrator account.</p>
    ${!THIS_COMPUTER.includes(location.hostname) && html`<${FromAfar} />`}
    <${Form} of=${form} action="Set up" busy="Setting up…" label="Set up">
      <${Field} of=${form} name="setupCode" label="Setup code" autocomplete="off" spellcheck=${false} autofocus required
        hint="Shown in the tray icon’s menu, and in the terminal where the appliance runs." />
      <${WhereTheCodeIs} />
      <${Field} of=${form} name="name" label="Your name" autocomplete="name" required />
      <${Field} of=${form} name="email" label="Your email" type="email" autocomplete="username" required
        hint="You sign in with it. It does not have to be one of your mailboxes." />
      <${NewPassword} of=${form} />
    <//>`;
}

function WhereTheCodeIs() {
  return html`<details>
    <summary>Where do I find the setup code?</summary>
    <p>In the file <code>setup-code</code> in the data directory:</p>
    <ul>
      <li>Linux: <code>~/.local/share/mailbox-appliance</code></li>
      <li>macOS: <code>~/Library/Application Support/mailbox-appliance</code></li>
      <li>Windows: <code>%LOCALAPPDATA%\\mailbox-appliance</code></li>
      <li>Or the directory set with <code>--data-dir</code></li>
    </ul>
    <p>On that computer, <code>mailbox-appliance setup</code> reads the code itself.</p>
  </details>`;
}

function FromAfar() {
  return html`<div class="warning"><p>You can set up the appliance only on the computer it runs on. Open <code>http://127.0.0.1:8025</code> there.</p></div>`;
}
