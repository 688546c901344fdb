// @ts-check
/** The applications by which members sign in at Google and Microsoft. */
import * as api from "../api.js";
import { html } from "../html.js";
import { Title } from "../title.js";
import { sure } from "../ui/dialog.js";
import { Check, Field, Form, useForm } from "../ui/form.js";
import { Loaded, useLoad } from "../ui/load.js";
import { attempt, done } from "../ui/notices.js";
import { Badge, Snippet } from "../ui/values.js";

/** @typedef {"google" | "outlook"} Provider */
/** @typedef {{clientId: string | null, tenantId?: string | null, clientSecretConfigured: boolean, source: string | null, mutable: boolean}} App */
/** @typedef {Record<Provider, App>} Apps */

const CALLBACK = "/api/v1/oauth/callback";
const isHere = ["127.0.0.1", "localhost", "[::1]"].includes(location.hostname);
/** @type {[provider: Provider, name: string, place: string, here: string, everywhere: string][]} where an app is registered, and as what */
const PROVIDERS = [
  [
    "google",
    "Google",
    "Google Cloud console, “Google Auth Platform”, “Clients”: a client of the type,",
    "“Desktop app”. It needs no redirect URI.",
    "“Web application”, with the redirect URI that is",
  ],
  [
    "outlook",
    "Microsoft (Outlook)",
    "Microsoft Entra admin center, “App registrations”: an app with the platform,",
    "“Mobile and desktop applications” and this redirect URI. Allow public client flows, too, for signing in with a code:",
    "“Web”, with the redirect URI that is",
  ],
];

export default function OAuthApps() {
  const apps = useLoad((signal) => api.get("/admin/oauth-apps", {}, signal), []);
  return html`<${Title}>OAuth apps<//>
    <p>Register an app with Google or Microsoft, once for the whole appliance. Then every member can connect such a mailbox without giving its password away.</p>
    <p class="muted">Which type it has depends on <code>server.public_url</code>, where browsers are led back to, whatever address you are at now. While that
      is empty, members sign in on this computer, or paste the address where their browser ended.</p>
    <${Loaded} of=${apps} what="the OAuth apps">${(/** @type {Apps} */ all) =>
      PROVIDERS.map(([provider, name, place, here, everywhere]) => {
        const where = html`<p>Register the app first: ${place}</p>
          <ul><li>while <code>server.public_url</code> is empty: ${here}
            ${provider === "outlook" && html`<${Snippet} label="Redirect URI" copy="Copy redirect URI" text=${`http://localhost${CALLBACK}`} />`}</li>
          <li>where it is set: ${everywhere} that address, and <code>${CALLBACK}</code> behind it${
            isHere
              ? ""
              : html`. If it is the address of this page: <${Snippet} label="Redirect URI" copy="Copy redirect URI" text=${location.origin + CALLBACK} />`
          }</li></ul>`;
        return html`<${Application} key=${provider} provider=${provider} name=${name} where=${where} app=${all[provider]} set=${apps.set} reload=${apps.reload} />`;
      })}
    <//>`;
}

/** @param {{provider: Provider, name: string, where: any, app: App, set: (apps: Apps) => void, reload: () => Promise<void>}} props */
function Application({ provider, name, where, app, set, reload }) {
  const isThere = Boolean(app.clientId);
  const remove = async () => {
    const text = `Nobody can connect ${name} mailboxes any more, and those that are connected need another app to go on.`;
    if (!(await sure({ title: `Remove the app for ${name}?`, text, action: "Remove app", danger: true }))) return;
    await attempt(async () => {
      await api.remove(api.at`/admin/oauth-apps/${provider}`);
      await reload();
      done(`The app for ${name} was removed.`);
    });
  };
  return html`<article aria-label=${name}>
    <h2>${name} ${isThere ? html`<${Badge} kind="good">Set up<//>` : html`<${Badge}>Not set up<//>`}</h2>
    ${isThere && html`<p>Client ID <code>${app.clientId}</code>, ${app.clientSecretConfigured ? "with a secret, which is never shown" : "without a secret"}.</p>`}
    ${
      app.mutable
        ? html`<details open=${!isThere}><summary>${isThere ? "Change it" : "Set it up"}</summary>
            ${where}<${AppForm} key=${app.clientId} provider=${provider} name=${name} app=${app} set=${set} /></details>
          ${isThere && html`<button type="button" class="danger own-width" onClick=${remove}>Remove the app for ${name} …</button>`}`
        : html`<p class="warning">The operator gave this app in the environment of the appliance, so it is changed there and not here.</p>`
    }
  </article>`;
}

/** @param {{provider: Provider, name: string, app: App, set: (apps: Apps) => void}} props */
function AppForm({ provider, name, app, set }) {
  const isThere = Boolean(app.clientId);
  const isOutlook = provider === "outlook"; // Google wants the secret of a desktop app, too
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
    done(`The app for ${name} was saved.`);
  });
  const keeps = app.clientSecretConfigured && form.values.clientId === app.clientId;
  return html`<${Form} of=${form} action="Save app" label=${`App for ${name}`}>
    <${Field} of=${form} name="clientId" label="Client ID" autocomplete="off" required />
    ${isOutlook && html`<${Check} of=${form} name="publicClient" label="It is a public client, without a secret, as apps for the desktop are" />`}
    ${!form.values.publicClient && html`<${Field} of=${form} name="clientSecret" label="Client secret" type="password" autocomplete="off" required=${!keeps} hint=${keeps ? "Left empty: the stored one stays." : isOutlook ? undefined : "A desktop app has one, too."} />`}
    ${isOutlook && html`<${Field} of=${form} name="tenantId" label="Tenant" autocomplete="off" hint="The directory that members belong to, such as example.org. Left empty: any." />`}
  <//>`;
}
