"""Finds out how the appliance is: from outside, by its lock and `run.json`, and by what the API answers to the log-in.

What was known stays known while the appliance does not answer, so that afterwards only what is new is told.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from mailbox_appliance.clock import Clock, SystemClock
from mailbox_appliance.control.client import Client, Request
from mailbox_appliance.control.failures import ACCESS, INTERNAL, Failure
from mailbox_appliance.control.instances import get_local, local_key
from mailbox_appliance.control.local import find_setup_code
from mailbox_appliance.control.tokens import Tokens
from mailbox_appliance.tray import answers, presence
from mailbox_appliance.tray.log_in import LogIn
from mailbox_appliance.tray.presence import Presence
from mailbox_appliance.tray.state import Access, Service, State

T = TypeVar("T")
#: Seconds between two times that what costs more is asked for.
DEAR_EVERY = 30.0
#: Seconds that a starting appliance has until it counts as one that does not answer.
STARTS_WITHIN = 60.0
#: Seconds that the appliance has for an answer.
_ANSWERS_WITHIN = 5.0
_UNREACHABLE, _RESTS = "appliance_unreachable", "provider_unavailable"
#: What is forgotten when the log-in has ended.
_NOTHING = State(Service.ANSWERS)


class Watcher:
    """Looks at the appliance of one data directory. `look` blocks, one at a time; the rest is for any thread."""

    def __init__(
        self, data_dir: Path, tokens: Tokens, environment: Mapping[str, str], clock: Clock | None = None
    ) -> None:
        self._data_dir, self._clock = data_dir, clock or SystemClock()
        self._log_in = LogIn(tokens, local_key(data_dir), environment, self._clock)
        self._known = State(Service.STOPPED)
        self._one_look = threading.Lock()
        self._owner: int | None = None
        self._owned_since = 0.0
        self._has_answered = False
        self._asked_with: str | None = None
        self._dear_at = 0.0

    def look(self) -> State:
        """How everything is now."""
        with self._one_look:
            self._known = self._seen(presence.find(self._data_dir))
            return self._known

    def hurry(self) -> None:
        """Ask for everything with the next look: something was done just now."""
        self._dear_at = 0.0

    def ask_keychain(self) -> None:
        """Ask a keychain that was locked again with the next look."""
        self._log_in.ask_again()

    def client(self) -> Client:
        """A client that asks by the log-in. Raises Failure: nothing runs, nobody is logged in, a keychain is locked."""
        return Client(get_local(self._data_dir).url, self._log_in.token)

    def _seen(self, found: Presence | None) -> State:
        if found is None:
            self._owner, self._has_answered = None, False
            return replace(self._known, service=Service.STOPPED, url=None, setup_code=None, is_kept=False)
        if found.pid != self._owner or self._owner is None:
            self._begin_with(found)
        known = replace(self._known, url=found.url, is_kept=found.is_kept)
        if found.url is None:
            return replace(known, service=self._without_answer(found))
        try:
            state = self._asked(replace(known, service=Service.ANSWERS), found.url)
        except Failure as failure:
            return self._failed(known, found, failure)
        self._has_answered = True
        return state

    def _begin_with(self, found: Presence) -> None:
        if self._owner != found.pid or not self._owned_since:
            self._owned_since = self._clock.monotonic()
        self._owner, self._has_answered = found.pid, False
        self.hurry()

    def _failed(self, known: State, found: Presence, failure: Failure) -> State:
        if failure.code == _UNREACHABLE:
            return replace(known, service=self._without_answer(found))
        self._has_answered = True
        if failure.code == _RESTS:
            self.hurry()  # what comes after it may be another store
            return replace(known, service=Service.RESTS)
        return replace(known, service=Service.ANSWERS)  # it has trouble with this very question

    def _without_answer(self, found: Presence) -> Service:
        if self._has_answered:
            return Service.SILENT if found.url is not None else Service.STOPPING
        is_new = self._clock.monotonic() - self._owned_since < STARTS_WITHIN
        return Service.STARTING if is_new else Service.SILENT

    # --- what the API is asked ---

    def _asked(self, known: State, url: str) -> State:
        token = self._log_in.look()
        if token is None:
            return self._unknown(url)
        try:
            return self._as_member(known, Client(url, token), token)
        except Failure as failure:
            if failure.exit_code != ACCESS:
                raise
            self._log_in.refused(token)
            return self._unknown(url)

    def _unknown(self, url: str) -> State:
        """What anybody may know."""
        about = Client(url).call(_question(""))
        code = find_setup_code(self._data_dir) if about.get("setupRequired") else None
        self._asked_with = None
        return replace(_NOTHING, url=url, setup_code=code, access=self._log_in.access, is_kept=self._known.is_kept)

    def _as_member(self, known: State, client: Client, token: str) -> State:
        status, accounts = client.call(_question("/status")), client.call(_question("/accounts"))
        state = _read(lambda: answers.with_status(replace(known, setup_code=None), status, accounts))
        if token == self._asked_with and self._clock.monotonic() < self._dear_at:
            return state
        self._dear_at, self._asked_with = self._clock.monotonic() + DEAR_EVERY, token
        access = _read(lambda: answers.access_of(client.call(_question("/me"))))
        state = replace(state, access=access)
        return _as_administrator(state, client) if access is Access.ADMINISTRATOR else _without_administration(state)


def _as_administrator(state: State, client: Client) -> State:
    def asked(path: str, read: Callable[[Any], Any], *query: tuple[str, str]) -> Any:
        return _read(lambda: read(client.call(_question(path, *query))))

    def ended(action: str) -> Any:
        return asked("/admin/audit-events", answers.outcome_of, ("action", action), ("limit", "1"))

    return replace(
        state,
        last_backup=asked("/admin/backups", answers.newest_backup, ("limit", "1")),
        https=asked("/admin/https", answers.https_of),
        backup=ended("backup.create"),
        restore=ended("backup.restore"),
    )


def _without_administration(state: State) -> State:
    return replace(state, last_backup=None, https=None, backup=None, restore=None)


def _question(path: str, *query: tuple[str, str]) -> Request:
    return Request("GET", path, query=query, timeout=_ANSWERS_WITHIN)


def _read(reading: Callable[[], T]) -> T:
    """What an answer says. One that cannot be read, as of another release, is a Failure."""
    try:
        return reading()
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise Failure("unexpected_answer", "The appliance answered something unexpected.", INTERNAL) from error
