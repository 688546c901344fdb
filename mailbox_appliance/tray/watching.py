"""Finds out how the appliance is: from outside, by its lock and `run.json`, and by what the API answers to the log-in.

What was known stays known while the appliance does not answer, so that afterwards only what is new is told.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mailbox_appliance.client.errors import ACCESS, INTERNAL, Failure
from mailbox_appliance.client.http import ApiClient, ApiRequest
from mailbox_appliance.client.instances import local_key
from mailbox_appliance.client.local import find_setup_code
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.clock import Clock, SystemClock
from mailbox_appliance.system import crashes
from mailbox_appliance.tray import answers, presence
from mailbox_appliance.tray.log_in import LogIn
from mailbox_appliance.tray.presence import Presence
from mailbox_appliance.tray.state import Access, Outcome, Service, State

T = TypeVar("T")
#: Seconds between two times that what costs more is asked for.
DEAR_EVERY = 120.0
#: Seconds by which an appliance must have begun later than before to be another one, as after a restore.
_ANOTHER = 3.0
#: Seconds that a starting appliance has until it counts as one that does not answer.
STARTS_WITHIN = 60.0
#: Seconds that the appliance has for an answer.
_ANSWERS_WITHIN = 5.0
_UNREACHABLE, _RESTS, _ENDED = "appliance_unreachable", "provider_unavailable", "unauthenticated"


class Watcher:
    """Looks at the appliance of one data directory. `look` blocks, one at a time; the rest is for any thread."""

    def __init__(
        self, data_dir: Path, tokens: TokenStore, environment: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        self._data_dir, self._clock = data_dir, clock or SystemClock()
        self._login = LogIn(tokens, local_key(data_dir), environment, self._clock)
        self._known = State(Service.STOPPED)
        self._one_look = threading.Lock()
        self._found: Presence | None = None
        self._owner: Presence | None = None
        self._owned_since = 0.0
        self._has_answered = False
        self._asked_with: str | None = None
        self._poll_all_at = self._began_at = 0.0

    def poll(self) -> State:
        """How everything is now."""
        with self._one_look:
            self._found = presence.find(self._data_dir)
            # From the file, as the log-in may be a member's: whoever has the data directory is its operator.
            self._known = replace(self._state_of(self._found), last_crash=crashes.find(self._data_dir))
            return self._known

    def has_news(self) -> bool:
        """Whether a look would find something else, as far as that is seen without asking the appliance."""
        return presence.find(self._data_dir) != self._found or self._login.is_due

    def poll_all_next(self) -> None:
        """Ask for everything with the next look: something was done just now."""
        self._poll_all_at = 0.0

    def retry_keychain(self) -> None:
        """Ask a keychain that was locked again with the next look."""
        self._login.retry_keychain()

    def client(self) -> ApiClient:
        """A client that asks by the log-in. Raises Failure: nothing runs, nobody is logged in, a keychain is locked."""
        return ApiClient(presence.url(self._data_dir), self._login.token)

    def _state_of(self, found: Presence | None) -> State:
        known = replace(self._known, url=None, setup_code=None, is_kept=False)
        if found is None:
            self._owner = None
            return replace(known, service=Service.STOPPED)
        if self._owner is None or self._owner.pid != found.pid:
            self._owner, self._owned_since, self._has_answered = found, self._clock.monotonic(), False
            self.poll_all_next()
        return self._query_if_reachable(replace(known, url=found.url, is_kept=found.is_kept), found)

    def _query_if_reachable(self, known: State, found: Presence) -> State:
        if found.url is None:
            return replace(known, service=self._state_without_answer(found))
        try:
            state = self._query(replace(known, service=Service.ANSWERS), found.url)
        except Failure as failure:
            return self._state_after_failure(known, found, failure)
        self._has_answered = True
        return state

    def _state_after_failure(self, known: State, found: Presence, failure: Failure) -> State:
        if failure.code == _UNREACHABLE:
            return replace(known, service=self._state_without_answer(found))
        self._has_answered = True
        if failure.code == _RESTS:
            self.poll_all_next()  # what comes after it may be another store
            return replace(known, service=Service.RESTS)
        return replace(known, service=Service.ANSWERS)  # it has trouble with this very question

    def _state_without_answer(self, found: Presence) -> Service:
        if self._has_answered:
            return Service.SILENT if found.url is not None else Service.STOPPING
        is_new = self._clock.monotonic() - self._owned_since < STARTS_WITHIN
        return Service.STARTING if is_new else Service.SILENT

    # --- what the API is asked ---

    def _query(self, known: State, url: str) -> State:
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

    def _anonymous_state(self, known: State, url: str) -> State:
        """What anybody may know; the rest is forgotten."""
        self._asked_with = None
        is_new = _read(ApiClient(url), answers.is_to_be_set_up, "")
        code = find_setup_code(self._data_dir) if is_new else None
        return State(Service.ANSWERS, url, code, self._login.access, is_kept=known.is_kept)

    def _query_as_member(self, known: State, client: ApiClient, token: str) -> State:
        accounts = client.call(_question("/accounts"))
        state = _read(client, lambda status: self._with_status(known, status, accounts), "/status")
        if token == self._asked_with and self._clock.monotonic() < self._poll_all_at:
            return state
        self._poll_all_at, self._asked_with = self._clock.monotonic() + DEAR_EVERY, token
        state = replace(state, access=_read(client, answers.access_of, "/me"))
        return _administered(state, client) if state.access is Access.ADMINISTRATOR else _without_administration(state)

    def _with_status(self, known: State, status: answers.Json, accounts: answers.Json) -> State:
        state = answers.with_status(known, status, accounts)
        before, self._began_at = self._began_at, self._clock.monotonic() - answers.uptime_of(status)
        if self._began_at > before + _ANOTHER:
            self.poll_all_next()  # it rested since, and was perhaps not met at that
        return state


def _administered(state: State, client: ApiClient) -> State:
    """With what administrators may know. What has trouble of its own stays as it was known."""

    def ask(now: T, read: Callable[[Any], T], path: str, *query: tuple[str, str]) -> T:
        try:
            return _read(client, read, path, *query)
        except Failure as failure:
            if failure.code in (_UNREACHABLE, _RESTS) or failure.exit_code == ACCESS:
                raise
            return now

    def ended(now: Outcome | None, action: str) -> Outcome | None:
        return ask(now, answers.outcome_of, "/admin/audit-events", ("action", action), ("limit", "1"))

    return replace(
        state,
        last_backup=ask(state.last_backup, answers.newest_backup, "/admin/backups", ("limit", "1")),
        https=ask(state.https, answers.https_of, "/admin/https"),
        backup=ended(state.backup, "backup.create"),
        restore=ended(state.restore, "backup.restore"),
    )


def _without_administration(state: State) -> State:
    return replace(state, last_backup=None, https=None, backup=None, restore=None)


def _question(path: str, *query: tuple[str, str]) -> ApiRequest:
    return ApiRequest("GET", path, query=query, timeout=_ANSWERS_WITHIN)


def _read(client: ApiClient, read: Callable[[Any], T], path: str, *query: tuple[str, str]) -> T:
    """What an answer says. One that cannot be read, as of another release, is a Failure."""
    answer = client.call(_question(path, *query))
    try:
        return read(answer)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Failure("unexpected_answer", "The appliance answered something unexpected.", INTERNAL) from error
