// @ts-check
/** What a restore will do, before it is done: for somebody who has to decide, and may be afraid to. */
import * as api from "../../api.js";
import { html } from "../../html.js";
import { useLoad } from "../../ui/load.js";
import { Facts } from "../../ui/values.js";
import * as words from "../../words.js";
import { moment } from "./backup.js";

/** @param {{summary: import("./backup.js").Summary, took: number}} props `took`: milliseconds that reading it took */
export function Consequences({ summary, took }) {
  const now = useLoad(countNow, []).data;
  return html`<h2>What happens if you restore it</h2>
    <${Facts} wide of=${[
      [
        "Is replaced",
        `Members, mailboxes, mail, settings and config.toml are again as they were on ${moment(summary)}. ${now ? `There are ${now} now. ` : ""}What was added since is gone from the appliance; nothing is changed at your mail servers, and mail is fetched again.`,
      ],
      [
        "Stays as it is now",
        "Nothing is sent twice. Keys, sessions and members that were ended since stay so. Passwords and HTTPS are those of now.",
      ],
      [
        "Is kept",
        "All that is there now becomes a backup first, “What a restore replaced”: restore that one to take this back.",
      ],
      [
        "How long",
        `Reading the backup took ${duration(took)} just now, and is done once more. Then the appliance does not answer for some seconds, longer where there is much mail now. This page waits, and tells how it went.`,
      ],
      [
        "If it fails",
        "Everything stays as it is. If what was restored does not open, what is there now is put back by itself.",
      ],
      ["Afterwards", "You stay signed in if you are in the backup. Else sign in as somebody who is."],
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
