// @ts-check
/** The profile of the member: name, password, sessions and activity. */
import * as api from "../api.js";
import { html, useState } from "../html.js";
import * as session from "../session.js";
import { useShared } from "../shared.js";
import { isOn } from "../shortcuts.js";
import { Field, Form, useForm } from "../ui/form.js";
import { useLoad } from "../ui/load.js";
import { done } from "../ui/notices.js";
import { Copy, Title, Warnings } from "../ui/values.js";
import { AuditTrail } from "./audit.js";
import { beside, NewPassword } from "./credentials.js";
import { Sessions } from "./members/sessions.js";

export default function Page() {
  const me = useShared(session.member);
  const [passwords, setPasswords] = useState(0); // a change ends sessions, so the list is loaded again
  if (me === null) return null;
  return html`
    <${Title}>Profile<//>
    <p>You sign in as <strong>${me.email}</strong>${me.role === "admin" && ". You are an administrator"}. ${me.role !== "admin" && "An administrator can change this address."}</p>
    <p>Your member ID, for people who share a mailbox with you: <code>${me.id}</code> <${Copy} text=${me.id} /></p>
    <${Told} />
    <${Name} me=${me} />
    <${Password} me=${me} onChanged=${() => setPasswords(passwords + 1)} />
    <${Sessions} key=${passwords} path="/me/sessions" whose="your other" />
    <${Keyboard} />
    <${AuditTrail} me=${me.id} />`;
}

/** Warnings about recent actions of others on this account. */
function Told() {
  const { data: warnings } = useLoad(async (signal) => (await api.ask("GET", "/me", { signal })).warnings, []);
  if (!warnings?.length) return null;
  return html`<div role="status"><${Warnings} of=${warnings} /></div>`;
}

/** @param {{me: session.Member}} props */
function Name({ me }) {
  const form = useForm({ name: me.name }, async ({ name }) => {
    session.update(await api.patch("/me", { name }));
    done("Your name was changed.");
  });
  return html`<section class="narrow topic"><h2>Name</h2>
    <${Form} of=${form} action="Change name" label="Name"><${Field} of=${form} name="name" label="Your name" autocomplete="name" required /><//></section>`;
}

/** @param {{me: session.Member, onChanged: () => void}} props */
function Password({ me, onChanged }) {
  const start = { currentPassword: "", newPassword: "" };
  const form = useForm(start, async (values) => {
    const asked = api.post("/me/password", values);
    await beside(asked, "invalid_credentials", "/currentPassword", "This is not your current password.");
    form.set(start);
    onChanged();
    done("Your password was changed.");
  });
  return html`<section class="narrow topic"><h2>Password</h2>
    <p>Changing it ends your other sessions. Your API keys keep working.</p>
    <${Form} of=${form} action="Change password" label="Password">
      <input type="email" autocomplete="username" value=${me.email} readonly hidden />
      <${Field} of=${form} name="currentPassword" label="Current password" type="password" autocomplete="current-password" required />
      <${NewPassword} of=${form} name="newPassword" label="New password" />
    <//></section>`;
}

function Keyboard() {
  const on = useShared(isOn);
  return html`<section class="topic"><h2>Keyboard shortcuts</h2>
    <p><label><input type="checkbox" role="switch" checked=${on} onChange=${() => isOn.set(!on)} /> Use single-key shortcuts, such as <kbd>c</kbd> to
      write. Press <kbd>?</kbd> to see them all</label></p></section>`;
}
