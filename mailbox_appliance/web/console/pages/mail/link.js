// @ts-check
/** The dialog that shows the real address of a link before it opens. */
import { html } from "../../html.js";
import { go } from "../../router.js";
import { Dialog } from "../../ui/dialog.js";
import { Copy } from "../../ui/values.js";

const HOST = /(?:https?:\/\/)?((?:[\p{L}\p{N}-]+\.)+\p{L}{2,})/iu;

const FILE = /\.(?:pdf|docx?|xlsx?|pptx?|txt|jpe?g|png)$/;

/** @param {{link: {address: string, text: string}, accountId: string, onClose: () => void}} props */
export function LinkDialog({ link: { address, text }, accountId, onClose }) {
  const url = new URL(address);
  const isPage = url.protocol === "http:" || url.protocol === "https:";
  const isMail = url.protocol === "mailto:";
  const named = isPage ? (HOST.exec(plain(text))?.[1] ?? "").toLowerCase() : "";
  const isOther = named !== "" && !FILE.test(named) && bare(named) !== bare(url.hostname);
  const open = () => {
    if (isMail) go("/compose", { ...mailTo(url), account: accountId });
    else window.open(address, "_blank", "noopener,noreferrer");
    onClose();
  };
  return html`<${Dialog} title=${isPage ? "Open this link?" : isMail ? "Write a message?" : "Call this number?"} onClose=${onClose}>
    ${isPage && html`<p>This link opens <strong><bdi>${url.host}</bdi></strong>${url.protocol === "http:" && ", without encryption"}.</p>`}
    ${isOther && html`<p class="warning">The message shows <bdi>${named}</bdi>, which is a different site.</p>`}
    ${url.username && html`<p class="warning">The text before the @ is not the site this link opens.</p>`}
    <pre tabindex="0"><code>${address}</code></pre>
    <p><${Copy} text=${address} label="Copy address" /></p>
    <footer>
      <button type="button" class="secondary" onClick=${onClose}>Cancel</button>
      <button type="button" onClick=${open}>${isPage ? "Open in a new tab" : isMail ? "Write a message" : "Call"}</button>
    </footer>
  <//>`;
}

/**
 * Return a text with its characters mapped as in host names: NFKC, ideographic full stops as dots, no invisible ones
 * (UTS 46, sections 2.3 and 4). @param {string} text
 */
function plain(text) {
  return text
    .normalize("NFKC")
    .replaceAll("\u3002", ".")
    .replace(/\p{Default_Ignorable_Code_Point}/gu, "");
}

/** @param {string} host */
function bare(host) {
  try {
    return new URL(`https://${host}`).hostname.replace(/^www\./, "");
  } catch {
    return host;
  }
}

/** Return the fields of a mailto link. RFC 6068: "+" is literal, names are case-insensitive. @param {URL} url */
function mailTo({ pathname, search }) {
  const given = [...new URLSearchParams(`to=${pathname}&${search.slice(1)}`.replaceAll("+", "%2B"))];
  const [to, cc, subject, body] = ["to", "cc", "subject", "body"].map((wanted) =>
    given.flatMap(([name, value]) => (name.toLowerCase() === wanted ? value : [])).join(", "),
  );
  return { to, cc, subject, body: body?.replaceAll("\r\n", "\n") };
}
