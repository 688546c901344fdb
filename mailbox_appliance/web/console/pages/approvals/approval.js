// @ts-check
/** One approval: who asks, the message as its recipients will see it, what it adds to the thread, and the decision. */
import { nameOf, useAccounts } from "../../accounts.js";
import * as api from "../../api.js";
import { about } from "../../changes.js";
import { html, useRef, useState } from "../../html.js";
import { to } from "../../router.js";
import * as session from "../../session.js";
import { refresh } from "../../status.js";
import { Dialog, sure } from "../../ui/dialog.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Busy, Loaded, Problem, useLoad } from "../../ui/load.js";
import { done, warn } from "../../ui/notices.js";
import { ApiText, Badge, Copy, Facts, Time, Title, Warnings } from "../../ui/values.js";
import * as words from "../../words.js";
import { Attachments, nameOf as fileName, linked, Name, picturesOf, Source, saveBlob } from "../mail/content.js";
import { MailFrame } from "../mail/frame.js";
import { LinkDialog } from "../mail/link.js";
import { changesOf, piecesOf } from "./comparing.js";
import { askedBy, isNew, STATUS, subjectOf } from "./wording.js";

/** @typedef {import("./wording.js").Approval & {warnings: string[]}} Approval */
/** @typedef {import("./wording.js").Person} Person */
/** @typedef {{message: any, texts: string[]}} Parent the message that it answers, with its text in two forms */
/** @typedef {{address: string, text: string}} Link */

const EVERY = 15_000; // milliseconds, without the stream of changes
const MOST_COMPARED = 100_000; // characters

/** @param {{approvalId: string}} props */
export function Opened({ approvalId }) {
  const path = api.at`/approvals/${approvalId}`;
  const isAbout = about("approval");
  const found = useLoad((signal) => api.whole(path, {}, signal), [path], {
    on: (change) => isAbout(change) && change.data.id === approvalId,
    every: EVERY,
  });
  return html`<p><a href=${to("/approvals")}>All approvals</a></p>
    ${!found.data && html`<${Title}>Approval<//>`}
    <${Loaded} of=${found} what="the approval">${(/** @type {Approval} */ approval) => html`<${Shown} approval=${approval} path=${path} set=${found.set} />`}<//>`;
}

/** @param {{approval: Approval, path: string, set: (approval: Approval) => void}} props */
function Shown({ approval, path, set }) {
  const { name, kind, says } = STATUS[approval.status];
  const account = useAccounts().data?.find((one) => one.id === approval.accountId);
  const outcome = useRef(/** @type {HTMLElement | null} */ (null));
  const parent = useParent(approval);
  const download = async (/** @type {any} */ file) => {
    const response = await api.file(`${path}${api.at`/attachments/${file.id}`}`);
    saveBlob(await response.blob(), fileName(file));
  };
  const decided = (/** @type {Approval} */ now) => {
    set(now);
    outcome.current?.focus();
    void refresh();
  };
  return html`<${Title}>${subjectOf(approval)}<//>
    <div class="outcome" role="status" tabindex="-1" ref=${outcome}>
      <p><${Badge} kind=${kind}>${name}<//> ${says} <${Decided} approval=${approval} /></p>
    </div>
    <${Facts} of=${[
      ["Asked by", html`${askedBy(approval)}, <${Time} at=${approval.createdAt} ago />`],
      ["Mailbox", account && nameOf(account)],
      [
        "Reasons",
        html`<ul class="reasons">${approval.reasons.map((one) => html`<li key=${one}><${ApiText} text=${one} /></li>`)}</ul>`,
      ],
      ["Scheduled for", approval.sendAt && html`<${Time} at=${approval.sendAt} exact />`],
      [
        "Expires",
        approval.status === "pending" &&
          html`<${Time} at=${approval.expiresAt} exact /> (<${Time} at=${approval.expiresAt} ago />)`,
      ],
      ["Digest", html`<${Digest} digest=${approval.digest} />`],
    ]} />
    <section aria-labelledby="message"><h2 id="message">The message</h2>
      <${Warnings} of=${approval.warnings} />
      ${approval.warnings.length > 0 && html`<p class="muted">The message is sent as it is, including hidden text. The raw message shows all of it.</p>`}
      <div class="mail-head"><${Facts} of=${[
        ["From", html`<${Name} person=${approval.from} />`],
        ["To", people(approval, approval.to)],
        ["Cc", people(approval, approval.cc)],
        [
          "Bcc",
          approval.bcc.length > 0 &&
            html`${people(approval, approval.bcc)} <small class="muted">(hidden from other recipients)</small>`,
        ],
        ["Subject", words.straight(subjectOf(approval))],
      ]} /></div>
      ${approval.bodyText === undefined ? html`<p class="muted">The text is shown only while the message waits.</p>` : html`<${Message} approval=${approval} path=${path} parent=${parent.data} />`}
      <${Attachments} of=${approval.attachments} onDownload=${download} heading="h3" />
    </section>
    ${approval.parentMessageId && html`<${Since} approval=${approval} parent=${parent} />`}
    ${approval.status === "pending" && html`<${Decide} approval=${approval} path=${path} onDecided=${decided} isOwner=${account?.ownerMemberId === session.member.value?.id} />`}`;
}

