// @ts-check
/** Charts of sent and received messages over time (bars in SVG, with the same numbers as a table), and the cards. */
import { get } from "../../api.js";
import { about } from "../../changes.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { to } from "../../router.js";
import { useShared } from "../../shared.js";
import { failure } from "../../status.js";
import { Choice } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { Time } from "../../ui/values.js";
import * as words from "../../words.js";

/** @typedef {[name: string, told: string, look: string]} Part of a bar: the field, its label and its class */
/** @typedef {Record<string, any> & {at: string}} Step */

const EVERY = 60_000; // milliseconds
const HEIGHT = 120; // pixels of the tallest bar
const TOP = 18;
const BOTTOM = TOP + HEIGHT;
/** @type {[string, string][]} */
const SPANS = [
  ["6", "6 hours"],
  ["24", "24 hours"],
  ["48", "2 days"],
  ["168", "7 days"],
];
/** @type {Part[]} */
const OUTCOMES = [
  ["succeeded", "Sent", "bar-good"],
  ["other", "In progress", "bar-busy"],
  ["uncertain", "Uncertain", "bar-doubt"],
  ["failed", "Not sent", "bar-bad"],
];
/** @type {Part[]} */
const MESSAGES = [["messages", "Messages", "bar-plain"]];

export function History() {
  const [hours, setHours] = useState("24");
  const loading = useCard((signal) => get("/status/history", { hours }, signal), [], { every: EVERY });
  // The old bars stay until the new ones are loaded, so that the page does not jump and opened tables stay open.
  const asked = useRef(hours);
  useEffect(() => {
    if (asked.current !== hours) void loading.reload();
    asked.current = hours;
  }, [hours]);
  return html`<section aria-labelledby="history">
    <div class="title">
      <h2 id="history">Activity</h2>
      <div class="span"><${Choice} label="Time range" value=${hours} options=${SPANS} onChoose=${setHours} /></div>
    </div>
    <${Loaded} of=${loading} what="the activity">
      ${(/** @type {any} */ { deliveries, arrived, stepSeconds }) => html`<div class="charts">
        <${Chart} title="Deliveries" steps=${deliveries} seconds=${stepSeconds} parts=${OUTCOMES} none="No messages sent" />
        <${Chart} title="Received" steps=${arrived} seconds=${stepSeconds} parts=${MESSAGES} none="No mail received" />
      </div>`}
    <//>
  </section>`;
}

/**
 * @param {{title: string, steps: Step[], seconds: number, parts: Part[], none: string}} props
 *   `seconds`: the length of a step; `none`: the text for an empty chart
 */
function Chart({ title, steps, seconds, parts, none }) {
  const most = Math.max(0, ...steps.map((step) => parts.reduce((all, [name]) => all + step[name], 0)));
  const totals = parts.map(
    ([name, told]) => `${told}: ${words.number(steps.reduce((all, step) => all + step[name], 0))}`,
  );
  /** Return a time, with the weekday if the steps are longer than an hour. */
  const tick = (/** @type {string} */ at) => {
    const weekday = seconds > 3600 ? /** @type {const} */ ("short") : undefined;
    return new Date(at).toLocaleString(undefined, { weekday, hour: "2-digit", minute: "2-digit" });
  };
  return html`<figure class="chart">
    <figcaption>
      <h3>${title}</h3>
      <ul class="legend">${parts.map(
        ([name, , look], index) => html`<li key=${name}>
        <svg width="12" height="12" aria-hidden="true"><rect width="12" height="12" class=${look} /></svg>${totals[index]}</li>`,
      )}</ul>
    </figcaption>
    <svg role="img" aria-label=${`${title}. ${most === 0 ? none : totals.join(", ")}.`} width="100%" height=${BOTTOM + 22}>
      <line x2="100%" y1=${BOTTOM} y2=${BOTTOM} class="axis" />
      <text y=${TOP - 5}>${most === 0 ? none : words.number(most)}</text>
      ${steps.map((step, index) => html`<${Bar} key=${step.at} step=${step} parts=${parts} scale=${HEIGHT / most} x=${index} of=${steps.length} />`)}
      ${[0, 25, 50, 75].map(
        (percent) => html`<text key=${percent} x=${`${percent}%`} y=${BOTTOM + 16}>
        ${tick(steps[Math.floor((steps.length * percent) / 100)]?.at ?? "")}</text>`,
      )}
    </svg>
    <details>
      <summary>${title} in numbers</summary>
      <div class="scroll" tabindex="0" role="region" aria-label=${`${title} in numbers`}>
        <table>
          <thead><tr><th scope="col">From</th>${parts.map(([name, told]) => html`<th scope="col" key=${name}>${told}</th>`)}</tr></thead>
          <tbody>${steps.map(
            (step) => html`<tr key=${step.at}>
            <th scope="row"><time datetime=${step.at}>${tick(step.at)}</time></th>
            ${parts.map(([name]) => html`<td key=${name}>${words.number(step[name])}</td>`)}
          </tr>`,
          )}</tbody>
        </table>
      </div>
    </details>
  </figure>`;
}

