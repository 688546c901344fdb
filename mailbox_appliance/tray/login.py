"""The session token that the tray uses: that of the user's session on this computer, which may be in a keychain.

A keychain may wait until the user unlocks it, so a separate thread reads it, and polling does not wait. The result is
kept until the user signs in or out on this computer, so that the keychain does not prompt with every poll.
"""

import threading
from collections.abc import Mapping

from mailbox_appliance.client.errors import ACCESS, Failure
from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.clock import Clock
from mailbox_appliance.tray.state import AccessLevel

#: Seconds that a poll waits for a keychain; most answer within a quarter of one.
PATIENCE = 2.0
#: Seconds until a locked keychain is read again, at first and at most: each time it may ask the user.
_AGAIN_AFTER, _AGAIN_AT_MOST = 60.0, 3600.0
TOKEN_VARIABLE = "MAILBOX_APPLIANCE_TOKEN"  # noqa: S105 - the name of a variable


class TrayLogin:
    """The tray's session token, read from the token store under `key`. Any thread may call the methods."""

    def __init__(self, tokens: TokenStore, key: str, environment: Mapping[str, str], clock: Clock) -> None:
        self._tokens, self._key, self._clock = tokens, key, clock
        self._given = environment.get(TOKEN_VARIABLE, "").strip() or None
        self._reading: _TokenRead | None = None
        self._stamp: object = None
        self._refused: str | None = None
        self._again_at, self._wait = 0.0, _AGAIN_AFTER

    @property
    def access(self) -> AccessLevel:
        """The tray's access while there is no token: LOCKED if a keychain cannot be read, else NOBODY."""
        failure = self._failure
        return AccessLevel.LOCKED if failure is not None and failure.code == "keychain_locked" else AccessLevel.NOBODY

    @property
    def token(self) -> str:
        """The token. Raises Failure with the reason if it is not known."""
        if (failure := self._failure) is not None:
            raise failure
        found = self._known_token
        if found is None or found == self._refused:
            raise _not_logged_in()
        return found

    def find_token(self) -> str | None:
        """Return the token; None if it is not known. If it must be read again, do that and wait for a short time."""
        if self.is_due:
            self._start_read().wait(PATIENCE)
        try:
            return self.token
        except Failure:
            return None

    def forget_token(self, token: str) -> None:
        """Do not use this token any more, since the appliance rejected it.

        `find_token` returns only a different one.
        """
        self._refused = token

    def retry_keychain(self) -> None:
        """Let the next poll read a locked keychain again."""
        self._again_at, self._wait = 0.0, _AGAIN_AFTER

    @property
    def is_due(self) -> bool:
        """Whether the next poll reads the token again.

        It does so if the user has signed in or out on this computer, or some time after a keychain could not be read.
        """
        if self._given is not None:
            return False
        if self._reading is None or self._tokens.version != self._stamp:
            return True
        failure = self._reading.failure
        return failure is not None and not self._reading.is_running and self._clock.monotonic() >= self._again_at

    def _start_read(self) -> "_TokenRead":
        self._stamp = self._tokens.version  # before the read, so that a token stored during it is read again
        self._again_at = self._clock.monotonic() + self._wait
        self._wait = min(self._wait * 2, _AGAIN_AT_MOST)
        self._reading = _TokenRead(self._tokens, self._key)
        return self._reading

    @property
    def _known_token(self) -> str | None:
        if self._given is not None:
            return self._given
        return None if self._reading is None else self._reading.token

    @property
    def _failure(self) -> Failure | None:
        reading = None if self._given is not None else self._reading
        if reading is None:
            return None
        return _keychain_locked() if reading.is_running else reading.failure


class _TokenRead:
    """A thread that reads the token once, and its result."""

    def __init__(self, tokens: TokenStore, key: str) -> None:
        self.token: str | None = None
        self.failure: Failure | None = None
        self._is_over = threading.Event()
        threading.Thread(target=self._read, args=(tokens, key), name="log-in", daemon=True).start()

    @property
    def is_running(self) -> bool:
        """Whether the thread is still reading."""
        return not self._is_over.is_set()

    def wait(self, seconds: float) -> None:
        """Wait until the thread has ended, at most `seconds`."""
        self._is_over.wait(seconds)

    def _read(self, tokens: TokenStore, key: str) -> None:
        try:
            self.token = tokens.find(key)
        except Failure as failure:
            self.failure = failure
        except OSError as error:
            self.failure = Failure("local_file_damaged", f"The session cannot be read: {error}", ACCESS)
        finally:
            self._is_over.set()


def _not_logged_in() -> Failure:
    message = "You are not signed in on this computer. Choose “Sign in…” in the menu."
    return Failure("unauthenticated", message, ACCESS)


def _keychain_locked() -> Failure:
    message = "The keychain with your session has not answered yet. Unlock it if it asks for that."
    return Failure("keychain_locked", message, ACCESS)
