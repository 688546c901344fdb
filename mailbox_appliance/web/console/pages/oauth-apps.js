// @ts-check
/** The OAuth apps with which members sign in at Google and Microsoft. */
import * as api from "../api.js";
import { html } from "../html.js";
import { sure } from "../ui/dialog.js";
import { Check, Field, Form, useForm } from "../ui/form.js";
import { Loaded, useLoad } from "../ui/load.js";
import { attempt, done } from "../ui/notices.js";
import { Badge, Snippet, Title } from "../ui/values.js";

/** @typedef {"google" | "outlook"} Provider */
/** @typedef {{clientId: string | null, tenantId?: string | null, clientSecretConfigured: boolean, source: string | null, mutable: boolean}} App */
/** @typedef {Record<Provider, App>} Apps */

const CALLBACK = "/api/v1/oauth/callback";
const isHere = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
/** @type {[provider: Provider, name: string, place: string, here: string, everywhere: string][]} the page where an app is registered, and its type */
const PROVIDERS = [
  [
    "google",
    "Google",
    "Google Cloud console, “Google Auth Platform”, “Clients”. Create a client of this type:",
    "“Desktop app”. It needs no redirect URI.",
    "“Web application”. The redirect URI is",
  ],
  [
    "outlook",
    "Microsoft (Outlook)",
    "Microsoft Entra admin center, “App registrations”. Create an app with this platform:",
    "“Mobile and desktop applications” and this redirect URI. Also allow public client flows, for signing in with a code:",
    "“Web”. The redirect URI is",
  ],
];

export default function OAuthApps() {
  const apps = useLoad((signal) => api.get("/admin/oauth-apps", {}, signal), []);
  return html`<${Title}>OAuth apps<//>
    <p>Register one app with Google or Microsoft for the whole appliance. Then every member can connect such a mailbox without entering its password here.</p>
    <p class="muted">The app type depends on <code>server.public_url</code>, the address to which browsers return. If it
      is empty, members sign in on this computer, or paste the address at which their browser ended.</p>
    <${Loaded} of=${apps} what="the OAuth apps">${(/** @type {Apps} */ all) =>
      PROVIDERS.map(([provider, name, place, here, everywhere]) => {
        const where = html`<p>First, register the app: ${place}</p>
          <ul><li>If <code>server.public_url</code> is empty: ${here}
            ${provider === "outlook" && html`<${Snippet} label="Redirect URI" copy="Copy redirect URI" text=${`http://localhost${CALLBACK}`} />`}</li>
          <li>If it is set: ${everywhere} that address followed by <code>${CALLBACK}</code>${
            isHere
              ? ""
              : html`. If it is the address of this page:<${Snippet} label="Redirect URI" copy="Copy redirect URI" text=${location.origin + CALLBACK} />`
          }</li></ul>`;
        return html`<${Application} key=${provider} provider=${provider} name=${name} where=${where} app=${all[provider]} set=${apps.set} reload=${apps.reload} />`;
      })}
    <//>`;
}

/** @param {{provider: Provider, name: string, where: any, app: App, set: (apps: Apps) => void, reload: () => Promise<void>}} props */
function Application({ provider, name, where, app, set, reload }) {
  const isThere = Boolean(app.clientId);
  const remove = async () => {
    const text = `New ${name} mailboxes cannot be connected, and connected ones stop working until you set up another app.`;
    if (!(await sure({ title: `Remove the ${name} app?`, text, action: "Remove app", danger: true }))) return;
    await attempt(async () => {
      await api.remove(api.at`/admin/oauth-apps/${provider}`);
      await reload();
      done(`The ${name} app was removed.`);
    });
  };
  return html`<article aria-label=${name}>
    <h2>${name} ${isThere ? html`<${Badge} kind="good">Set up<//>` : html`<${Badge}>Not set up<//>`}</h2>
    ${isThere && html`<p>Client ID <code>${app.clientId}</code>, ${app.clientSecretConfigured ? "with a stored secret" : "without a secret"}.</p>`}
    ${
      app.mutable
        ? html`<details open=${!isThere}><summary>${isThere ? "Change" : "Set up"}</summary>
            ${where}<${AppForm} key=${app.clientId} provider=${provider} name=${name} app=${app} set=${set} /></details>
          ${isThere && html`<button type="button" class="danger own-width" onClick=${remove}>Remove the ${name} app…</button>`}`
        : html`<p class="warning">This app is set in the appliance’s environment variables. Ask the operator to change it there.</p>`
    }
  </article>`;
}

/** @param {{provider: Provider, name: string, app: App, set: (apps: Apps) => void}} props */
function AppForm({ provider, name, app, set }) {
  const isThere = Boolean(app.clientId);
  const isOutlook = provider === "outlook"; // Google requires the secret of a desktop app too
  const start = {
    clientId: app.clientId ?? "",
    clientSecret: "",
    tenantId: app.tenantId ?? "",
    publicClient: isOutlook && isThere && !app.clientSecretConfigured,
  };
  const form = useForm(start, async ({ clientId, clientSecret, tenantId, publicClient }) => {
    const given = { clientSecret: publicClient ? "" : clientSecret, tenantId: tenantId.trim(), publicClient };
    const body = Object.fromEntries(Object.entries(given).filter(([, value]) => value));
    set(await api.put(api.at`/admin/oauth-apps/${provider}`, { clientId: clientId.trim(), ...body }));
    form.set({ clientSecret: "" });
    done(`The ${name} app was saved.`);
  });
  const keeps = app.clientSecretConfigured && form.values.clientId === app.clientId;
  return html`<${Form} of=${form} action="Save app" label=${`${name} app`}>
    <${Field} of=${form} name="clientId" label="Client ID" autocomplete="off" required />
    ${isOutlook && html`<${Check} of=${form} name="publicClient" label="Public client without a secret (desktop app)" />`}
    ${!form.values.publicClient && html`<${Field} of=${form} name="clientSecret" label="Client secret" type="password" autocomplete="off" required=${!keeps} hint=${keeps ? "Leave empty to keep the stored secret." : isOutlook ? undefined : "Desktop apps also have one."} />`}
    ${isOutlook && html`<${Field} of=${form} name="tenantId" label="Tenant" autocomplete="off" hint="The directory of the members, for example example.org. Leave empty to allow any." />`}
  <//>`;
}
