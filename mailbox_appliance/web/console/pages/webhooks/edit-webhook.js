// @ts-check
/** Creating and editing a webhook. */
import { nameOf, useAccounts } from "../../accounts.js";
import * as api from "../../api.js";
import { html, useState } from "../../html.js";
import { go, to } from "../../router.js";
import * as session from "../../session.js";
import { Check, Field, Form, Picks, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { done } from "../../ui/notices.js";
import { Title } from "../../ui/values.js";
import { NewSecret } from "./webhook.js";
import { ADMIN_TYPES, TYPES } from "./wording.js";

/** @typedef {import("./wording.js").Webhook} Webhook */
/** @typedef {import("../../accounts.js").Account} Account */

/** @param {{webhookId?: string}} props without `webhookId`: a new one */
export function EditWebhook({ webhookId }) {
  const accounts = useAccounts();
  const known = useLoad(async () => (webhookId ? api.get(api.at`/webhooks/${webhookId}`) : null), [webhookId]);
  return html`<${Title}>${webhookId ? "Edit a webhook" : "Create a webhook"}<//>
    <${Loaded} of=${accounts} what="your mailboxes">${(/** @type {Account[]} */ all) => html`
      <${Loaded} of=${known} what="the webhook">${(/** @type {Webhook | null} */ webhook) => html`<${Edit} webhook=${webhook} accounts=${all} />`}<//>`}<//>`;
}

/** @param {{webhook: Webhook | null, accounts: Account[]}} props */
function Edit({ webhook, accounts }) {
  const [created, setCreated] = useState(/** @type {{webhook: Webhook, secret: string} | null} */ (null));
  const start = webhook ?? { url: "", types: ["message.created"], accountIds: null, includeBody: false };
  const { url, types, accountIds, includeBody } = start;
  const reach = accountIds === null ? "all" : "some";
  const form = useForm({ url, types, reach, accountIds: accountIds ?? [], includeBody }, async (values) => {
    if (!values.types.length) throw new Error("Select at least one type of event.");
    if (values.reach === "some" && !values.accountIds.length) throw new Error("Select at least one mailbox.");
    const body = {
      url: values.url.trim(),
      types: values.types,
      accountIds: values.reach === "all" ? null : values.accountIds,
      includeBody: values.includeBody,
    };
    if (!webhook) return setCreated(await api.post("/webhooks", body));
    await api.patch(api.at`/webhooks/${webhook.id}`, body);
    go(api.at`/webhooks/${webhook.id}`);
    done("The webhook was saved.");
  });
  const back = to(webhook ? api.at`/webhooks/${webhook.id}` : "/webhooks");
  return html`<${Form} of=${form} action=${webhook ? "Save webhook" : "Create webhook"} label="Webhook"
      more=${html`<a role="button" class="secondary outline" href=${back}>Cancel</a>`}>
      <${Field} of=${form} name="url" label="Address" type="url" autocomplete="off" autofocus=${!webhook} required placeholder="https://example.org/hook"
        hint="Each event is posted to it as JSON, signed with a secret. It must start with https." />
      <${Choices} form=${form} accounts=${accounts} kept=${accountIds ?? []} />
      <${Check} of=${form} name="includeBody" label="Include the text of messages"
        hint="Otherwise events have sender, recipients, subject and a short excerpt." />
    <//>
    ${created && html`<${NewSecret} secret=${created.secret} onClose=${() => go(api.at`/webhooks/${created.webhook.id}`)} />`}`;
}

/** @param {{form: import("../../ui/form.js").FormState, accounts: Account[], kept: string[]}} props `kept`: the mailboxes of the webhook; the member may have lost access to some */
function Choices({ form, accounts, kept }) {
  const types = session.member.value?.role === "admin" ? [...TYPES, ...ADMIN_TYPES] : TYPES;
  const lost = kept.filter((id) => !accounts.some((one) => one.id === id));
  const mailboxes = [
    ...accounts.map((one) => ({ value: one.id, label: nameOf(one) })),
    ...lost.map((value) => ({ value, label: "A mailbox you cannot access" })),
  ];
  const reach = [
    { value: "all", label: "All mailboxes", hint: "Those that you can read, including future ones." },
    { value: "some", label: "Selected mailboxes" },
  ];
  return html`<${Picks} of=${form} name="types" legend="Events" isInner=${false} choices=${types.map(([value, label, hint]) => ({ value, label, hint }))} />
    <${Picks} of=${form} name="reach" legend="Mailboxes to follow" choices=${reach} />
    ${form.values.reach === "some" && html`<${Picks} of=${form} name="accountIds" legend="Mailboxes" none="No mailbox is connected yet." choices=${mailboxes} />`}`;
}
