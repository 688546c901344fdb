// @ts-check
/** The pages, one row each: the path, who can open it, and its module, which is loaded at first use. */

/**
 * @typedef {object} Page
 * @property {string} path
 * @property {() => Promise<{default: (props: {params: Record<string, string>, query: Record<string, string>}) => any}>} load
 * @property {"anybody" | "member" | "admin"} who
 * @property {string} [nav] its name in the navigation, which has the order of the rows
 */

/** @type {Page[]} */
export const PAGES = [
  { path: "/sign-in", who: "anybody", load: () => import("./pages/sign-in.js") },
  { path: "/set-up", who: "anybody", load: () => import("./pages/set-up.js") },
  { path: "/enroll", who: "anybody", load: () => import("./pages/enroll.js") },
  { path: "/mail", who: "member", nav: "Mail", load: () => import("./pages/mail/list.js") },
  { path: "/mail/:accountId/:messageId", who: "member", load: () => import("./pages/mail/message.js") },
  { path: "/threads/:accountId/:threadId", who: "member", load: () => import("./pages/mail/thread.js") },
  { path: "/compose", who: "member", load: () => import("./pages/compose/compose.js") },
  { path: "/drafts", who: "member", nav: "Drafts", load: () => import("./pages/compose/drafts.js") },
  { path: "/scheduled", who: "member", nav: "Scheduled", load: () => import("./pages/compose/scheduled.js") },
  {
    path: "/deliveries/:accountId?/:operationId?",
    who: "member",
    nav: "Deliveries",
    load: () => import("./pages/deliveries.js"),
  },
  {
    path: "/approvals/:approvalId?",
    who: "member",
    nav: "Approvals",
    load: () => import("./pages/approvals/approvals.js"),
  },
  { path: "/mailboxes", who: "member", nav: "Mailboxes", load: () => import("./pages/mailboxes/list.js") },
  { path: "/mailboxes/connect", who: "member", load: () => import("./pages/mailboxes/connect.js") },
  { path: "/mailboxes/:accountId", who: "member", load: () => import("./pages/mailboxes/mailbox.js") },
  { path: "/oauth-callback", who: "anybody", load: () => import("./pages/mailboxes/oauth-callback.js") },
  { path: "/keys", who: "member", nav: "API keys", load: () => import("./pages/keys/keys.js") },
  {
    path: "/webhooks/:webhookId?",
    who: "member",
    nav: "Webhooks",
    load: () => import("./pages/webhooks/webhooks.js"),
  },
  { path: "/profile", who: "member", nav: "Profile", load: () => import("./pages/profile.js") },
  { path: "/members", who: "admin", nav: "Members", load: () => import("./pages/members/members.js") },
  { path: "/members/:memberId", who: "admin", load: () => import("./pages/members/member.js") },
  { path: "/oauth-apps", who: "admin", nav: "OAuth apps", load: () => import("./pages/oauth-apps.js") },
  { path: "/audit", who: "admin", nav: "Audit log", load: () => import("./pages/audit.js") },
  { path: "/backups", who: "admin", nav: "Backups", load: () => import("./pages/backups/backups.js") },
  { path: "/system", who: "member", nav: "System", load: () => import("./pages/system/system.js") },
  { path: "/settings", who: "admin", nav: "Settings", load: () => import("./pages/settings.js") },
];
/** The start page. */
export const HOME = "/mail";
