// @ts-check
/** The frame of every page: navigation, notices, and the sign-in dialog when a session ends. */
import * as api from "./api.js";
import { html, useEffect, useState } from "./html.js";
import { SignInForm } from "./pages/sign-in.js";
import { go, match, mayLeave, place, to } from "./router.js";
import { HOME, PAGES } from "./routes.js";
import * as session from "./session.js";
import { useShared } from "./shared.js";
import { active, isOn, useShortcuts } from "./shortcuts.js";
import { refresh, useStatus } from "./status.js";
import { Dialog, Questions } from "./ui/dialog.js";
import { Busy, Problem } from "./ui/load.js";
import { attempt, clear, failed, Notices } from "./ui/notices.js";
import { Badge, Time, Title } from "./ui/values.js";

export function Shell() {
  const member = useShared(session.member);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    ${member && html`<${Navigation} member=${member} />`}
    <main id="main" tabindex="-1">${member?.role === "admin" && html`<${CrashNotice} />`}<${Here} member=${member} /></main>
    <${Notices} />
    <${Questions} />
    <${ShortcutsHelp} />
    <${SignInAgain} />
  `;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault(); // keep the address, which names the page
  document.getElementById("main")?.focus();
}

/** @param {{member: session.Member}} props */
function Navigation({ member }) {
  const { path } = useShared(place);
  const [isOpen, setOpen] = useState(false);
  const status = useStatus();
  const doubts = status?.deliveries.uncertain ?? 0;
  const ended = status?.disabledWebhooks ?? 0;
  const waiting = status?.pendingApprovals ?? 0;
  useEffect(() => {
    setOpen(false);
    void refresh();
  }, [path]);
  useShortcuts({ c: ["Write a message", () => go("/compose")], "/": ["Search", () => focusSearch()] }, []);
  const shown = PAGES.filter((page) => page.nav && (page.who === "member" || member.role === "admin"));
  const onKey = (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && setOpen(false);
  return html`<header class=${`bar ${isOpen ? "open" : ""}`} onKeyDown=${onKey}>
    <a class="brand" href=${to(HOME)}>mailbox-appliance</a>
    <button type="button" class="menu secondary outline" aria-expanded=${isOpen} aria-controls="navigation" onClick=${() => setOpen(!isOpen)}>Menu</button>
    <nav id="navigation" aria-label="Pages">
      <a role="button" href=${to("/compose")}>Write</a>
      <ul>
        ${shown.map((page) => {
          const base = `/${page.path.split("/")[1]}`;
          const isHere = path === base || path.startsWith(`${base}/`) || (path === "/" && base === HOME);
          return html`<li><a href=${to(base)} aria-current=${isHere ? "page" : undefined}>${page.nav}
            ${base === "/deliveries" && doubts > 0 && html` <${Badge} kind="bad">${doubts} uncertain<//>`}
            ${base === "/approvals" && waiting > 0 && html` <${Badge} kind="busy">${waiting} waiting<//>`}
            ${base === "/webhooks" && ended > 0 && html` <${Badge} kind="bad">${ended} disabled<//>`}</a></li>`;
        })}
      </ul>
      <div class="who"><small>${member.name}</small>
        <button type="button" class="secondary outline small" onClick=${signOut}>Sign out</button></div>
    </nav>
  </header>`;
}

function focusSearch() {
  const search = document.querySelector('main input[type="search"]');
  if (search instanceof HTMLElement) search.focus();
  else go(HOME, { search: "1" });
}

async function signOut() {
  if (!mayLeave()) return;
  const token = session.token();
  session.end();
  go("/sign-in");
  clear();
  await api.logOut(token).catch(failed);
}

/** The page that the address names. @param {{member: session.Member | null}} props */
function Here({ member }) {
  const { path, query } = useShared(place);
  const asked = path === "/" ? HOME : path;
  const page = PAGES.find((one) => match(one.path, asked) !== null);
  if (!page) return html`<${Closed} title="Page not found">The address may be wrong or out of date.<//>`;
  if (page.who !== "anybody" && member === null) return html`<${Door} />`;
  if (page.who === "admin" && member?.role !== "admin")
    return html`<${Closed} title="Administrators only">Only administrators can open this page.<//>`;
  return html`<${Drawn} key=${page.path} page=${page} params=${match(page.path, asked) ?? {}} query=${query} />`;
}

/** @param {{title: string, children: any}} props */
function Closed({ title, children }) {
  return html`<${Title}>${title}<//><p>${children}</p><p><a href=${to(HOME)}>Go to your mail</a></p>`;
}

/** Without a session: the setup page on a new appliance, otherwise the sign-in page. */
function Door() {
  const [needed, setNeeded] = useState(/** @type {boolean | null} */ (null));
  useEffect(() => {
    api.ask("GET", "/", { isAnonymous: true }).then(
      ({ data }) => setNeeded(data.setupRequired),
      () => setNeeded(false),
    );
  }, []);
  if (needed === null) return html`<${Busy} />`;
  const page = PAGES.find((one) => one.path === (needed ? "/set-up" : "/sign-in"));
  return html`<${Drawn} key=${page?.path} page=${page} params=${{}} query=${{}} />`;
}

/** @param {{page: import("./routes.js").Page, params: Record<string, string>, query: Record<string, string>}} props */
function Drawn({ page, params, query }) {
  const [draw, setDraw] = useState(/** @type {{now: any} | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (undefined));
  useEffect(() => {
    page.load().then(
      (file) => setDraw({ now: file.default }),
      () =>
        setError(
          new Error("This page could not be loaded. The appliance may have been stopped or upgraded. Reload the page."),
        ),
    );
  }, [page]);
  if (error !== undefined) return html`<${Problem} error=${error} again=${() => location.reload()} />`;
  if (draw === null) return html`<${Busy} />`;
  return html`<${draw.now} params=${params} query=${query} />`;
}

/** The dialog for a session that ended while the page was open. The page is kept, and its requests continue after sign-in. */
function SignInAgain() {
  const isLost = useShared(session.isLost);
  const member = useShared(session.member);
  const why = useShared(session.why);
  if (!isLost || member === null) return null;
  const leave = () => mayLeave() && session.giveUp();
  return html`<${Dialog} title="Sign in again" onClose=${leave}>
    <p>${why || "Your session has ended. Your work on this page is kept. Sign in to continue."}</p>
    <${SignInForm} email=${member.email} />
    <footer><button type="button" class="secondary outline" onClick=${leave}>Switch to another member</button></footer>
  <//>`;
}

// --- The notice of a crash. Administrators see it on every page until one of them dismisses it for all ---

function CrashNotice() {
  const crash = useStatus()?.lastCrash;
  if (!crash) return null;
  const dismiss = () =>
    attempt(async () => {
      await api.post(api.at`/admin/crashes/${crash.file}/dismiss`);
      await refresh();
    });
  return html`<div class="warning crash" role="status">
    <p>The appliance crashed on <${Time} at=${crash.at} exact /> and was restarted. <a href=${to("/system")}>Show details</a></p>
    <button type="button" class="secondary outline small" onClick=${dismiss}>Dismiss</button>
  </div>`;
}

// --- The dialog of the key `?`: the shortcuts of this page ---

function ShortcutsHelp() {
  const [isOpen, setOpen] = useState(false);
  const keys = useShared(active);
  const on = useShared(isOn);
  useShortcuts({ "?": ["Show keyboard shortcuts", () => setOpen(true)] }, []);
  if (!isOpen) return null;
  const rows = Object.entries(Object.assign({}, ...keys));
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${() => setOpen(false)}>
    <dl class="keys">${rows.map(([key, [label]]) => html`<div><dt><kbd>${key}</kbd></dt><dd>${label}</dd></div>`)}</dl>
    <label><input type="checkbox" role="switch" checked=${on} onChange=${() => isOn.set(!on)} /> Use keyboard shortcuts</label>
  <//>`;
}
