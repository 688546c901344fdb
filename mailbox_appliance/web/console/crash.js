// @ts-check
/** The notice of a crash. Administrators see it on every page until one of them dismisses it for all. */
import * as api from "./api.js";
import { html } from "./html.js";
import { to } from "./router.js";
import { refresh, useStatus } from "./status.js";
import { attempt } from "./ui/notices.js";
import { Time } from "./ui/values.js";

export function CrashNotice() {
  const crash = useStatus()?.lastCrash;
  if (!crash) return null;
  const dismiss = () =>
    attempt(async () => {
      await api.post(api.at`/admin/crashes/${crash.file}/dismiss`);
      await refresh();
    });
  return html`<div class="warning crash" role="status">
    <p>The appliance crashed on <${Time} at=${crash.at} exact /> and was restarted. <a href=${to("/system")}>Show details</a></p>
    <button type="button" class="secondary outline small" onClick=${dismiss}>Dismiss</button>
  </div>`;
}
