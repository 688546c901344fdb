// @ts-check
/** Settings in four parts (`?part=`): settings that can change while running, HTTPS, the license, the store. */
import { html } from "../html.js";
import { to } from "../router.js";
import { Title } from "../title.js";
import { Https } from "./settings/https.js";
import { Licence } from "./settings/licence.js";
import { Running } from "./settings/running.js";
import { Store } from "./settings/store.js";

/** @type {Record<string, [string, () => any]>} */
const PARTS = {
  general: ["General", Running],
  https: ["HTTPS", Https],
  licence: ["License", Licence],
  store: ["Store", Store],
};

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  const chosen = query.part && query.part in PARTS ? query.part : "general";
  const [name, Part] = PARTS[chosen];
  return html`<${Title}>Settings<//>
    <nav class="views" aria-label="Sections of the settings"><ul>
      ${Object.entries(PARTS).map(
        ([part, [label]]) =>
          html`<li key=${part}><a href=${to("/settings", { part })} aria-current=${part === chosen ? "page" : undefined}>${label}</a></li>`,
      )}
    </ul></nav>
    <section aria-label=${name}><${Part} key=${chosen} /></section>`;
}
