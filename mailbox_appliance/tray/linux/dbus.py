"""A connection to the D-Bus session bus of a Linux desktop, and notifications sent over it.

jeepney only encodes and decodes messages here. Its own connections read messages of any size, and one unreadable
message breaks all that follow.
"""

import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from itertools import count
from pathlib import Path

from jeepney import DBusAddress, HeaderFields, Message, MessageFlag, MessageType, new_method_call
from jeepney.bus import get_bus
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import prep_socket
from jeepney.low_level import calc_msg_size

from mailbox_appliance.tray.view import IconLook, icon_pixels

log = logging.getLogger(__name__)

#: Maximum bytes of a message. Requests about an icon and its menu have some hundred.
LARGEST = 1 << 20
_HEADER = 16
#: Seconds until a bus that accepts or answers nothing counts as gone.
_PATIENCE = 5.0


class BusUnavailable(Exception):
    """There is no session bus, or the connection to it has ended."""


def bus_address(environment: Mapping[str, str]) -> str | None:
    """Return the address of this user's session bus; None if there is none."""
    if named := environment.get("DBUS_SESSION_BUS_ADDRESS"):
        return named
    usual = Path(environment.get("XDG_RUNTIME_DIR") or "/nonexistent", "bus")
    return f"unix:path={usual}" if usual.is_socket() else None


def to_bus_text(text: str) -> str:
    """Return the text without zero bytes and lone surrogates.

    A bus closes the connection of a program that sends them.
    """
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


class SessionBus:
    """A connection to the session bus at `address`. One thread reads; any thread may send or call `wake`."""

    def __init__(self, address: str) -> None:
        try:
            self._socket: socket.socket = prep_socket(get_bus(address), timeout=_PATIENCE)
        except (OSError, ValueError, RuntimeError) as error:
            raise BusUnavailable(str(error)) from error
        # Only sending blocks: messages are read when data is there.
        self._socket.settimeout(_PATIENCE)
        self._wakes, self._wake = os.pipe()
        self._read = bytearray()
        self._skip = 0
        self._waiting = deque[Message]()
        self._serials = count(1)
        # Reentrant, since a signal handler may call close or wake in this thread.
        self._sending, self._closing = threading.Lock(), threading.RLock()
        self._is_closed = False
        #: The name that the bus assigned to this connection.
        self.name = str(self._say_hello().body[0])

    def _say_hello(self) -> Message:
        try:
            return self.call(message_bus.Hello())
        except BusUnavailable:
            self.close()
            raise

    def send(self, message: Message) -> int:
        """Send a message and return its serial number, which a reply quotes. Raises BusUnavailable."""
        serial = next(self._serials)
        written = message.serialise(serial=serial)
        try:
            with self._sending:
                self._socket.sendall(written)
        except OSError as error:
            self._abort()
            raise BusUnavailable(str(error)) from error
        return serial

    def call(self, message: Message) -> Message:
        """Send a message and return its reply, which may be an error. Only for the thread that reads.

        Other messages that arrive before the reply are kept, and the next calls of `receive` return them. Raises
        BusUnavailable if no reply arrives.
        """
        serial, deadline, before = self.send(message), time.monotonic() + _PATIENCE, list[Message]()
        while (answer := self.receive(deadline - time.monotonic())) is not None:
            if answer.header.fields.get(HeaderFields.reply_serial) == serial:
                self._waiting.extend(before)
                return answer
            before.append(answer)
        raise BusUnavailable("the session bus does not answer")

    def has_owner(self, name: str) -> bool:
        """Whether a program on the bus owns this bus name now."""
        answer = self.call(message_bus.NameHasOwner(name))
        return answer.header.message_type is MessageType.method_return and bool(answer.body[0])

    def receive(self, timeout: float | None = None) -> Message | None:
        """Return the next message; None after `timeout` seconds or a call of `wake`.

        Without `timeout`, wait without limit.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (message := self._next_message()) is None:
            rest = None if deadline is None else max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select((self._socket.fileno(), self._wakes), (), (), rest)
            if self._wakes in ready:
                os.read(self._wakes, 64)
                return None
            if not ready:
                return None
            self._receive_bytes()
        return message

    def wake(self) -> None:
        """Make `receive` return None in the thread that reads."""
        with self._closing:
            if not self._is_closed:
                os.write(self._wake, b"!")

    def close(self) -> None:
        """Close the connection. Only for the thread that reads."""
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._socket.close()
                os.close(self._wakes)
                os.close(self._wake)

    def _abort(self) -> None:
        """End the connection after only a part of a message was sent. The thread that reads notices that."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _receive_bytes(self) -> None:
        try:
            arrived = self._socket.recv(65536)
        except OSError as error:
            raise BusUnavailable(str(error)) from error
        if not arrived:
            raise BusUnavailable("the session bus has ended")
        skipped = min(self._skip, len(arrived))
        self._skip -= skipped
        self._read += arrived[skipped:]

    def _next_message(self) -> Message | None:
        if self._waiting:
            return self._waiting.popleft()
        while len(self._read) >= _HEADER:
            size = self._message_size()
            if size > LARGEST:
                self._skip = max(0, size - len(self._read))
                del self._read[:size]
            elif len(self._read) < size:
                return None
            else:
                written = bytes(self._read[:size])
                del self._read[:size]
                if (message := _parse_message(written)) is not None:
                    return message
        return None

    def _message_size(self) -> int:
        try:
            return int(calc_msg_size(bytes(self._read[:_HEADER])))
        except Exception as error:  # no bus writes that, and the end of the message is unknown
            raise BusUnavailable("the session bus does not speak D-Bus") from error


def _parse_message(written: bytes) -> Message | None:
    """Return the message in these bytes; None for one that jeepney cannot decode, such as one of a later D-Bus
    version.
    """
    try:
        message: Message = Message.from_buffer(written)
    except Exception:  # noqa: BLE001 - any program of this user may have written it
        log.warning("dbus_message_invalid")
        return None
    return message


# --- Notifications (org.freedesktop.Notifications). If no program shows them, nothing happens ---


_SERVICE = "org.freedesktop.Notifications"
_SIZE = 48
#: Maximum characters; a longer text covers too much of the screen.
_LONGEST_TITLE, _LONGEST_TEXT = 100, 400


def make_notification(title: str, text: str) -> Message:
    """Return the D-Bus message that shows a notification.

    It requests no reply: if no program shows notifications, it is lost without an error.
    """
    asked = new_method_call(
        DBusAddress("/org/freedesktop/Notifications", _SERVICE, _SERVICE),
        "Notify",
        "susssasa{sv}i",
        (
            "Mailbox Appliance",
            0,
            "mailbox-appliance",
            to_bus_text(title)[:_LONGEST_TITLE],
            # Desktops interpret tags in the text.
            escape(to_bus_text(text)[:_LONGEST_TEXT], quote=False),
            [],
            {"desktop-entry": ("s", "mailbox-appliance"), "image-data": ("(iiibiiay)", _icon_image_data())},
            -1,
        ),
    )
    asked.header.flags = MessageFlag.no_reply_expected
    return asked


def _icon_image_data() -> tuple[int, int, int, bool, int, int, bytes]:
    """Return the icon as notifications need it.

    In this order: width, height, bytes per row, whether it has opacity, bits per color, number of colors, pixels.
    """
    return _SIZE, _SIZE, _SIZE * 4, True, 8, 4, icon_pixels(_SIZE, IconLook.WELL)
