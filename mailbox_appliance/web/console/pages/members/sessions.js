// @ts-check
/** The sessions of a member, which can be ended. */
import * as api from "../../api.js";
import { html, useRef } from "../../html.js";
import { sure } from "../../ui/dialog.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { attempt, done } from "../../ui/notices.js";
import { Badge, Time } from "../../ui/values.js";

/** @typedef {{id: string, deviceName: string, createdAt: string, lastUsedAt: string, expiresAt: string, current: boolean}} Session */

/** @param {{path: string, whose: string}} props `path` of the sessions in the API; `whose`: "your", "Bob's" */
export function Sessions({ path, whose }) {
  const heading = useRef(/** @type {HTMLElement | null} */ (null));
  const sessions = useLoad(async (signal) => /** @type {Session[]} */ (await api.get(path, undefined, signal)), [path]);
  const others = sessions.data?.filter((one) => !one.current) ?? [];
  const end = async (/** @type {Session[]} */ those, /** @type {string} */ told) => {
    await attempt(async () => {
      for (const one of those)
        await api.remove(path + api.at`/${one.id}`).catch((problem) => {
          if (problem.status !== 404) throw problem; // it has already ended
        });
      done(told);
    });
    await sessions.reload();
    heading.current?.focus();
  };
  const endAll = async () => {
    const text = "All these browsers and programs are signed out immediately. API keys keep working.";
    if (await sure({ title: `End ${whose} sessions?`, text, action: "End sessions", danger: true }))
      await end(others, "Sessions ended.");
  };
  return html`<section class="topic">
    <h2 ref=${heading} tabindex="-1">Sessions</h2>
    <${Loaded} of=${sessions} what="the sessions">${(/** @type {Session[]} */ list) => html`
      ${list.length === 0 && html`<p>No sessions.</p>`}
      <ul class="lines">${list.map((one) => html`<${Row} key=${one.id} session=${one} onEnd=${() => end([one], "Session ended.")} />`)}</ul>`}<//>
    ${
      others.length > 1 &&
      html`<p class="actions"><button type="button" class="secondary outline" onClick=${endAll}>
        ${others.length === sessions.data?.length ? "End all sessions" : "End all other sessions"}</button></p>`
    }
  </section>`;
}

/** @param {{session: Session, onEnd: () => void}} props */
function Row({ session, onEnd }) {
  return html`<li>
    <h3>${session.deviceName || "Unnamed"} ${session.current && html`<${Badge} kind="good">This session<//>`}</h3>
    <p class="muted">Last used <${Time} at=${session.lastUsedAt} ago /><br />Started <${Time} at=${session.createdAt} exact /></p>
    <div class="actions">${
      !session.current &&
      html`<button type="button" class="secondary outline small" onClick=${onEnd}>End<span class="said"> ${session.deviceName}</span></button>`
    }</div>
  </li>`;
}
