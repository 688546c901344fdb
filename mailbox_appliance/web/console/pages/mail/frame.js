// @ts-check
/**
 * The frame for a formatted message: an empty page of the console without scripts, whose policy allows no requests.
 * Its content is created in the frame's own realm.
 */
import * as api from "../../api.js";
import { html, useEffect, useRef, useState } from "../../html.js";
import { Problem } from "../../ui/load.js";
import { sanitized } from "./sanitize.js";

const PAGE = new URL("../../frame.html", import.meta.url).href;
const HIGHEST = 30_000; // pixels; a longer message scrolls in its frame
const MARK = 8; // pixels; smaller pictures are not visible
const SHOWN = /^image\/(?:png|gif|jpe?g|pjpeg|webp|bmp|avif)$/i;
const OURS = `
  :root:root:root, :root:root:root > body:not(#x):not(#y) {
    display: block !important; visibility: visible !important; opacity: 1 !important; width: auto !important; height: auto !important;
    min-height: 0 !important; max-height: none !important; margin: 0 !important; padding: 0 !important; overflow: visible !important;
  }
  :root:root:root { background: #fff; overflow: auto !important; }
  body > div { padding: 12px; overflow-wrap: break-word; }
  [data-address]:focus-visible { outline: 3px solid #0172ad; outline-offset: 2px; }
`;
const UNDERNEATH = `
  body { font: 16px/1.5 system-ui, sans-serif; color: #1c1c1c; }
  img { max-width: 100%; height: auto; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; font-family: inherit; margin: 0; }
  blockquote { margin: 0 0 0 8px; padding-left: 12px; border-left: 3px solid #bbb; }
  [data-address] { color: #0b57a4; text-decoration: underline; cursor: pointer; }
`;

/** @typedef {{address: string, text: string}} Link */
/**
 * @param {{source: string, name: string, pictures: (contentId: string) => {id: string, path: string, type: string} | null,
 *   onLink: (link: Link) => void, onPicture: (id: string) => void, onRemote?: (count: number) => void}} props `source`: the HTML as the sender wrote it;
 *   `onPicture`: one of `pictures` is shown
 */
export function MailFrame({ source, name, pictures, onLink, onPicture, onRemote }) {
  const frame = useRef(/** @type {HTMLIFrameElement | null} */ (null));
  const ends = useRef(/** @type {(() => void)[]} */ ([]));
  const [isShown, setShown] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (undefined));
  useEffect(
    () => () => {
      for (const end of ends.current) end();
    },
    [],
  );
  const load = () => {
    const element = frame.current;
    if (element === null || isShown) return;
    try {
      const remote = fill(element, source, onLink);
      ends.current.push(fitted(element), shownPictures(element, pictures, onPicture));
      onRemote?.(remote);
    } catch (problem) {
      setError(problem);
    }
    setShown(true);
  };
  return html`<${Problem} error=${error} />
    ${!isShown && html`<p role="status" aria-busy="true">Preparing the message…</p>`}
    <iframe ref=${frame} class="mail-frame" title=${name} src=${PAGE} sandbox="allow-same-origin" referrerpolicy="no-referrer"
      onLoad=${load}></iframe>`;
}

/**
 * Put a message into the frame. @param {HTMLIFrameElement} frame @param {string} source @param {(link: Link) => void} onLink
 * @returns {number} how many pictures on other servers were not loaded
 */
export function fill(frame, source, onLink) {
  const window = /** @type {Window & typeof globalThis} */ (frame.contentWindow);
  const document = window.document;
  const { nodes, paper, styles, remote } = sanitized(window, source);
  const page = document.createElement("div");
  for (const [name, value] of Object.entries(paper)) page.setAttribute(name, value);
  if (paper.bgcolor) page.style.backgroundColor ||= paper.bgcolor;
  page.append(nodes);
  document.adoptedStyleSheets = [UNDERNEATH, styles, OURS].map((text) => {
    const sheet = new window.CSSStyleSheet();
    sheet.replaceSync(text);
    return sheet;
  });
  document.body.replaceChildren(page);
  const follow = (/** @type {Event} */ event) => followed(event, page, onLink);
  page.addEventListener("click", follow);
  page.addEventListener("keydown", (event) => void (event.key === "Enter" && follow(event)));
  return remote;
}

/** @param {Event} event @param {HTMLElement} page @param {(link: Link) => void} onLink */
function followed(event, page, onLink) {
  const link = /** @type {Element} */ (event.target).closest("[data-address]");
  if (link === null) return;
  event.preventDefault();
  const address = link.getAttribute("data-address") ?? "";
  if (address.startsWith("#")) page.querySelector(`#${CSS.escape(address.slice(1))}`)?.scrollIntoView();
  else onLink({ address, text: (link.textContent ?? "").trim() });
}

/** Keep the frame as high as its content. @param {HTMLIFrameElement} frame @returns {() => void} stops it */
function fitted(frame) {
  const { document } = /** @type {Window} */ (frame.contentWindow);
  const page = /** @type {HTMLElement} */ (document.body.firstElementChild);
  const fit = () => {
    const root = document.documentElement;
    const bar = /** @type {Window} */ (frame.contentWindow).innerHeight - root.clientHeight;
    frame.style.height = `${Math.min(HIGHEST, Math.ceil(page.getBoundingClientRect().height) + bar)}px`;
  };
  const watcher = new ResizeObserver(fit);
  watcher.observe(page);
  fit();
  return () => watcher.disconnect();
}

/**
 * Load the pictures attached to the message from the API.
 * @param {HTMLIFrameElement} frame
 * @param {(contentId: string) => {id: string, path: string, type: string} | null} pictures
 * @param {(id: string) => void} onPicture
 * @returns {() => void} frees the memory
 */
function shownPictures(frame, pictures, onPicture) {
  const stop = new AbortController();
  /** @type {Record<string, Promise<string>>} */
  const urls = {};
  const wanted = /** @type {NodeListOf<HTMLImageElement>} */ (frame.contentDocument?.querySelectorAll("img[data-cid]"));
  for (const image of wanted) {
    const picture = pictures(image.dataset.cid ?? "");
    if (picture === null || !SHOWN.test(picture.type)) continue;
    urls[picture.id] ??= urlOf(picture, stop.signal); // a message can show the same picture a thousand times
    image.addEventListener("load", () => void (image.offsetWidth > MARK && onPicture(picture.id)));
    urls[picture.id]?.then(
      (address) => void (stop.signal.aborted || image.setAttribute("src", address)),
      () => image.setAttribute("alt", image.alt || "This picture could not be loaded."),
    );
  }
  return () => {
    stop.abort();
    for (const url of Object.values(urls)) url.then(URL.revokeObjectURL, () => undefined);
  };
}

/** @param {{path: string, type: string}} picture @param {AbortSignal} signal */
async function urlOf({ path, type }, signal) {
  const response = await api.file(path, { signal });
  return URL.createObjectURL(new Blob([await response.arrayBuffer()], { type }));
}
