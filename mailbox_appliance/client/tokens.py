"""Stores the tokens of sessions: in the operating system's keychain or, without one, in a file with mode 0600.

`tokens.json` holds `{"file": {KEY: TOKEN}, "keychain": [KEY]}`, so the keychain is asked only for tokens it contains.
"""

from collections.abc import Mapping
from pathlib import Path

from mailbox_appliance.client import instances
from mailbox_appliance.client.errors import ACCESS, Failure

#: Seconds that the keychain has to store a token before the file is used instead.
_PROBED_WITHIN = 5.0


class TokenStore:
    """The session tokens of one user, one for each appliance. `key` in its methods is that of the `Instance`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._file, self._environment = folder / "tokens.json", environment
        wish = environment.get("MAILBOX_APPLIANCE_KEYCHAIN", "").lower()
        self._keychain_allowed = wish not in ("off", "0", "no", "false")

    @property
    def version(self) -> tuple[int, int] | None:
        """A value that changes whenever a token is stored or removed; None if this user has never signed in."""
        try:
            now = self._file.stat()
        except OSError:
            return None
        return now.st_ino, now.st_mtime_ns

    def has(self, key: str) -> bool:
        """Whether a token was stored for this key, in the file or the keychain.

        The keychain itself is not opened: its list of keys is kept in a file. So `find` may still fail if the keychain
        is locked.
        """
        in_file, in_keychain = self._places()
        return key in in_file or key in in_keychain

    def find(self, key: str) -> str | None:
        """Return the token for this key; None if there is none.

        Raises Failure if the token is in a keychain that is locked.
        """
        in_file, in_keychain = self._places()
        if key in in_file:
            return in_file[key]
        if key not in in_keychain or not self._keychain_allowed:
            return None
        from mailbox_appliance.system import keyring

        try:
            return keyring.find(key, environment=self._environment)
        except keyring.KeyringUnavailable as error:
            raise Failure(
                "keychain_locked",
                f"The keychain with the token cannot be read: {error}. Unlock it, or set MAILBOX_APPLIANCE_TOKEN.",
                ACCESS,
            ) from error

    def put(self, key: str, token: str) -> None:
        """Store the token for this key, replacing an earlier one."""
        in_file, in_keychain = self._places()
        in_file.pop(key, None)
        if self._put_into_keychain(key, token):
            in_keychain.add(key)
        else:
            in_file[key] = token
            in_keychain.discard(key)
        self._write(in_file, in_keychain)

    def remove(self, key: str) -> None:
        """Delete the token for this key."""
        in_file, in_keychain = self._places()
        if key in in_keychain:
            from mailbox_appliance.system import keyring

            try:
                keyring.remove(key, environment=self._environment)
            except keyring.KeyringUnavailable:
                pass  # The remaining token is revoked or no longer used.
        if key in in_file or key in in_keychain:
            in_file.pop(key, None)
            in_keychain.discard(key)
            self._write(in_file, in_keychain)

    def _put_into_keychain(self, key: str, token: str) -> bool:
        if not self._keychain_allowed:
            return False
        from mailbox_appliance.system import keyring

        try:
            keyring.put(key, token, environment=self._environment, deadline=_PROBED_WITHIN)
        except keyring.KeyringUnavailable:
            return False
        return True

    def _places(self) -> tuple[dict[str, str], set[str]]:
        values = instances.read_json(self._file)
        return dict(values.get("file", {})), set(values.get("keychain", ()))

    def _write(self, in_file: dict[str, str], in_keychain: set[str]) -> None:
        instances.write_json(self._file, {"file": in_file, "keychain": sorted(in_keychain)})
