// @ts-check
/** The list of members, and invitations. */
import * as api from "../../api.js";
import { html, useState } from "../../html.js";
import { to } from "../../router.js";
import * as session from "../../session.js";
import { useShared } from "../../shared.js";
import { Dialog } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { Badge, Time, Title } from "../../ui/values.js";
import { beside, OneTimeLink } from "../credentials.js";

/**
 * @typedef {object} Member
 * @property {string} id
 * @property {string} name
 * @property {string} email
 * @property {"admin" | "member"} role
 * @property {"active" | "suspended"} status
 * @property {string} createdAt
 * @property {string | null} lastLoginAt
 * @property {{expiresAt: string} | null} invitation
 */
/** @typedef {{member: Member, invitation: import("../credentials.js").Invitation}} Invited */

/** @type {[string, string][]} */
export const ROLES = [
  ["member", "Member: uses mailboxes"],
  ["admin", "Administrator: also manages members, keys, settings and backups"],
];

export default function Page() {
  const me = useShared(session.member);
  const members = useLoad(
    async (signal) => /** @type {Member[]} */ (await api.get("/admin/members", undefined, signal)),
    [],
  );
  const [isInviting, setInviting] = useState(false);
  const [invited, setInvited] = useState(/** @type {Invited | null} */ (null));
  const take = (/** @type {Invited} */ answer) => {
    setInviting(false);
    setInvited(answer);
    void members.reload();
  };
  return html`
    <${Title} actions=${html`<button type="button" onClick=${() => setInviting(true)}>Invite a member</button>`}>Members<//>
    <${Loaded} of=${members} what="the members">${(/** @type {Member[]} */ list) => html`
      <ul class="lines">${list.map((one) => html`<${Row} key=${one.id} member=${one} isMe=${one.id === me?.id} />`)}</ul>
      ${list.length === 1 && html`<p>You are the only member.</p>`}`}<//>
    ${isInviting && html`<${Invite} onDone=${take} onClose=${() => setInviting(false)} />`}
    ${
      invited &&
      html`<${OneTimeLink} title=${`Invitation for ${invited.member.name}`} name=${invited.member.name}
        invitation=${invited.invitation} onClose=${() => setInvited(null)} />`
    }`;
}

/** @param {{member: Member, isMe: boolean}} props */
function Row({ member, isMe }) {
  return html`<li>
    <div><h2><a href=${to(api.at`/members/${member.id}`)}>${member.name}</a>${isMe && " (you)"}</h2><p>${member.email}</p></div>
    <p><${StateOf} member=${member} /></p>
    <p class="muted">${member.lastLoginAt ? html`Signed in <${Time} at=${member.lastLoginAt} ago />` : "Never signed in"}</p>
  </li>`;
}

/** In words: role, and what keeps somebody from signing in. @param {{member: Member}} props */
export function StateOf({ member }) {
  const [kind, text] =
    member.status === "suspended"
      ? ["bad", "Suspended"]
      : member.lastLoginAt
        ? ["good", "Active"]
        : ["busy", member.invitation ? "Invited" : "Invitation expired"];
  return html`${member.role === "admin" && html`<${Badge}>Administrator<//> `}<${Badge} kind=${kind}>${text}<//>`;
}

/** Show the error for an email address in use beside its field. @param {Promise<any>} asked */
export function besideEmail(asked) {
  return beside(asked, "email_taken", "/email", "Another member already uses this email address.");
}

/** @param {{onDone: (answer: Invited) => void, onClose: () => void}} props */
function Invite({ onDone, onClose }) {
  const form = useForm({ name: "", email: "", role: "member" }, async (values) =>
    onDone(await besideEmail(api.post("/admin/members", values))),
  );
  return html`<${Dialog} title="Invite a member?" onClose=${onClose}>
    <${Form} of=${form} action="Invite member" label="Invite a member">
      <${Field} of=${form} name="name" label="Name" autocomplete="off" autofocus required />
      <${Field} of=${form} name="email" label="Email" type="email" autocomplete="off" required hint="They sign in with it." />
      <${Field} of=${form} name="role" label="Role" options=${ROLES} />
    <//>
  <//>`;
}
