// @ts-check
/** The progress of a maintenance task. Only one runs at a time, and GET /status reports it. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { useLoad } from "../../ui/load.js";
import { Progress } from "../../ui/values.js";

const EVERY = 700; // milliseconds

/** @typedef {{kind: string, work: string, step: string, done: number, total: number}} Underway */

/** The progress bar of the running task. @param {{label: string}} props its name, such as "Creating the backup" */
export function Working({ label }) {
  const { data } = useLoad((signal) => api.get("/status", {}, signal), [], { every: EVERY });
  return html`<${Bar} label=${label} now=${data?.store.progress} />`;
}

/** @param {{label: string, now?: Underway}} props */
export function Bar({ label, now }) {
  const step = now?.step ? `: ${now.step}` : "";
  return html`<${Progress} label=${`${label}${step}`} done=${now?.done} total=${now?.total} />`;
}
