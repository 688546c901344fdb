"""The session token that the tray uses: that of the user's session on this computer, which may be in a keychain.

A keychain may wait until the user unlocks it, so a separate thread reads it, and polling does not wait. The result is
kept until the user signs in or out on this computer, so that the keychain does not prompt with every poll.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import Future, wait

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
        self._reading: Future[str | None] | None = None
        self._stamp: object = None
        self._refused: str | None = None
        self.retry_keychain()

    @property
    def access(self) -> AccessLevel:
        """The tray's access while there is no token: LOCKED if a keychain cannot be read, else NOBODY."""
        try:
            self._read_token()
        except Failure as failure:
            return AccessLevel.LOCKED if failure.code == "keychain_locked" else AccessLevel.NOBODY
        return AccessLevel.NOBODY

    @property
    def token(self) -> str:
        """The token. Raises Failure with the reason if it is not known."""
        found = self._read_token()
        if found is None or found == self._refused:
            message = "You are not signed in on this computer. Choose “Sign in…” in the menu."
            raise Failure("unauthenticated", message, ACCESS)
        return found

    def find_token(self) -> str | None:
        """Return the token; None if it is not known. If it must be read again, do that and wait for a short time."""
        if self.is_due:
            wait([self._start_read()], PATIENCE)
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
        has_failed = self._reading.done() and self._reading.exception() is not None
        return has_failed and self._clock.monotonic() >= self._again_at

    def _start_read(self) -> "Future[str | None]":
        self._stamp = self._tokens.version  # before the read, so that a token stored during it is read again
        self._again_at = self._clock.monotonic() + self._wait
        self._wait = min(self._wait * 2, _AGAIN_AT_MOST)
        self._reading = Future()
        reading = (self._reading, self._tokens, self._key)
        threading.Thread(target=_read_into, args=reading, name="log-in", daemon=True).start()
        return self._reading

    def _read_token(self) -> str | None:
        reading = self._reading
        if self._given is not None or reading is None:
            return self._given
        if not reading.done():
            message = "The keychain with your session has not answered yet. Unlock it if it asks for that."
            raise Failure("keychain_locked", message, ACCESS)
        return reading.result()


def _read_into(reading: "Future[str | None]", tokens: TokenStore, key: str) -> None:
    try:
        reading.set_result(tokens.find(key))
    except OSError as error:
        reading.set_exception(Failure("local_file_damaged", f"The session cannot be read: {error}", ACCESS))
    except Exception as error:  # noqa: BLE001 - raised where the token is used
        reading.set_exception(error)
