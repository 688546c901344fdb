// @ts-check
/** A password by a link that is good once: an invitation, or a reset. */
import * as api from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { go, to } from "../router.js";
import { HOME } from "../routes.js";
import * as session from "../session.js";
import { useShared } from "../shared.js";
import { Title } from "../title.js";
import { Form, useForm } from "../ui/form.js";
import { done } from "../ui/notices.js";
import { NewPassword } from "./new-password.js";
import { deviceName } from "./sign-in.js";

/** @typedef {{title: string, text: string, path: string, done: string, again: string}} Kind */
/** @type {Record<string, Kind>} */
const KINDS = {
  enroll: {
    title: "Welcome",
    text: "You were invited. Choose a password; you sign in with it and the email that whoever invited you gave.",
    path: "/auth/enroll",
    done: "Welcome.",
    again: "Invitations are good once, for 7 days.",
  },
  reset: {
    title: "Choose a new password",
    text: "With it you are signed in here, and signed out everywhere else.",
    path: "/auth/password-reset",
    done: "Your password is changed.",
    again: "Such links are good once, for 24 hours.",
  },
};

/** @param {{query: Record<string, string>}} props */
export default function Enroll({ query }) {
  const [given, setGiven] = useState({ kind: query.kind ?? "", token: query.token ?? "" });
  useEffect(() => {
    if (!query.token) return;
    setGiven({ kind: query.kind ?? "", token: query.token });
    go("/enroll", { kind: query.kind }, { replace: true }); // it lets in whoever reads it
  }, [query.token]);
  const kind = KINDS[given.kind];
  if (!kind || !given.token) return html`<${Incomplete} />`;
  return html`<${Choose} key=${given.token} kind=${kind} token=${given.token} />`;
}

function Incomplete() {
  return html`<section class="narrow">
    <${Title}>Open your link once more<//>
    <p>This page needs the whole link that you were sent, which is not kept when it is reloaded.</p>
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
    session.start(data); // the page is loaded anew where somebody else was signed in
    if (session.member.value?.id !== data.member.id) return;
    go(HOME, {}, { replace: true });
    done(`${kind.done} You sign in as ${data.member.email}.`);
  });
  const isUsed = form.error instanceof api.ApiError && form.error.code === "invalid_token";
  return html`<section class="narrow">
    <${Title}>${kind.title}<//>
    <p>${kind.text}</p>
    ${before && html`<div class="warning"><p>You are signed in as ${before.email}. The link signs you in as whom it was made for.</p></div>`}
    <${Form} of=${form} action="Choose this password" label=${kind.title}>
      <${NewPassword} of=${form} autofocus />
    <//>
    ${isUsed && html`<p>${kind.again} If you have used this one, <a href=${to("/sign-in")}>sign in</a>; else ask an administrator for another.</p>`}
  </section>`;
}
