// @ts-check
/** The page on which administrators manage a member. */
import * as api from "../../api.js";
import { html, useState } from "../../html.js";
import { go, to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { sure } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { attempt, done } from "../../ui/notices.js";
import { Time, Title } from "../../ui/values.js";
import { OneTimeLink } from "../credentials.js";
import { besideEmail, ROLES, StateOf } from "./members.js";
import { Sessions } from "./sessions.js";

/** @typedef {import("./members.js").Member} Member */

/** @param {{params: Record<string, string>}} props */
export default function Page({ params }) {
  const id = params.memberId ?? "";
  const me = useShared(session.member);
  const member = useLoad(
    async (signal) => /** @type {Member} */ (await api.get(api.at`/admin/members/${id}`, undefined, signal)),
    [id],
  );
  return html`
    <${Title}>${member.data?.name ?? "Member"}<//>
    <p><a href=${to("/members")}>All members</a></p>
    <${Loaded} of=${member} what="the member">${(/** @type {Member} */ data) => html`
      <${One} key=${data.id} member=${data} isMe=${data.id === me?.id} onChanged=${member.set} onReload=${member.reload} />`}<//>`;
}

/** @param {{member: Member, isMe: boolean, onChanged: (member: Member) => void, onReload: () => void}} props */
function One({ member, isMe, onChanged, onReload }) {
  const { createdAt, lastLoginAt, invitation } = member;
  return html`
    <p><${StateOf} member=${member} /> <span class="muted">Member since <${Time} at=${createdAt} exact />,
      ${lastLoginAt ? html` signed in <${Time} at=${lastLoginAt} ago />` : " never signed in"}${
        invitation && html`, invitation expires <${Time} at=${invitation.expiresAt} exact />`
      }</span></p>
    <${Details} member=${member} onChanged=${onChanged} />
    ${
      isMe
        ? html`<p>This is you. Your password and sessions are in <a href=${to("/profile")}>your profile</a>.</p>`
        : html`<${LettingIn} member=${member} onReload=${onReload} />
          <${Sessions} key=${member.status} path=${api.at`/admin/members/${member.id}/sessions`} whose=${`${member.name}'s`} />
          <${ShuttingOut} member=${member} onChanged=${onChanged} />`
    }`;
}

/** @param {{member: Member, onChanged: (member: Member) => void}} props */
function Details({ member, onChanged }) {
  const { name, email, role } = member;
  const form = useForm({ name, email, role }, async (values) => {
    if (values.role !== role && !(await sure(roleQuestion(member, values.role)))) return;
    onChanged(await besideEmail(api.patch(api.at`/admin/members/${member.id}`, values)));
    if (session.member.value?.id === member.id) session.update((await api.get("/me")).member);
    done("Saved.");
  });
  return html`<section class="narrow topic"><h2>Name, email and role</h2>
    <${Form} of=${form} action="Save" label="Name, email and role">
      <${Field} of=${form} name="name" label="Name" autocomplete="off" required />
      <${Field} of=${form} name="email" label="Email" type="email" autocomplete="off" required hint="They sign in with it." />
      <${Field} of=${form} name="role" label="Role" options=${ROLES} />
    <//></section>`;
}

/** @param {Member} member @param {string} role */
function roleQuestion({ name }, role) {
  return role === "admin"
    ? {
        title: `Make ${name} an administrator?`,
        text: "Administrators can manage everything and can remove your administrator role.",
        action: "Make administrator",
      }
    : {
        title: `Remove administrator role from ${name}?`,
        text: "Their API keys lose administrator permissions too.",
        action: "Remove role",
      };
}

/** @param {{member: Member, onReload: () => void}} props */
function LettingIn({ member, onReload }) {
  const [invitation, setInvitation] = useState(/** @type {import("../credentials.js").Invitation | null} */ (null));
  const hasEnrolled = member.lastLoginAt !== null;
  const path = api.at`/admin/members/${member.id}`;
  const issue = async () => {
    const text =
      "You get a link with which they set a new password; the old one works until then. They see that you reset it.";
    const title = `Reset the password of ${member.name}?`;
    if (hasEnrolled && !(await sure({ title, text, action: "Reset password" }))) return;
    await attempt(async () => {
      setInvitation(await api.post(`${path}/${hasEnrolled ? "password-reset" : "invitation"}`));
      onReload();
    });
  };
  return html`<section class="topic"><h2>Sign-in link</h2>
    ${!hasEnrolled && html`<p>This member has not accepted the invitation yet. A new invitation replaces the previous one.</p>`}
    <button type="button" class="secondary" onClick=${issue}>${hasEnrolled ? "Reset password" : "Invite again"}</button>
    ${
      invitation &&
      html`<${OneTimeLink} title=${`${hasEnrolled ? "Password reset" : "Invitation"} for ${member.name}`} name=${member.name}
        invitation=${invitation} onClose=${() => setInvitation(null)} />`
    }
  </section>`;
}

/** @param {{member: Member, onChanged: (member: Member) => void}} props */
function ShuttingOut({ member, onChanged }) {
  const path = api.at`/admin/members/${member.id}`;
  const isActive = member.status === "active";
  const { name } = member;
  const suspend = async () => {
    const text = "Their sessions end immediately, and their API keys stop working until you reactivate them.";
    if (isActive && !(await sure({ title: `Suspend ${name}?`, text, action: "Suspend", danger: true }))) return;
    await attempt(async () => {
      onChanged(await api.patch(path, { status: isActive ? "suspended" : "active" }));
      done(isActive ? `${name} was suspended.` : `${name} can sign in again.`);
    });
  };
  const remove = async () => {
    const text =
      "Their sessions and API keys are deleted permanently, and their scheduled messages are not sent. Remove their mailboxes first.";
    if (!(await sure({ title: `Remove ${name}?`, text, action: "Remove member", danger: true }))) return;
    await attempt(async () => {
      await api.remove(path);
      go("/members");
      done(`${name} was removed.`);
    });
  };
  return html`<section class="topic"><h2>Suspend or remove</h2>
    <p>${isActive ? "You can undo a suspension, but not a removal." : "This member cannot sign in, and their API keys do not work."}</p>
    <p class="actions">
      <button type="button" class="secondary" onClick=${suspend}>${isActive ? "Suspend" : "Reactivate"}</button>
      <button type="button" class="danger" onClick=${remove}>Remove</button>
    </p></section>`;
}
