"""A real keychain that can be locked: gnome-keyring on a D-Bus session of its own, in folders of the test."""

import subprocess
import time
from pathlib import Path

import secretstorage
from jeepney import DBusAddress, new_method_call
from jeepney.io.blocking import DBusConnection, open_dbus_connection

from tests.servers.session_bus import SessionBus

_BUS = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
_NAME = "org.freedesktop.secrets"
_PATIENCE = 20.0


class SecretService:
    """A session bus with a Secret Service on it; `environment` leads a process there, and to nothing of the user's."""

    def __init__(self, folder: Path) -> None:
        self._bus = SessionBus(folder).start()
        self.environment = self._bus.environment
        self._daemon: subprocess.Popen[bytes] | None = None
        self.unlock()

    def lock(self) -> None:
        """Lock the keychain: who asks is to be prompted, and there is no display for that."""
        connection = self._connected()
        try:
            secretstorage.get_default_collection(connection).lock()
        finally:
            connection.close()

    def unlock(self) -> None:
        """Have the keychain open, as a log-in to a desktop does."""
        self._stop_daemon()
        self._daemon = subprocess.Popen(
            ("gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"),
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert self._daemon.stdin is not None
        with self._daemon.stdin as typed:
            typed.write(b"log-in password")
        self._wait(is_there=True)

    def stop(self) -> None:
        self._stop_daemon()
        self._bus.stop()

    def _stop_daemon(self) -> None:
        if self._daemon is not None:
            self._daemon.terminate()
            self._daemon.wait(10)
            self._wait(is_there=False)
            self._daemon = None

    def _connected(self) -> DBusConnection:
        return open_dbus_connection(self._bus.address)

    def _wait(self, *, is_there: bool) -> None:
        connection, deadline = self._connected(), time.monotonic() + _PATIENCE
        try:
            while self._is_there(connection) is not is_there:
                assert time.monotonic() < deadline, "gnome-keyring does not get on"
                time.sleep(0.01)
        finally:
            connection.close()

    @staticmethod
    def _is_there(connection: DBusConnection) -> bool:
        asked = new_method_call(_BUS, "NameHasOwner", "s", (_NAME,))
        return bool(connection.send_and_get_reply(asked, timeout=_PATIENCE).body[0])
