// @ts-check
/** Setting a password with a one-time link: an invitation or a password reset. */
import * as api from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { go, to } from "../router.js";
import { HOME } from "../routes.js";
import * as session from "../session.js";
import { useShared } from "../shared.js";
import { Form, useForm } from "../ui/form.js";
import { done } from "../ui/notices.js";
import { Title } from "../ui/values.js";
import { NewPassword } from "./credentials.js";
import { deviceName } from "./sign-in.js";

/** @typedef {{title: string, text: string, path: string, done: string, again: string}} Kind */
/** @type {Record<string, Kind>} */
const KINDS = {
  enroll: {
    title: "Welcome",
    text: "You were invited to this appliance. Set a password. You sign in with it and the email address of your invitation.",
    path: "/auth/enroll",
    done: "Welcome.",
    again: "Invitations are single-use and expire after 7 days.",
  },
  reset: {
    title: "Set a new password",
    text: "You will be signed in here and signed out everywhere else.",
    path: "/auth/password-reset",
    done: "Your password was changed.",
    again: "Password reset links are single-use and expire after 24 hours.",
  },
};

/** @param {{query: Record<string, string>}} props */
export default function Enroll({ query }) {
  const [given, setGiven] = useState({ kind: query.kind ?? "", token: query.token ?? "" });
  useEffect(() => {
    if (!query.token) return;
    setGiven({ kind: query.kind ?? "", token: query.token });
    go("/enroll", { kind: query.kind }, { replace: true }); // the token in the address signs in anyone who reads it
  }, [query.token]);
  const kind = KINDS[given.kind];
  if (!kind || !given.token) return html`<${Incomplete} />`;
  return html`<${Choose} key=${given.token} kind=${kind} token=${given.token} />`;
}

function Incomplete() {
  return html`<section class="narrow">
    <${Title}>Open your link again<//>
    <p>This page needs the complete link that you were sent. The link is lost when the page is reloaded.</p>
    <p><a href=${to("/sign-in")}>Sign in with a password</a></p>
  </section>`;
}

/** @param {{kind: Kind, token: string}} props */
function Choose({ kind, token }) {
  const before = useShared(session.member);
  const form = useForm({ password: "" }, async ({ password }) => {
    const body = { token, password, deviceName: deviceName() };
    const { data } = await api.ask("POST", kind.path, { body, isAnonymous: true });
    history.replaceState(null, "", to(HOME));
    session.start(data); // this reloads the page if another member was signed in
    if (session.member.value?.id !== data.member.id) return;
    go(HOME, {}, { replace: true });
    done(`${kind.done} You sign in as ${data.member.email}.`);
  });
  const isUsed = form.error instanceof api.ApiError && form.error.code === "invalid_token";
  return html`<section class="narrow">
    <${Title}>${kind.title}<//>
    <p>${kind.text}</p>
    ${before && html`<div class="warning"><p>You are signed in as ${before.email}. This link signs you in as the person it was created for.</p></div>`}
    <${Form} of=${form} action="Set password" label=${kind.title}>
      <${NewPassword} of=${form} autofocus />
    <//>
    ${isUsed && html`<p>${kind.again} If you have used this link, <a href=${to("/sign-in")}>sign in</a>. Otherwise, ask an administrator for a new one.</p>`}
  </section>`;
}
