// @ts-check
/** The effects of a restore, shown before the person confirms it. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { useLoad } from "../../ui/load.js";
import { Facts } from "../../ui/values.js";
import * as words from "../../words.js";
import { moment } from "./backup.js";

/** @param {{summary: import("./backup.js").Summary, took: number}} props `took`: how long the verification took, in milliseconds */
export function Consequences({ summary, took }) {
  const now = useLoad(countNow, []).data;
  return html`<h2>What happens when you restore it</h2>
    <${Facts} wide of=${[
      [
        "Replaced",
        `Members, mailboxes, mail, settings and config.toml return to their state of ${moment(summary)}. ${now ? `There are ${now} now. ` : ""}Everything added since then is removed from the appliance. Your mail servers are not changed, and mail is fetched again.`,
      ],
      [
        "Not changed",
        "No message is sent twice. Keys, sessions and members revoked or removed since then stay that way. Passwords and HTTPS settings stay as they are now.",
      ],
      ["Kept", "The current store is first saved as a backup, “Before a restore”. Restore that backup to undo."],
      [
        "Duration",
        `Reading the backup took ${duration(took)} and is repeated. The appliance then does not respond for some seconds, or longer with much mail. This page waits and shows the result.`,
      ],
      [
        "If it fails",
        "Nothing is changed. If the restored store cannot be opened, the appliance puts the current one back automatically.",
      ],
      [
        "Afterwards",
        "You stay signed in if the backup contains your account. Otherwise, sign in as a member it contains. If the backup undoes a restore, or is newer than the current store, everyone signs in again, members and passwords are those of the backup, and scheduled messages are on hold.",
      ],
    ]} />`;
}

/** @param {AbortSignal} signal @returns {Promise<string>} */
async function countNow(signal) {
  const [members, accounts] = await Promise.all(
    ["/admin/members", "/admin/accounts"].map((path) => api.get(path, {}, signal)),
  );
  return `${words.count(members.length, "member")} and ${words.count(accounts.length, "mailbox", "mailboxes")}`;
}

/** @param {number} milliseconds */
function duration(milliseconds) {
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 2) return "a second or less";
  return seconds < 90 ? `${seconds} seconds` : words.count(Math.round(seconds / 60), "minute");
}
