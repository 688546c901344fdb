// @ts-check
/** A one-time link for a member, shown only once. */
import { html } from "../../html.js";
import { Snippet, Time } from "../../ui/values.js";
import { ShownOnce } from "../shown-once.js";

/** The host names of the browser's own computer. */
export const THIS_COMPUTER = ["localhost", "127.0.0.1", "[::1]"];

/** @typedef {{token: string, url: string, expiresAt: string}} Invitation */

/** @param {{title: string, name: string, invitation: Invitation, onClose: () => void}} props */
export function OneTimeLink({ title, name, invitation, onClose }) {
  const isOnlyHere = THIS_COMPUTER.includes(new URL(invitation.url).hostname);
  return html`<${ShownOnce} title=${title} what="link" onClose=${onClose}>
    <p>Send this link to ${name} privately: the first person who opens it can use it. <strong>It is shown only once</strong>,
      is single-use, and expires on <${Time} at=${invitation.expiresAt} exact />.</p>
    <${Snippet} label="Link" text=${invitation.url} />
    ${
      isOnlyHere &&
      html`<div class="warning"><p>This link works only on this computer. For other computers, turn on HTTPS in the settings, then create a new link.</p></div>`
    }
  <//>`;
}
