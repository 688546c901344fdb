"""A keychain of a desktop whose user is away: a Secret Service that is locked, and whose prompt nobody answers."""

import threading
from pathlib import Path

from jeepney import HeaderFields, Message, MessageType, new_error, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.threading import ReceiveStopped, open_dbus_connection

from tests.servers.session_bus import SessionBus

_NAME, _PROMPT = "org.freedesktop.secrets", "/org/freedesktop/secrets/prompt/1"
_PATIENCE = 10.0


class PromptingKeychain:
    """The service on a bus of its own; `environment` leads a process there."""

    def __init__(self, folder: Path) -> None:
        self._bus = SessionBus(folder).start()
        self.environment = self._bus.environment
        self._connection = open_dbus_connection(self._bus.address)
        self._thread = threading.Thread(target=self._serve, name="prompting keychain", daemon=True)
        self._thread.start()
        asked = threading.Event()
        self._on_name = asked.set
        self._connection.send(message_bus.RequestName(_NAME))
        assert asked.wait(_PATIENCE), f"{_NAME} is not ours"

    def stop(self) -> None:
        self._connection.interrupt()
        self._thread.join(_PATIENCE)
        self._connection.close()
        self._bus.stop()

    def _serve(self) -> None:
        try:
            while True:
                message = self._connection.receive()
                if message.header.message_type is MessageType.method_call:
                    self._connection.send(self._answer(message))
                elif message.header.fields.get(HeaderFields.member) == "NameAcquired" and message.body == (_NAME,):
                    self._on_name()
        except (ReceiveStopped, OSError):
            return

    def _answer(self, message: Message) -> Message:
        member = message.header.fields[HeaderFields.member]
        if member == "Get":
            values = {"Label": ("s", "Login"), "Locked": ("b", True)}
            return new_method_return(message, "v", (values[message.body[1]],))
        if member == "Unlock":
            return new_method_return(message, "aoo", ([], _PROMPT))
        if member == "Prompt":
            return new_method_return(message)  # and `Completed` is never told
        return new_error(message, "org.freedesktop.DBus.Error.NotSupported", "s", (member,))