/** @param {{step: Step, parts: Part[], scale: number, x: number, of: number}} props `scale`: pixels per message */
function Bar({ step, parts, scale, x, of }) {
  let below = BOTTOM;
  return parts.map(([name, , look]) => {
    if (step[name] === 0) return null;
    const height = Math.max(2, scale * step[name]); // one of thousands stays visible
    below -= height;
    return html`<rect key=${name} class=${look} x=${`${(100 * (x + 0.1)) / of}%`} width=${`${80 / of}%`} y=${below} height=${height} />`;
  });
}

// --- The cards of the system page, including the two for administrators: newest backup and HTTPS ---

const SOON = 14 * 86_400_000; // milliseconds: a certificate that expires within this time is marked

/** Like `useLoad`, but the page shows once that the appliance does not respond. When it responds again, this loads again. @type {typeof useLoad} */
export function useCard(load, of, how) {
  const loading = useLoad(load, of, how);
  const lost = useShared(failure);
  useEffect(() => void (lost === undefined && loading.error !== undefined && loading.reload()), [lost]);
  return lost === undefined ? loading : { ...loading, error: undefined };
}

/** @param {{title: string, children: any}} props */
export function Card({ title, children }) {
  return html`<section class="card" aria-label=${title}><h2>${title}</h2>${children}</section>`;
}

export function BackupAge() {
  const loading = useCard((signal) => get("/admin/backups", { limit: 1 }, signal), [], {
    on: about("backup"),
    every: 60_000,
  });
  return html`<${Card} title="Newest backup">
    <${Loaded} of=${loading} what="backups">${(/** @type {{items: any[]}} */ { items: [newest] }) =>
      newest
        ? html`<p><${Time} at=${newest.createdAt} ago />, ${words.size(newest.sizeBytes)}${newest.verified && ", verified"}</p>`
        : html`<p>No backups yet.</p>`}<//>
    <p><a href=${to("/backups")}>Backups</a></p><//>`;
}

export function Https() {
  const loading = useCard((signal) => get("/admin/https", undefined, signal), []);
  return html`<${Card} title="HTTPS">
    <${Loaded} of=${loading} what="HTTPS">${certificate}<//>
    <p><a href=${to("/settings", { part: "https" })}>HTTPS settings</a></p><//>`;
}

/** @param {any} https */
function certificate({ enabled, url, certificate }) {
  if (!enabled) return html`<p>Off. You can sign in only on this computer.</p>`;
  const ends = certificate && new Date(certificate.notAfter).getTime() - Date.now();
  return html`<p>${url ? `On at ${url}` : html`<span class="wrong">Enabled, but not responding.</span>`}</p>
    ${certificate && html`<p class=${ends < SOON ? "wrong" : ""}>The certificate ${ends < 0 ? "expired" : "expires"} <${Time} at=${certificate.notAfter} />${certificate.selfSigned && ", self-signed"}</p>`}`;
}