/** @param {{approval: Approval}} props */
function Decided({ approval: { status, accountId, decidedAt, decidedBy } }) {
  if (decidedAt === null) return null;
  const who = decidedBy === session.member.value?.id ? "By you" : "By another member";
  return html`${who}, <${Time} at=${decidedAt} exact />. ${status === "approved" && html`<a href=${to(api.at`/deliveries/${accountId}`)}>Show deliveries</a>`}`;
}

/** The first digits of a digest, and all of them on demand. @param {{digest: string}} props */
function Digest({ digest }) {
  return html`<details class="digest"><summary><code>${digest.slice(0, 19)}…</code></summary>
    <code>${digest}</code> <${Copy} text=${digest} label="Copy digest" />
    <small>SHA-256 of exactly the bytes that are sent. You approve these and no others.</small></details>`;
}

/** @param {Approval} approval @param {Person[]} those */
function people(approval, those) {
  if (!those.length) return null;
  return html`<ul class="recipients">${those.map(
    (one) =>
      html`<li key=${one.email}><${Name} person=${one} />${isNew(approval, one.email) && html` <${Badge} kind="bad">New recipient<//>`}</li>`,
  )}</ul>`;
}

// --- The message in the same sandbox as received mail, as text with its quotes folded, and as it is sent ---

/** @param {{approval: Approval, path: string, parent?: Parent | null}} props */
function Message({ approval, path, parent }) {
  const source = approval.bodyHtml;
  const [form, setForm] = useState(source ? "html" : "text");
  const [link, setLink] = useState(/** @type {Link | null} */ (null));
  const [remote, setRemote] = useState(0);
  /** @type {[form: string, label: string][]} */
  const forms = [
    ["text", "Text"],
    ["source", "Raw message"],
  ];
  if (source) forms.unshift(["html", "Formatted"]);
  const elsewhere = remote
    ? [`${words.count(remote, "picture was", "pictures were")} not loaded from other servers.`]
    : [];
  return html`<div role="group" class="mail-forms" aria-label="Message view">${forms.map(
    ([key, label]) =>
      html`<button key=${key} type="button" class="secondary outline small" aria-pressed=${key === form} onClick=${() => setForm(key)}>${label}</button>`,
  )}</div>
    ${
      form === "html" &&
      html`<${Warnings} of=${elsewhere} />
      <${MailFrame} source=${source} name=${`Message: ${words.straight(subjectOf(approval))}`} pictures=${picturesOf(approval.attachments, path)} onLink=${setLink} onPicture=${() => undefined} onRemote=${setRemote} />`
    }
    ${form === "text" && html`<div class="mail-text"><${Text} text=${approval.bodyText} parent=${parent} onLink=${setLink} /></div>`}
    ${form === "source" && html`<${Source} path=${`${path}/raw`} />`}
    ${link && html`<${LinkDialog} link=${link} accountId=${approval.accountId} onClose=${() => setLink(null)} />`}`;
}

/** A text whose quotes of the earlier message are folded. @param {{text?: string, parent?: Parent | null, onLink: (link: Link) => void, isNewOnly?: boolean}} props */
function Text({ text = "", parent, onLink, isNewOnly = false }) {
  if (!text.trim()) return html`<span class="muted">This message has no text.</span>`;
  const pieces = piecesOf(text, parent?.texts ?? []).filter((one) => !(isNewOnly && one.isKnown));
  return pieces.map(({ text: piece, isQuoted, isKnown }, index) => {
    if (isKnown)
      return html`<details key=${index}><summary>Quoted text (${words.count(piece.split("\n").length, "line")})</summary>${linked(piece, onLink)}</details>`;
    const isForeign = isQuoted && parent;
    return html`<div key=${index}>${isForeign && html`<small class="wrong">Marked as a quote, but not in the message that it answers:</small>`}${linked(piece, onLink)}</div>`;
  });
}

// --- What changed since the message that it answers ---

/** @param {Approval} approval @returns {import("../../ui/load.js").Loading<Parent | null>} */
function useParent({ accountId, parentMessageId }) {
  return useLoad(
    async (signal) => {
      if (!parentMessageId) return null;
      const path = api.at`/accounts/${accountId}/messages/${parentMessageId}`;
      const [message, ...bodies] = await Promise.all([
        api.get(path, {}, signal),
        ...["text", "markdown"].map((format) => api.get(`${path}/body`, { format, limit: MOST_COMPARED }, signal)),
      ]);
      return { message, texts: bodies.map(({ content }) => content) };
    },
    [accountId, parentMessageId],
  );
}

