// @ts-check
/** Writing: a new message, a draft, an answer, a forward. */
import { html, useRef, useState } from "../../html.js";
import { go, to } from "../../router.js";
import { Title } from "../../title.js";
import { Loaded, useLoad } from "../../ui/load.js";
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
  /** The same message under another address. @type {(query: Record<string, string>) => void} */
  const readdress = (query) => {
    drawn.current.asked = JSON.stringify(query);
    go("/compose", query, { replace: true });
  };
  return html`<${Begin} key=${drawn.current.number} query=${query} readdress=${readdress} />`;
}

/**
 * Where the page was loaded anew while a message was being handed over, and no answer is known, that comes first.
 * @param {Props} props
 */
function Begin({ query: given, readdress }) {
  const query = useRef(given).current; // what follows changes the address, and not the message
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
