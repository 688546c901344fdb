// @ts-check
/** The member's webhooks, and the pages that create, show and edit one. */
import { useAccounts } from "../../accounts.js";
import * as api from "../../api.js";
import { html } from "../../html.js";
import { to } from "../../router.js";
import { Empty, Loaded, useLoad } from "../../ui/load.js";
import { Time, Title } from "../../ui/values.js";
import { EditWebhook } from "./edit-webhook.js";
import { Opened } from "./webhook.js";
import { eventsOf, isFailing, mailboxesOf, Status } from "./wording.js";

/** @typedef {import("./wording.js").Webhook} Webhook */

const EVERY = 15_000; // milliseconds; webhooks have no events

/** @param {{params: Record<string, string>, query: Record<string, string>}} props */
export default function Page({ params: { webhookId }, query }) {
  if (query.new) return html`<${EditWebhook} key="new" />`;
  if (webhookId && query.change) return html`<${EditWebhook} key=${webhookId} webhookId=${webhookId} />`;
  if (webhookId) return html`<${Opened} key=${webhookId} webhookId=${webhookId} />`;
  return html`<${List} />`;
}

function List() {
  const accounts = useAccounts().data ?? [];
  const known = useLoad((signal) => api.get("/webhooks", undefined, signal), [], { every: EVERY });
  return html`<${Title} actions=${html`<a role="button" href=${to("/webhooks", { new: 1 })}>Create a webhook</a>`}>Webhooks<//>
    <p>With a webhook, a program learns what happens in your mailboxes: the appliance posts each event to its address.</p>
    <${Loaded} of=${known} what="the webhooks">${(/** @type {Webhook[]} */ all) =>
      all.length === 0
        ? html`<${Empty} title="No webhooks yet."><p>Create one for each program that waits for mail.</p><//>`
        : html`<ul class="lines">${all.map((one) => html`<${Row} key=${one.id} webhook=${one} accounts=${accounts} />`)}</ul>`}<//>`;
}

/** @param {{webhook: Webhook, accounts: import("../../accounts.js").Account[]}} props */
function Row({ webhook, accounts }) {
  const { id, url, lastSuccessAt, lastFailure } = webhook;
  return html`<li>
    <div><h2><a href=${to(api.at`/webhooks/${id}`)}>${url}</a></h2>
      <p>${eventsOf(webhook)}. ${mailboxesOf(webhook, accounts)}.</p>
      ${lastFailure && isFailing(webhook) && html`<p class="wrong">${lastFailure.reason}</p>`}</div>
    <p class="muted">Last success: <${Time} at=${lastSuccessAt} ago none="never" /><br />
      Last failure: <${Time} at=${lastFailure?.at ?? null} ago none="never" /></p>
    <div class="actions"><${Status} of=${webhook} /></div>
  </li>`;
}
