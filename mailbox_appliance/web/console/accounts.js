// @ts-check
/** The mailboxes that the member has access to, loaded once and shared by all pages. */
import * as api from "./api.js";
import { about, watch } from "./changes.js";
import { useEffect } from "./html.js";
import * as session from "./session.js";
import { Shared, useShared } from "./shared.js";

/**
 * @typedef {object} Account
 * @property {string} id
 * @property {string} email
 * @property {string | null} displayName
 * @property {"imap" | "google" | "outlook"} provider
 * @property {string} ownerMemberId
 * @property {boolean} sharedWithAll
 * @property {string[]} grantedMemberIds
 * @property {"connecting" | "syncing" | "ready" | "reauth_required" | "error"} status
 * @property {{code: string, message: string} | null} error
 * @property {Record<"sent" | "drafts" | "trash" | "archive" | "spam", string | null>} folders
 * @property {Record<string, boolean>} capabilities
 * @property {string} createdAt
 * @property {string | null} lastSyncAt
 */
/** @type {Shared<{accounts: Account[] | null, error: unknown}>} */
const shared = new Shared(
  /** @type {{accounts: Account[] | null, error: unknown}} */ ({ accounts: null, error: undefined }),
);
let whose = session.member.value?.id;
session.member.watch((member) => {
  if (member?.id === whose) return; // a changed name, or a repeated sign-in
  whose = member?.id;
  shared.set({ accounts: null, error: undefined });
});

/** Load the mailboxes again, after something changed them. */
export async function reload() {
  const asked = whose;
  try {
    const accounts = await api.get("/accounts");
    if (asked === whose) shared.set({ accounts, error: undefined });
  } catch (error) {
    if (asked === whose) shared.set({ ...shared.value, error });
  }
}

watch(about("account"), () => (shared.value.accounts ? reload() : undefined));

/** The mailboxes in the form of `useLoad`, for `Loaded`. @returns {import("./ui/load.js").Loading<Account[]>} */
export function useAccounts() {
  const { accounts, error } = useShared(shared);
  useEffect(() => void (accounts ?? reload()), []);
  return {
    data: accounts ?? undefined,
    error,
    isBusy: accounts === null,
    reload,
    set: (data) => shared.set({ accounts: data, error: undefined }),
  };
}

/** The name of a mailbox in the console. @param {Account} account */
export function nameOf(account) {
  return account.displayName ? `${account.displayName} (${account.email})` : account.email;
}
