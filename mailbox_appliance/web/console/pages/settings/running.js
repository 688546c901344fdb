// @ts-check
/** The settings that can change while the appliance runs, by topic. Changes apply immediately. */
import * as api from "../../api.js";
import { html, useEffect, useRef } from "../../html.js";
import { guard } from "../../router.js";
import { refresh } from "../../status.js";
import { sure } from "../../ui/dialog.js";
import { Check, Field, Form, useForm } from "../../ui/form.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { done, failed, warn } from "../../ui/notices.js";

/** @typedef {Record<string, Value>} Values */

/** The topics in order; unknown ones follow under their own name. @type {Record<string, string>} */
const GROUPS = {
  backup: "Daily backups",
  sending: "Sending",
  sync: "Fetching mail",
  remote: "Mail servers",
  store: "Store",
  events: "Events",
  webhooks: "Webhooks",
  log: "Log",
  metrics: "Metrics",
  server: "Server",
};
const ELSEWHERE = ["server.https", "server.https_port", "server.https_host"]; // shown in the part about HTTPS

export function Running() {
  const loading = useLoad(async (signal) => {
    const [settings, values] = await Promise.all([described(signal), api.get("/admin/settings", {}, signal)]);
    return { settings, values };
  }, []);
  return html`<p>Changes apply immediately. You cannot change settings here that an environment variable or command-line option sets.
      Settings that are not shown here are in <code>config.toml</code> and apply after a restart.</p>
    <${Loaded} of=${loading} what="the settings">${(
      /** @type {{settings: Setting[], values: Values}} */ { settings, values },
    ) => html`
      ${grouped(settings).map(([name, those]) => html`<${Group} key=${name} name=${name} settings=${those} values=${values} />`)}
`}<//>`;
}

/** @param {Setting[]} settings @returns {[string, Setting[]][]} */
function grouped(settings) {
  const shown = settings.filter((one) => !ELSEWHERE.includes(one.name));
  const names = new Set([...Object.keys(GROUPS), ...shown.map((one) => one.name.split(".")[0])]);
  return [...names].map((name) => [name, shown.filter((one) => one.name.startsWith(`${name}.`))]);
}

/** @param {{name: string, settings: Setting[], values: Values}} props */
function Group({ name, settings, values }) {
  const known = useRef(values);
  const label = GROUPS[name] ?? name;
  const shown = () => Object.fromEntries(settings.map((one) => [one.name, written(known.current[one.name])]));
  const changedBy = (/** @type {Record<string, string | boolean>} */ typed) => {
    const before = shown();
    const those = settings.filter((one) => typed[one.name] !== before[one.name]);
    return Object.fromEntries(those.map((one) => [one.name, read(one, typed[one.name])]));
  };
  const change = async (/** @type {Values} */ changes) => {
    if (Object.keys(changes).length === 0) return void done("Nothing was changed.");
    const before = Object.fromEntries(Object.keys(changes).map((one) => [one, known.current[one]]));
    const { data, warnings } = await api.ask("PATCH", "/admin/settings", { body: changes });
    known.current = data;
    form.set(shown());
    const undo = () => void change(before).catch(failed);
    done(
      html`Saved. The change applies now. <button type="button" class="secondary outline small" onClick=${undo}>Undo</button>`,
    );
    for (const warning of warnings) warn(warning);
    void refresh();
  };
  const form = useForm(shown(), (typed) => change(changedBy(typed)));
  const goBack = async () => {
    const text = `All settings in “${label}” return to their values in config.toml.`;
    if (await sure({ title: "Reset to config.toml?", text, action: "Reset" }))
      await change(Object.fromEntries(settings.map((one) => [one.name, null]))).catch(failed);
  };
  const isUnsaved = Object.keys(changedBy(form.values)).length > 0;
  useEffect(() => (isUnsaved ? guard(() => "Your changes are not saved. Leave this page?") : undefined), [isUnsaved]);
  return html`<article>
    <h2>${label}</h2>
    <${Form} of=${form} action="Save" label=${label} more=${html`<button type="button" class="secondary outline"
        aria-label=${`${label}: reset to config.toml`} onClick=${goBack}>Reset to config.toml</button>
        ${isUnsaved && html`<small role="status">Not saved yet</small>`}`}>
      <div class="columns">${settings.map((setting) => html`<${Entry} key=${setting.name} setting=${setting} form=${form} />`)}</div>
    <//>
  </article>`;
}

/** @param {{setting: Setting, form: import("../../ui/form.js").FormState}} props */
function Entry({ setting: { name, type, help, choices, bounds }, form }) {
  const shared = { of: form, name, label: help, hint: html`<code>${name}</code>${bounds}` };
  if (type === "boolean") return html`<${Check} ...${shared} isSwitch />`;
  const options = choices.length > 0 ? choices.map((one) => [one, one]) : undefined;
  return html`<${Field} ...${shared} options=${options} rows=${type === "array" ? 2 : undefined} inputmode=${type === "integer" ? "numeric" : undefined} />`;
}

// --- The settings that can change while running, as the OpenAPI document describes them ---

/** @typedef {{name: string, type: "boolean" | "integer" | "string" | "array", help: string, choices: string[], bounds: string}} Setting */
/** @typedef {string | number | boolean | string[] | null} Value */

const UNBOUNDED = 2 ** 40; // the document gives this maximum for settings without a real limit

/** @param {AbortSignal} signal @returns {Promise<Setting[]>} in the order of the document */
async function described(signal) {
  const description = await (await api.file("/openapi.json", { signal })).json();
  const body = description.paths["/api/v1/admin/settings"].patch.requestBody.content["application/json"].schema;
  const schema = body.$ref ? description.components.schemas[body.$ref.split("/").at(-1)] : body;
  return Object.entries(schema.properties).map(([name, one]) => ({
    name,
    type: one.type[0],
    help: one["x-help"],
    choices: (one.enum ?? []).filter(Boolean),
    bounds: boundsOf(one),
  }));
}

/** @param {any} one */
function boundsOf({ type, minimum, maximum }) {
  if (type[0] === "array") return ", one in each line";
  if (type[0] !== "integer" || (!minimum && maximum >= UNBOUNDED)) return "";
  return maximum < UNBOUNDED ? `, from ${minimum} to ${maximum}` : `, ${minimum} or more`;
}

/** Return the form value of a setting. @param {Value} value @returns {string | boolean} */
function written(value) {
  if (typeof value === "boolean") return value;
  return Array.isArray(value) ? value.join("\n") : String(value ?? "");
}

/** Return the setting for a form value. Text that is not a number is passed on, and the API explains the error. @param {Setting} setting @param {string | boolean} text @returns {Value} */
function read({ type }, text) {
  if (typeof text === "boolean") return text;
  const trimmed = text.trim();
  if (type === "array") return trimmed.split(/[\s,]+/).filter(Boolean);
  if (type !== "integer") return trimmed;
  return /^-?\d+$/.test(trimmed) ? Number(trimmed) : trimmed || null;
}
