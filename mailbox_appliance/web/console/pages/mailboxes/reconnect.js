// @ts-check
/** Signing in to the servers of a mailbox again, with changed values. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { Form, useForm } from "../../ui/form.js";
import { done } from "../../ui/notices.js";
import { Checks, LoginFields, Servers, serversOf, valuesOf } from "./servers.js";

/** @typedef {import("../../accounts.js").Account} Account */
const NOTHING = Object.fromEntries(Object.keys(valuesOf()).map((name) => [name, ""]));

/** @param {{account: Account, reload: () => Promise<unknown>}} props */
export function Reconnect({ account, reload }) {
  const form = useForm(NOTHING, async (values) => {
    await api.post(api.at`/accounts/${account.id}/reconnect`, serversOf(values));
    form.reset();
    await reload();
    done("Signed in to both servers.");
  });
  return html`<article><h2>Sign-in</h2>
    <p>Use this after a password change, or if the servers have changed. Empty fields stay unchanged, and both servers are tested before anything is saved.</p>
    <${Form} of=${form} action="Sign in again" busy="Signing in to both servers…" label="Sign-in">
      <${LoginFields} of=${form} isChange hint="Leave empty to use the stored password." />
      <${Servers} of=${form} isChange>Change servers (requires the password) or user name<//>
      <${Checks} of=${form} />
    <//></article>`;
}
