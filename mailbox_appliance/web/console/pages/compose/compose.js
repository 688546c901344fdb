// @ts-check
/** The page for writing: a new message, a draft, a reply or a forward. */
import { html, useRef, useState } from "../../html.js";
import { go, to } from "../../router.js";
import { Loaded, useLoad } from "../../ui/load.js";
import { Title } from "../../ui/values.js";
import { Composer } from "./composer.js";
import { Forward } from "./forward.js";
import { Handing } from "./handing.js";
import { NoMailbox } from "./pile.js";
import { earlier, forget, Sending } from "./sending.js";
import { begin } from "./start.js";

/** @typedef {{query: Record<string, string>, readdress: (query: Record<string, string>) => void}} Props */

/** @param {{query: Record<string, string>}} props */
export default function Page({ query }) {
  const asked = JSON.stringify(query);
  const drawn = useRef({ asked, number: 0 });
  if (drawn.current.asked !== asked) drawn.current = { asked, number: drawn.current.number + 1 };
  /** Change the address of the page and keep the message. @type {(query: Record<string, string>) => void} */
  const readdress = (query) => {
    drawn.current.asked = JSON.stringify(query);
    go("/compose", query, { replace: true });
  };
  return html`<${Begin} key=${drawn.current.number} query=${query} readdress=${readdress} />`;
}

/**
 * The message, or first the outcome of an earlier attempt whose result is unknown, for example after a reload.
 * @param {Props} props
 */
function Begin({ query: given, readdress }) {
  const query = useRef(given).current; // later changes of the address do not change the message
  const subject = query.draft ?? query.forward ?? "";
  const [open, setOpen] = useState(() => {
    const known = earlier(subject);
    return known && { sending: new Sending(subject, known), accountId: known.accountId };
  });
  const goOn = () => {
    forget(subject);
    setOpen(null);
  };
  return open
    ? html`<${Title}>Was it sent?<//><${Handing} ...${open} goOn=${goOn} />`
    : html`<${Begun} query=${query} readdress=${readdress} />`;
}

/** @param {Props} props */
function Begun({ query, readdress }) {
  const loading = useLoad(() => begin(query), []);
  const isRefused = loading.error !== undefined && !loading.data;
  return html`${isRefused && html`<${Title}>Could not open the message<//>`}
  <${Loaded} of=${loading} what="the message">
    ${(/** @type {import("./start.js").Start | null} */ start) => {
      if (start === null) return html`<${Title}>Write a message<//><${NoMailbox} />`;
      return html`<${start.original ? Forward : Composer} start=${start} readdress=${readdress} />`;
    }}
  <//>
  ${isRefused && html`<p><a href=${to("/drafts", { account: query.account })}>Drafts</a></p>`}`;
}
