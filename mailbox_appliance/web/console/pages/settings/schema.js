// @ts-check
/** The settings that can change while running, as the OpenAPI document describes them. */
import * as api from "../../api.js";

/** @typedef {{name: string, type: "boolean" | "integer" | "string" | "array", help: string, choices: string[], bounds: string}} Setting */
/** @typedef {string | number | boolean | string[] | null} Value */

const UNBOUNDED = 2 ** 40; // the document gives this maximum for settings without a real limit

/** @param {AbortSignal} signal @returns {Promise<Setting[]>} in the order of the document */
export async function described(signal) {
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
export function written(value) {
  if (typeof value === "boolean") return value;
  return Array.isArray(value) ? value.join("\n") : String(value ?? "");
}

/** Return the setting for a form value. Text that is not a number is passed on, and the API explains the error. @param {Setting} setting @param {string | boolean} text @returns {Value} */
export function read({ type }, text) {
  if (typeof text === "boolean") return text;
  const trimmed = text.trim();
  if (type === "array") return trimmed.split(/[\s,]+/).filter(Boolean);
  if (type !== "integer") return trimmed;
  return /^-?\d+$/.test(trimmed) ? Number(trimmed) : trimmed || null;
}