/** @param {{approval: Approval, parent: import("../../ui/load.js").Loading<Parent | null>}} props */
function Since({ approval, parent: { data, error, reload } }) {
  const [link, setLink] = useState(/** @type {Link | null} */ (null));
  const isForward = approval.kind === "forward";
  return html`<section aria-labelledby="since"><h2 id="since">${isForward ? "The forwarded message" : "What changed since the previous message"}</h2>
    ${data === undefined && error === undefined && html`<${Busy} what="the previous message" />`}
    <${Problem} error=${error} again=${reload} />
    ${
      data &&
      html`<p>${data.message.from ? html`<${Name} person=${data.message.from} />` : "Unknown sender"}, <${Time} at=${data.message.date} exact />:${" "}
        <a href=${to(api.at`/mail/${approval.accountId}/${data.message.id}`)}>${words.straight(data.message.subject) || "No subject"}</a></p>
      ${
        !isForward &&
        html`<${Changed} approval=${approval} parent=${data} />
        ${
          approval.bodyHtml !== undefined &&
          html`<h3>New text</h3><div class="mail-text new-text"><${Text} text=${approval.bodyText} parent=${data} onLink=${setLink} isNewOnly /></div>`
        }`
      }`
    }
    ${link && html`<${LinkDialog} link=${link} accountId=${approval.accountId} onClose=${() => setLink(null)} />`}
  </section>`;
}

/** @param {{approval: Approval, parent: Parent}} props */
function Changed({ approval, parent: { message } }) {
  const { added, left, hasOtherSubject } = changesOf(approval, message);
  return html`<${Facts} of=${[
    ["Added", added.length ? people(approval, added) : "nobody"],
    ["Left out", left.length ? people(approval, left) : "nobody"],
    ["Subject", hasOtherSubject ? html`changed to “${words.straight(subjectOf(approval))}”` : "unchanged"],
  ]} />`;
}

// --- The decision ---

/** @param {{approval: Approval, path: string, isOwner: boolean, onDecided: (now: Approval) => void}} props */
function Decide({ approval, path, isOwner, onDecided }) {
  const [isRejecting, setRejecting] = useState(false);
  const form = useForm({}, async () => {
    const everybody = [...approval.to, ...approval.cc, ...approval.bcc].map(({ email }) => words.straight(email));
    const question = {
      title: "Approve and send this message?",
      text: `It goes to ${words.count(everybody.length, "recipient")}: ${words.list(everybody)}. This cannot be undone.`,
      action: "Approve and send",
      danger: true,
    };
    if (await sure(question)) await decide("approve", { digest: approval.digest });
  });
  const decide = async (/** @type {"approve" | "reject"} */ verb, /** @type {object} */ body) => {
    try {
      await api.post(`${path}/${verb}`, body);
      done(verb === "approve" ? "The message was approved." : "The message was rejected.");
    } catch (error) {
      if (!(error instanceof api.ApiError && error.status === 409)) throw error;
      const { status } = await api.get(path);
      warn(
        status === "pending"
          ? "This is not the message that you read, so nothing was sent. Read it again."
          : `Your decision came too late. ${STATUS[/** @type {Approval["status"]} */ (status)].says}`,
      );
    }
    setRejecting(false);
    onDecided(await api.whole(path));
  };
  return html`<section aria-labelledby="decide"><h2 id="decide">Your decision</h2>
    ${!isOwner && html`<p class="muted">If the policy of the mailbox asks for this approval, only its owner can approve.</p>`}
    <${Problem} error=${form.error} />
    <div class="actions">
      <button type="button" aria-busy=${form.isBusy} aria-disabled=${form.isBusy} onClick=${() => form.submit()}>Approve and send…</button>
      <button type="button" class="danger" aria-disabled=${form.isBusy} onClick=${() => setRejecting(true)}>Reject…</button>
    </div>
    ${isRejecting && html`<${Reject} onReject=${(/** @type {string} */ reason) => decide("reject", reason ? { reason } : {})} onClose=${() => setRejecting(false)} />`}
  </section>`;
}

/** @param {{onReject: (reason: string) => Promise<void>, onClose: () => void}} props */
function Reject({ onReject, onClose }) {
  const form = useForm({ reason: "" }, async ({ reason }) => onReject(reason.trim()));
  return html`<${Dialog} title="Reject this message?" onClose=${onClose}>
    <p>It is never sent. This cannot be undone.</p>
    <${Form} of=${form} action="Reject" danger more=${html`<button type="button" class="secondary" onClick=${onClose}>Cancel</button>`}>
      <${Field} of=${form} name="reason" label="Reason (optional)" autocomplete="off" autofocus hint="The delivery shows it to the sender." />
    <//>
  <//>`;
}
