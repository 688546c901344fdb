// @ts-check
/** The server folders for sent mail, drafts, trash, archive and spam. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { done, warn } from "../../ui/notices.js";

/** @typedef {import("../../accounts.js").Account} Account */
/** @typedef {keyof Account["folders"]} Role */
/** @typedef {{id: string, path: string, role?: string, roleSource?: "user" | "extension" | "name"}} Folder */

/** @type {[Role, string][]} */
const ROLES = [
  ["sent", "Sent mail"],
  ["drafts", "Drafts"],
  ["archive", "Archive"],
  ["spam", "Spam"],
  ["trash", "Trash"],
];

/** @param {{account: Account, isOwner: boolean, reload: () => Promise<unknown>}} props */
export function Folders({ account, isOwner, reload }) {
  const folders = useLoad((signal) => api.get(api.at`/accounts/${account.id}/folders`, {}, signal), [account.id]);
  const mayMap = isOwner && account.provider === "imap";
  return html`<article><h2>Folders</h2>
    <p>The server folder for each purpose.${mayMap && " You can choose a different one."}</p>
    <${Loaded} of=${folders} what="the folders">${(/** @type {Folder[]} */ all) =>
      mayMap
        ? html`<${Mapping} account=${account} folders=${all} reload=${() => Promise.all([folders.reload(), reload()])} />`
        : html`<dl class="facts">${ROLES.map(([role, label]) => html`<div key=${role}><dt>${label}</dt><dd>${account.folders[role] ?? "none"}</dd></div>`)}</dl>`}
    <//></article>`;
}

/** Return the path that the owner chose, or "" if the choice is automatic. @param {Folder[]} folders @param {Role} role */
function chosen(folders, role) {
  return folders.find((one) => one.role === role && one.roleSource === "user")?.path ?? "";
}

/** @param {{account: Account, folders: Folder[], reload: () => Promise<unknown>}} props */
function Mapping({ account, folders, reload }) {
  const form = useForm(Object.fromEntries(ROLES.map(([role]) => [role, chosen(folders, role)])), async (values) => {
    const changed = ROLES.filter(([role]) => values[role] !== chosen(folders, role));
    const body = Object.fromEntries(changed.map(([role]) => [role, values[role] || null]));
    const { warnings } = await api.ask("PATCH", api.at`/accounts/${account.id}/imap/folders`, { body });
    await reload();
    for (const one of warnings) warn(one);
    done("Folders saved.");
  });
  const paths = folders.map((one) => one.path).filter((path) => path.toUpperCase() !== "INBOX");
  return html`<${Form} of=${form} action="Save folders" busy="Checking the server…" label="Folders"
    more=${html`<button type="button" class="secondary outline" onClick=${reload}>Refresh folders</button>`}>
    <div class="pair">${ROLES.map(
      ([role, label]) =>
        html`<${Field} key=${role} of=${form} name=${role} label=${label} options=${optionsOf(account, folders, paths, role)} />`,
    )}</div>
  <//>`;
}

/** @param {Account} account @param {Folder[]} folders @param {string[]} paths @param {Role} role @returns {[string, string][]} */
function optionsOf(account, folders, paths, role) {
  const automatic = chosen(folders, role) ? "" : ` (${account.folders[role] ?? "none"})`;
  return [["", `Automatic${automatic}`], ...paths.map((path) => /** @type {[string, string]} */ ([path, path]))];
}
