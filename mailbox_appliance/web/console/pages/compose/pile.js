// @ts-check
/** The drafts or scheduled messages of a mailbox, one row each. The page address contains the mailbox. */
import { nameOf, useAccounts } from "../../accounts.js";
import * as api from "../../api.js";
import { about } from "../../changes.js";
import { html } from "../../html.js";
import { go, to } from "../../router.js";
import { sure } from "../../ui/dialog.js";
import { Choice } from "../../ui/form.js";
import { Empty, Loaded, Pager, usePages } from "../../ui/load.js";
import { attempt, done, warn } from "../../ui/notices.js";
import * as words from "../../words.js";

/**
 * @typedef {object} Kind
 * @property {"drafts" | "scheduled"} name part of the paths of the console and the API
 * @property {string} title
 * @property {string} none the text for an empty list
 * @property {(item: any, accountId: string) => [message: any, when: any]} cells of a row
 * @property {(item: any) => string | null} action the text of the row's button; null: no button
 * @property {(item: any) => import("../../ui/dialog.js").Question} question
 * @property {(accountId: string) => any} told the notice after the action
 */

/** @param {{kind: Kind, query: Record<string, string>}} props */
export function Piles({ kind, query }) {
  return html`<${Loaded} of=${useAccounts()} what="your mailboxes">
    ${(/** @type {import("../../accounts.js").Account[]} */ accounts) => {
      const chosen = accounts.find((one) => one.id === query.account) ?? accounts[0];
      if (!chosen) return html`<${NoMailbox} />`;
      return html`
        ${
          accounts.length > 1 &&
          html`<${Choice} label="Mailbox" value=${chosen.id} options=${accounts.map((one) => [one.id, nameOf(one)])}
            onChoose=${(/** @type {string} */ account) => go(`/${kind.name}`, { account })} />`
        }
        <${Pile} key=${chosen.id} kind=${kind} accountId=${chosen.id} />`;
    }}
  <//>`;
}

/** The text shown if no mailbox is connected. */
export function NoMailbox() {
  return html`<${Empty} title="No mailbox is connected yet."><p><a role="button" href=${to("/mailboxes/connect")}>Connect a mailbox</a></p><//>`;
}

/** @param {{kind: Kind, accountId: string}} props */
function Pile({ kind, accountId }) {
  const root = api.at`/accounts/${accountId}/` + kind.name;
  const pages = usePages(({ cursor }) => api.get(root, { cursor }), [accountId], {
    on: about(kind.name === "drafts" ? "message" : "delivery", accountId),
    every: 15_000,
  });
  const take = async (/** @type {any} */ item) => {
    if (!(await sure(kind.question(item)))) return;
    await attempt(async () => {
      const { warnings } = await api.ask("DELETE", root + api.at`/${item.id}`);
      warnings.forEach(warn);
      done(kind.told(accountId));
      document.querySelector("h1")?.focus();
    });
    await pages.reload();
  };
  return html`<${Loaded} of=${pages} what="the list">
    ${(/** @type {{items: any[]}} */ { items }) =>
      items.length === 0
        ? html`<${Empty} title=${kind.none} />`
        : html`<ul class="deliveries" aria-label=${kind.title}>${items.map((item) => {
            const action = kind.action(item);
            const [message, when] = kind.cells(item, accountId);
            return html`<li key=${item.id}>
                <div class="what">${message}<small class="muted">${item.to.length > 0 && `To ${words.list(item.to.map(words.person))}`}</small></div>
                <span class="when">${when}
                  ${action && html`<button type="button" class="secondary outline small" aria-label=${`${action} “${subjectOf(item)}”`} onClick=${() => take(item)}>${action}</button>`}</span>
              </li>`;
          })}</ul>`}
  <//>
  <${Pager} of=${pages} label="Pages of the list" />`;
}

/** @param {{subject: string}} item */
export function subjectOf({ subject }) {
  return subject || "No subject";
}
