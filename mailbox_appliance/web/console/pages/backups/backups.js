// @ts-check
/** The page of backups: the list, or the steps of a restore (`?restore=ID`). */
import { html } from "../../html.js";
import { Backups } from "./list.js";
import { Restore } from "./restore.js";

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  if (!query.restore) return html`<${Backups} />`;
  return html`<${Restore} key=${query.restore} backupId=${query.restore} after=${query.after ?? null} />`;
}
