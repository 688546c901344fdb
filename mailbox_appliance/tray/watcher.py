"""Polls the appliance for the tray. It reads files of the data directory (lock, `run.json`), and calls the API with the
user's session.

The last known state is kept while the appliance does not respond, so that afterwards only changes are reported.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from mailbox_appliance.client.errors import ACCESS, INTERNAL, Failure
from mailbox_appliance.client.http import ApiClient, ApiRequest
from mailbox_appliance.client.instances import local_key
from mailbox_appliance.client.local import find_setup_code
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.clock import Clock, SystemClock
from mailbox_appliance.system import crashes
from mailbox_appliance.tray import service
from mailbox_appliance.tray.login import TrayLogin
from mailbox_appliance.tray.service import OwnerProcess
from mailbox_appliance.tray.state import AccessLevel, AuditOutcome, HttpsState, MailboxState, ServiceState, TrayState

# --- API responses as values of the state. Pure; raises KeyError and the like for an unexpected response ---


Json = Mapping[str, Any]


def with_status(state: TrayState, answer: Json, accounts: Json) -> TrayState:
    """Return `state` with the values in the responses of `GET /status` (`answer`) and `GET /accounts` (`accounts`)."""
    data = answer["data"]
    synced = {one["id"]: one for one in data["accounts"]}
    return replace(
        state,
        mailboxes=tuple(_mailbox_state(one, synced.get(one["id"], {})) for one in accounts["data"]),
        uncertain=int(data["deliveries"]["uncertain"]),
        queued=int(data["deliveries"]["queued"]),
        warnings=tuple(str(warning) for warning in answer.get("warnings") or ()),
        has_failed_daily_backup=data.get("dailyBackup") == "failed",
        disabled_webhooks=int(data.get("disabledWebhooks", 0)),
        pending_approvals=int(data.get("pendingApprovals", 0)),
        is_backing_up=_is_backup_progress(data["store"].get("progress")),
    )


def uptime_of(answer: Json) -> float:
    """Return the uptime in seconds from the response of `GET /status`."""
    return float(answer["data"]["uptimeSeconds"])


def access_of(answer: Json) -> AccessLevel:
    """Return the access of the caller from the response of `GET /me`."""
    return AccessLevel.ADMINISTRATOR if answer["data"]["member"]["role"] == "admin" else AccessLevel.MEMBER


def needs_setup(answer: Json) -> bool:
    """Whether the appliance has no administrator yet, from the response of `GET /`, which needs no credential."""
    return bool(answer["data"]["setupRequired"])


def newest_backup(answer: Json) -> str | None:
    """Return the time of the newest backup from the response of `GET /admin/backups`; None if there is no backup."""
    newest = next(iter(answer["data"]["items"]), None)
    return None if newest is None else str(newest["createdAt"])


def newest_approval(known: str, answer: Json) -> str:
    """Return the ID of the newest approval so far. `answer`: the response of `GET /approvals`; `known`: from before."""
    return max([known, *(str(one["id"]) for one in answer["data"]["items"])])


def https_of(answer: Json) -> HttpsState:
    """Return the state of remote access from the response of `GET /admin/https`."""
    data = answer["data"]
    certificate = data.get("certificate")
    return HttpsState(
        bool(data["enabled"]), data.get("url"), None if certificate is None else certificate["fingerprint"]
    )


def outcome_of(answer: Json) -> AuditOutcome | None:
    """Return the newest outcome in a response of `GET /admin/audit-events`; None if it has no events."""
    newest = next(iter(answer["data"]["items"]), None)
    return None if newest is None else AuditOutcome(str(newest["id"]), newest["outcome"] == "success")


def _mailbox_state(account: Json, sync: Json) -> MailboxState:
    error, count = account.get("error"), sync.get("progressCount")
    return MailboxState(
        account["email"],
        account["status"],
        None if error is None else error["code"],
        sync.get("progress") is not None,
        None if count is None else (int(count["done"]), int(count["total"])),
    )


def _is_backup_progress(progress: Json | None) -> bool:
    """Whether `progress`, the job in progress on the store, is a backup. False if there is no job (None)."""
    return progress is not None and progress.get("kind") in ("backup", "daily_backup")


# --- Polling ---


T = TypeVar("T")
#: Seconds between polls of more expensive values.
FULL_POLL_SECONDS = 120.0
#: An appliance that started later than before by more than these seconds is another one, as after a restore.
_ANOTHER = 3.0
#: Seconds after which an appliance that is starting counts as not answering.
START_SECONDS = 60.0
#: Seconds to wait for a response.
_ANSWER_SECONDS = 5.0
_UNREACHABLE, _RESTS, _ENDED = "appliance_unreachable", "provider_unavailable", "unauthenticated"


class ApplianceWatcher:
    """Polls the appliance of one data directory.

    `poll` blocks, and only one call runs at a time; any thread may call the other methods.
    """

    def __init__(
        self, data_dir: Path, tokens: TokenStore, environment: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        self._data_dir, self._clock = data_dir, clock or SystemClock()
        self._login = TrayLogin(tokens, local_key(data_dir), environment, self._clock)
        self._known = TrayState(ServiceState.STOPPED)
        self._one_look = threading.Lock()
        self._found: OwnerProcess | None = None
        self._owner: OwnerProcess | None = None
        self._owned_since = 0.0
        self._has_answered = False
        self._asked_with: str | None = None
        self._poll_all_at = self._began_at = 0.0

    def poll(self) -> TrayState:
        """Request the current state from the appliance and return it."""
        with self._one_look:
            self._found = service.find_owner(self._data_dir)
            # From the file, since the session may be a member's: the owner of the data directory is its operator.
            self._known = replace(self._state_of(self._found), last_crash=crashes.find(self._data_dir))
            return self._known

    def has_news(self) -> bool:
        """Whether files show a change that a poll should report: of the service process, or of the user's session.

        No request is made.
        """
        return service.find_owner(self._data_dir) != self._found or self._login.is_due

    def poll_all_next(self) -> None:
        """Make the next poll request all values, including those that are polled less often.

        For use after an action.
        """
        self._poll_all_at = 0.0

    def retry_keychain(self) -> None:
        """Let the next poll read a locked keychain again."""
        self._login.retry_keychain()

    def client(self) -> ApiClient:
        """Return an API client with the session.

        Raises Failure if no appliance runs, nobody is signed in, or a keychain is locked.
        """
        return ApiClient(service.owner_url(self._data_dir), self._login.token)

    def _state_of(self, found: OwnerProcess | None) -> TrayState:
        known = replace(self._known, url=None, setup_code=None, is_kept=False)
        if found is None:
            self._owner = None
            return replace(known, service=ServiceState.STOPPED)
        if self._owner is None or self._owner.pid != found.pid:
            self._owner, self._owned_since, self._has_answered = found, self._clock.monotonic(), False
            self.poll_all_next()
        return self._query_if_reachable(replace(known, url=found.url, is_kept=found.is_kept), found)

    def _query_if_reachable(self, known: TrayState, found: OwnerProcess) -> TrayState:
        if found.url is None:
            return replace(known, service=self._state_without_answer(found))
        try:
            state = self._query(replace(known, service=ServiceState.ANSWERS), found.url)
        except Failure as failure:
            return self._state_after_failure(known, found, failure)
        self._has_answered = True
        return state

    def _state_after_failure(self, known: TrayState, found: OwnerProcess, failure: Failure) -> TrayState:
        if failure.code == _UNREACHABLE:
            return replace(known, service=self._state_without_answer(found))
        self._has_answered = True
        if failure.code == _RESTS:
            self.poll_all_next()  # afterwards it may have another store
            return replace(known, service=ServiceState.RESTS)
        return replace(known, service=ServiceState.ANSWERS)  # only this request failed

    def _state_without_answer(self, found: OwnerProcess) -> ServiceState:
        if self._has_answered:
            return ServiceState.SILENT if found.url is not None else ServiceState.STOPPING
        is_new = self._clock.monotonic() - self._owned_since < START_SECONDS
        return ServiceState.STARTING if is_new else ServiceState.SILENT

    # --- Requests ---

    def _query(self, known: TrayState, url: str) -> TrayState:
        token = self._login.find_token()
        if token is None:
            return self._anonymous_state(known, url)
        try:
            return self._query_as_member(known, ApiClient(url, token), token)
        except Failure as failure:
            if failure.exit_code != ACCESS:
                raise
            if failure.code == _ENDED:
                self._login.forget_token(token)
            return self._anonymous_state(known, url)

    def _anonymous_state(self, known: TrayState, url: str) -> TrayState:
        """Return a state with only the values that can be read without a session. `known`: the last state."""
        self._asked_with = None
        is_new = _read_answer(ApiClient(url), needs_setup, "")
        code = find_setup_code(self._data_dir) if is_new else None
        return TrayState(ServiceState.ANSWERS, url, code, self._login.access, is_kept=known.is_kept)

    def _query_as_member(self, known: TrayState, client: ApiClient, token: str) -> TrayState:
        accounts = client.call(_get_request("/accounts"))
        state = _read_answer(client, lambda status: self._with_status(known, status, accounts), "/status")
        if state.pending_approvals:
            read = partial(newest_approval, state.newest_approval)
            newest = _read_answer(client, read, "/approvals", ("status", "pending"), ("limit", "1"))
            state = replace(state, newest_approval=newest)
        if token == self._asked_with and self._clock.monotonic() < self._poll_all_at:
            return state
        self._poll_all_at, self._asked_with = self._clock.monotonic() + FULL_POLL_SECONDS, token
        state = replace(state, access=_read_answer(client, access_of, "/me"))
        return (
            _with_admin_facts(state, client)
            if state.access is AccessLevel.ADMINISTRATOR
            else _without_admin_facts(state)
        )

    def _with_status(self, known: TrayState, status: Json, accounts: Json) -> TrayState:
        state = with_status(known, status, accounts)
        before, self._began_at = self._began_at, self._clock.monotonic() - uptime_of(status)
        if self._began_at > before + _ANOTHER:
            self.poll_all_next()  # it was replaced since, perhaps between two polls
        return state


def _with_admin_facts(state: TrayState, client: ApiClient) -> TrayState:
    """Return the state with the values that only administrators can read.

    If one request fails, its value stays as it was.
    """

    def ask(now: T, read: Callable[[Any], T], path: str, *query: tuple[str, str]) -> T:
        try:
            return _read_answer(client, read, path, *query)
        except Failure as failure:
            if failure.code in (_UNREACHABLE, _RESTS) or failure.exit_code == ACCESS:
                raise
            return now

    def ended(now: AuditOutcome | None, action: str) -> AuditOutcome | None:
        return ask(now, outcome_of, "/admin/audit-events", ("action", action), ("limit", "1"))

    return replace(
        state,
        last_backup=ask(state.last_backup, newest_backup, "/admin/backups", ("limit", "1")),
        https=ask(state.https, https_of, "/admin/https"),
        backup=ended(state.backup, "backup.create"),
        restore=ended(state.restore, "backup.restore"),
    )


def _without_admin_facts(state: TrayState) -> TrayState:
    return replace(state, last_backup=None, https=None, backup=None, restore=None)


def _get_request(path: str, *query: tuple[str, str]) -> ApiRequest:
    return ApiRequest("GET", path, query=query, timeout=_ANSWER_SECONDS)


def _read_answer(client: ApiClient, read: Callable[[Any], T], path: str, *query: tuple[str, str]) -> T:
    """Make a GET request and return the value that `read` extracts from the response.

    Raises Failure if the response has an unexpected form, as from another release of the appliance.
    """
    answer = client.call(_get_request(path, *query))
    try:
        return read(answer)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Failure("unexpected_answer", "The appliance answered something unexpected.", INTERNAL) from error
