// @ts-check
/** Sign-in, as a page and as the form in the dialog for an ended session. */
import * as api from "../api.js";
import { html } from "../html.js";
import { go, place } from "../router.js";
import { HOME } from "../routes.js";
import * as session from "../session.js";
import { Field, Form, useForm } from "../ui/form.js";
import { Title } from "../ui/values.js";

/** @param {{email?: string, onDone?: () => void}} props `email`: of the member whose session has ended */
export function SignInForm({ email = "", onDone }) {
  const form = useForm({ email, password: "" }, async ({ email, password }) => {
    const body = { email, password, deviceName: deviceName() };
    const { data } = await api.ask("POST", "/auth/login", { body, isAnonymous: true });
    session.start(data);
    onDone?.();
  });
  return html`<${Form} of=${form} action="Sign in" label="Sign in">
    <${Field} of=${form} name="email" label="Email" type="email" required autocomplete="username" readonly=${Boolean(email)} autofocus=${!email} />
    <${Field} of=${form} name="password" label="Password" type="password" required autocomplete="current-password" autofocus=${Boolean(email)} />
  <//>`;
}

export default function SignIn() {
  const goOn = () => {
    if (place.value.path === "/sign-in") go(HOME, {}, { replace: true });
  };
  return html`<section class="narrow">
    <${Title}>Sign in<//>
    <${SignInForm} onDone=${goOn} />
    <p><small>No password yet, or forgotten it? An administrator of this appliance can send you a link.</small></p>
  </section>`;
}

/** The name of this browser in the list of sessions. */
export function deviceName() {
  const agent = navigator.userAgent;
  const browser = ["Firefox", "Edg", "OPR", "Chrome", "Safari"].find((name) => agent.includes(`${name}/`)) ?? "Browser";
  const system = ["Windows", "Android", "iPhone", "iPad", "Mac OS", "Linux"].find((name) => agent.includes(name));
  const called = { Edg: "Edge", OPR: "Opera" }[browser] ?? browser;
  return `Console, ${called}${system ? ` on ${system === "Mac OS" ? "macOS" : system}` : ""}`;
}
