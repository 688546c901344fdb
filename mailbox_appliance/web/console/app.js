// @ts-check
/** The entry point: restore the session or use a one-time link, then show the page that the address names. */
import * as api from "./api.js";
import { html, render } from "./html.js";
import { go, mayLeave, takeLink } from "./router.js";
import * as session from "./session.js";
import { Shell } from "./shell.js";
import { sure } from "./ui/dialog.js";
import { done, failed } from "./ui/notices.js";

/** How each kind of one-time link is used. The kind comes first after the `#`. @type {Record<string, (token: string, path?: string) => Promise<void> | void>} */
const LINKS = {
  enroll: (token) => go("/enroll", { kind: "enroll", token }, { replace: true }),
  reset: (token) => go("/enroll", { kind: "reset", token }, { replace: true }),
  console: async (token, path) => {
    const before = session.member.value;
    const text = `You are signed in as ${before?.name}. This link signs you in as the person who created it, so use it only if that was you.`;
    if (before && !(await sure({ title: "Sign in with this link?", text, action: "Sign in" }))) return;
    if (!mayLeave()) return;
    const old = session.token();
    const { data } = await api.ask("POST", "/auth/console-links/redeem", { body: { token }, isAnonymous: true });
    if (path) go(path, {}, { replace: true });
    session.start(data);
    if (old) await api.logOut(old).catch(failed); // no tab uses it any longer
    done(`You are signed in as ${data.member.name}.`);
  },
};

async function begin() {
  await session.begin();
  addEventListener("hashchange", () => void use(takeLink()));
  const link = takeLink();
  if (!session.member.value) await use(link); // no dialog can open, so the page need not be drawn yet
  const app = document.getElementById("app");
  if (app) {
    app.replaceChildren();
    render(html`<${Shell} />`, app);
  }
  if (!session.member.value) return;
  await use(link);
  const { member } = await api.get("/me"); // the role or the name may have changed
  const { name, role } = session.member.value;
  if (member.name !== name || member.role !== role) session.update(member);
}

/** @param {ReturnType<typeof takeLink>} link */
async function use(link) {
  try {
    if (link && !link.token) throw new Error("This link is incomplete. Open it again, or ask for a new one.");
    if (link) await LINKS[link.kind]?.(link.token, link.path);
  } catch (problem) {
    failed(problem);
  }
}

begin().catch(failed);
