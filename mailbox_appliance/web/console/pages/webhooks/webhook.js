// @ts-check
/** One webhook: its status, what can be done with it, and its attempts. */
import { useAccounts } from "../../accounts.js";
import * as api from "../../api.js";
import { html, useEffect, useState } from "../../html.js";
import { go, to } from "../../router.js";
import { refresh } from "../../status.js";
import { sure } from "../../ui/dialog.js";
import { useForm } from "../../ui/form.js";
import { Empty, Loaded, Pager, Problem, useLoad, usePages } from "../../ui/load.js";
import { done, warn } from "../../ui/notices.js";
import { ApiText, Badge, Facts, Snippet, Time, Title } from "../../ui/values.js";
import { number } from "../../words.js";
import { ShownOnce } from "../credentials.js";
import { eventsOf, isFailing, mailboxesOf, Status } from "./wording.js";

/** @typedef {import("./wording.js").Webhook} Webhook */
/** @typedef {{id: string, eventId: string, at: string, status: number | null, durationMs: number, error: string | null}} Attempt */

const EVERY = 10_000; // milliseconds; webhooks have no events

/** @param {{webhookId: string}} props */
export function Opened({ webhookId }) {
  const path = api.at`/webhooks/${webhookId}`;
  const found = useLoad((signal) => api.get(path, undefined, signal), [path], { every: EVERY });
  useEffect(() => void refresh(), [found.data?.status]); // the navigation counts the disabled ones
  return html`<p><a href=${to("/webhooks")}>All webhooks</a></p>
    ${!found.data && html`<${Title}>Webhook<//>`}
    <${Loaded} of=${found} what="the webhook">${(/** @type {Webhook} */ webhook) => html`<${Shown} webhook=${webhook} path=${path} set=${found.set} />`}<//>`;
}

/** @param {{webhook: Webhook, path: string, set: (webhook: Webhook) => void}} props */
function Shown({ webhook, path, set }) {
  const accounts = useAccounts().data ?? [];
  const [attempts, setAttempts] = useState(0); // a test adds one, so the list is loaded again
  const { url, status, includeBody, lastSuccessAt, lastFailure, createdAt } = webhook;
  return html`<${Title}>${url}<//>
    ${status === "disabled" && html`<p class="warning">This webhook is disabled: it gets no events. ${lastFailure && isFailing(webhook) && "Its address failed for three days or refused all events. "}Once the address works, enable it: it continues where it stopped.</p>`}
    <article><h2>Status <${Status} of=${webhook} /></h2>
      <${Facts} wide of=${[
        ["Events", eventsOf(webhook)],
        ["Mailboxes", mailboxesOf(webhook, accounts)],
        ["Message text", includeBody ? "Included" : "Not included"],
        ["Last success", html`<${Time} at=${lastSuccessAt} exact none="never" />`],
        [
          "Last failure",
          lastFailure
            ? html`<${Time} at=${lastFailure.at} exact />: <${ApiText} text=${lastFailure.reason} />`
            : "never",
        ],
        ["Created", html`<${Time} at=${createdAt} exact />`],
      ]} />
      <${Actions} webhook=${webhook} path=${path} set=${set} onTested=${() => setAttempts(attempts + 1)} />
    </article>
    <${Attempts} key=${attempts} path=${path} />`;
}

/** @param {{webhook: Webhook, path: string, set: (webhook: Webhook) => void, onTested: () => void}} props */
function Actions({ webhook, path, set, onTested }) {
  const [issued, setIssued] = useState(/** @type {{secret: string, previousValidUntil: string} | null} */ (null));
  const isOff = webhook.status === "disabled";
  const form = useForm({}, async ({ act }) => act());
  const test = async () => {
    /** @type {Attempt} */
    const attempt = await api.post(`${path}/test`);
    if (attempt.error === null)
      done(`The address accepted the test with ${attempt.status}, in ${number(attempt.durationMs)} ms.`);
    else warn(`The test failed: ${attempt.error}`);
    onTested();
  };
  const rotate = async () => {
    const text =
      "You get a new secret. For 24 hours requests are signed with both, so that you can change your program.";
    if (await sure({ title: "Rotate the secret?", text, action: "Rotate secret" }))
      setIssued(await api.post(`${path}/rotate-secret`));
  };
  const turn = async () => {
    set(await api.patch(path, { status: isOff ? "active" : "disabled" }));
    done(isOff ? "The webhook is enabled. It continues where it stopped." : "The webhook is disabled.");
  };
  const remove = async () => {
    const text = "No more events are sent to its address. This cannot be undone.";
    if (!(await sure({ title: "Delete this webhook?", text, action: "Delete webhook", danger: true }))) return;
    await api.remove(path);
    go("/webhooks", {}, { replace: true });
    done("The webhook was deleted.");
  };
  /** @type {[label: string, act: () => Promise<void>][]} */
  const all = [
    ["Send a test", test],
    [isOff ? "Enable" : "Disable", turn],
    ["Rotate secret…", rotate],
    ["Delete…", remove],
  ];
  return html`<${Problem} error=${form.error} />
    <div class="actions">
      <a role="button" class="secondary outline small" href=${to(path, { change: 1 })}>Edit</a>
      ${all.map(
        ([label, act]) =>
          html`<button key=${label} type="button" class="secondary outline small" aria-disabled=${form.isBusy} onClick=${() => form.submit({ act })}>${label}</button>`,
      )}
    </div>
    ${issued && html`<${NewSecret} secret=${issued.secret} until=${issued.previousValidUntil} onClose=${() => setIssued(null)} />`}`;
}

/** The dialog with a secret, which is shown only once. @param {{secret: string, until?: string, onClose: () => void}} props `until`: the end of the previous secret */
export function NewSecret({ secret, until, onClose }) {
  return html`<${ShownOnce} title="Secret of the webhook" what="secret" onClose=${onClose}>
    <p>Copy the secret now: <strong>it is shown only once</strong>. With it your program verifies that a request comes from this appliance
      (<a href="https://www.standardwebhooks.com/" target="_blank" rel="noreferrer">Standard Webhooks</a>).</p>
    ${until && html`<p>Requests are signed with the previous secret too, until <${Time} at=${until} exact />.</p>`}
    <${Snippet} label="Secret" copy="Copy secret" text=${secret} />
  <//>`;
}

/** What was sent, newest first. @param {{path: string}} props */
function Attempts({ path }) {
  const pages = usePages(({ cursor }, signal) => api.get(`${path}/attempts`, { cursor, limit: 20 }, signal), [path], {
    every: EVERY,
  });
  return html`<section aria-labelledby="attempts"><h2 id="attempts">Attempts</h2>
    <${Loaded} of=${pages} what="the attempts">${(/** @type {{items: Attempt[]}} */ { items }) =>
      items.length === 0
        ? html`<${Empty} title="Nothing has been sent yet."><p>Send a test to see whether the address works.</p><//>`
        : html`<ul class="deliveries" aria-label="Attempts">${items.map(
            (one) => html`<li key=${one.id}>
              <div class="what"><code>${one.eventId}</code>${one.error && html`<small class="wrong"><${ApiText} text=${one.error} /></small>`}</div>
              <span class="when"><${Badge} kind=${one.error === null ? "good" : "bad"}>${one.status ?? "No answer"}<//>
                <small><${Time} at=${one.at} exact />, ${number(one.durationMs)} ms</small></span>
            </li>`,
          )}</ul>
          <${Pager} of=${pages} label="Pages of attempts" />`}<//></section>`;
}
