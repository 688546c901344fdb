// @ts-check
/** Forwarding a message unchanged, with a comment. */
import { html, useLayoutEffect, useState } from "../../html.js";
import { guard, to } from "../../router.js";
import { useShared } from "../../shared.js";
import { Check, Field } from "../../ui/form.js";
import { Time, Title } from "../../ui/values.js";
import * as words from "../../words.js";
import { filesOf, Handing, Preview, whyStay } from "./handing.js";
import { given, isAddressed, Recipients, toldOf } from "./recipients.js";
import { Sending } from "./sending.js";
import { messagePath } from "./start.js";

/** @typedef {{to: any[], cc: any[], comment: string, includeAttachments: boolean}} Values */

/** @param {{start: import("./start.js").Start}} props */
export function Forward({ start: { original, title, values: nothing } }) {
  const { accountId } = nothing;
  const [values, setValues] = useState({ to: [], cc: [], comment: "", includeAttachments: true });
  const [sending] = useState(() => new Sending(original.id));
  const [latest] = useState({ values });
  const [isOpen, setOpen] = useState(false);
  const { error } = useShared(sending.state);
  const set = (/** @type {Partial<typeof values>} */ changed) => {
    latest.values = { ...latest.values, ...changed };
    setValues(latest.values);
  };
  useLayoutEffect(() => guard(() => whyStay(sending, isBegun(latest.values))), []);
  const ready = (/** @type {() => unknown} */ then) => () => {
    if (isAddressed(() => [...latest.values.to, ...latest.values.cc])) then();
  };
  const asked = () => requestOf(accountId, original.id, latest.values);
  const send = (/** @type {string} */ digest = "") => {
    setOpen(false);
    void sending.send(async () => ({ ...asked(), digest }));
  };
  const errors = toldOf(error);
  const form = /** @type {any} */ ({ values, errors, set });
  const files = filesOf(original);
  return html`
    <${Title}>${title}<//>
    <section class="compose" aria-label="Forward">
      <fieldset disabled=${sending.isOpen}>
        <${Recipients} label="To" of=${form} name="to" autofocus />
        <${Recipients} label="Cc" of=${form} name="cc" />
        <${Field} of=${form} name="comment" label="Your message" rows=${5} />
        <article class="original" aria-label="Forwarded message">
          <p><strong>${original.subject || "No subject"}</strong><br /><small>${original.from ? words.person(original.from) : "Unknown sender"}, <${Time} at=${original.date} /></small></p>
          <p class="muted">${original.snippet}</p>
          ${files && html`<${Check} of=${form} name="includeAttachments" label=${`Include attachments: ${files}`} />`}
        </article>
      </fieldset>
      <${Handing} sending=${sending} accountId=${accountId} />
      ${
        !sending.isOpen &&
        html`<div class="actions">
        <button type="button" onClick=${ready(() => send())}>Forward</button>
        <button type="button" class="secondary" onClick=${ready(() => setOpen(true))}>Preview</button>
        <a role="button" class="secondary outline" href=${to("/compose", { account: accountId, forward: original.id, as: "message" })}>Edit or schedule</a>
      </div>`
      }
    </section>
    ${isOpen && html`<${Preview} onClose=${() => setOpen(false)} onSend=${send} prepare=${async () => asked()} />`}`;
}

/** @param {Values} values */
function isBegun({ to, cc, comment }) {
  return Boolean(to.length || cc.length || comment.trim());
}

/** @param {string} accountId @param {string} id @param {Values} values @returns {import("./sending.js").Request} */
function requestOf(accountId, id, { to, cc, comment, includeAttachments }) {
  const body = { to: given(to), cc: given(cc), includeAttachments, ...(comment.trim() && { comment }) };
  return { accountId, path: `${messagePath(accountId, id)}/forward`, body, mark: JSON.stringify(body), isDraft: false };
}
