// @ts-check
/** Signing in to a mailbox's servers again, with what has changed. */
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
    done("Both servers took the login.");
  });
  return html`<article><h2>Sign-in</h2>
    <p>After a new password, or when the provider has moved. What you leave empty stays as it is; both servers are tried before anything is saved.</p>
    <${Form} of=${form} action="Sign in again" busy="Trying both logins …" label="Sign-in">
      <${LoginFields} of=${form} isChange hint="Left empty: the stored one is tried again." />
      <${Servers} of=${form} isChange>Change servers (this needs the password, too) or user name<//>
      <${Checks} of=${form} />
    <//></article>`;
}
