// @ts-check
/** How far the appliance is with what takes long: one such thing is done at a time, and GET /status tells of it. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { useLoad } from "../../ui/load.js";
import { Progress } from "../../ui/values.js";

const EVERY = 700; // milliseconds

/** @typedef {{kind: string, work: string, step: string, done: number, total: number}} Underway */

/** While something is waited for that takes long. @param {{label: string}} props what is done: "Making the backup" */
export function Working({ label }) {
  const { data } = useLoad((signal) => api.get("/status", {}, signal), [], { every: EVERY });
  return html`<${Bar} label=${label} now=${data?.store.progress} />`;
}

/** @param {{label: string, now?: Underway}} props */
export function Bar({ label, now }) {
  const step = now?.step ? `: ${now.step}` : "";
  return html`<${Progress} label=${`${label}${step}`} done=${now?.done} total=${now?.total} />`;
}
