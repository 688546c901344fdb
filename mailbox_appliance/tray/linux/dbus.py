"""A connection to the D-Bus session bus of a Linux desktop, and notifications sent over it."""

import logging
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from selectors import EVENT_READ

from jeepney import DBusAddress, Message, MessageFlag, MessageType, new_method_call
from jeepney.bus import get_bus
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, prep_socket

from mailbox_appliance.tray.view import IconLook, icon_pixels

log = logging.getLogger(__name__)

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
            self._connection = DBusConnection(prep_socket(get_bus(address), timeout=_PATIENCE))
        except (OSError, ValueError, RuntimeError) as error:
            raise BusUnavailable(str(error)) from error
        # For sending: messages are read when data is there.
        self._connection.sock.settimeout(_PATIENCE)
        self._wakes, self._wake = os.pipe()
        # Data there, too, ends the wait for a message.
        self._connection.selector.register(self._wakes, EVENT_READ)
        # Reentrant, since a signal handler may call wake in the thread that closes.
        self._sending, self._closing = threading.Lock(), threading.RLock()
        self._is_closed = False
        #: The name that the bus assigned to this connection.
        self.name = str(self._connection.unique_name)

    def send(self, message: Message) -> None:
        """Send a message. Raises BusUnavailable."""
        try:
            with self._sending:
                self._connection.send(message)
        except OSError as error:
            with suppress(OSError):  # perhaps only a part was sent; the thread that reads notices the end
                self._connection.sock.shutdown(socket.SHUT_RDWR)
            raise BusUnavailable(str(error)) from error

    def call(self, message: Message) -> Message:
        """Send a message and return its reply, which may be an error; other messages that arrive before it are lost.

        Only for the thread that reads. Raises BusUnavailable if no reply arrives.
        """
        try:
            answer: Message = self._connection.send_and_get_reply(message, timeout=_PATIENCE)
        except OSError as error:
            raise BusUnavailable(str(error) or "the session bus does not answer") from error
        return answer

    def has_owner(self, name: str) -> bool:
        """Whether a program on the bus owns this bus name now."""
        answer = self.call(message_bus.NameHasOwner(name))
        return answer.header.message_type is MessageType.method_return and bool(answer.body[0])

    def receive(self, timeout: float | None = None) -> Message | None:
        """Return the next message; None after `timeout` seconds, a call of `wake`, or an unreadable message.

        Without `timeout`, wait without limit. Raises BusUnavailable.
        """
        try:
            message: Message = self._connection.receive(timeout=timeout)
        except TimeoutError:
            return None
        except OSError as error:
            raise BusUnavailable(str(error)) from error
        except Exception:  # noqa: BLE001 - any program of this user may have written it, in a later version of D-Bus
            log.warning("dbus_message_invalid")
            self._connection.parser.next_msg_size = None  # it was taken from the buffer
            return None
        return message

    def wake(self) -> None:
        """Make `receive` return None in the thread that reads, now and at every later call."""
        with self._closing:
            if not self._is_closed:
                os.write(self._wake, b"!")

    def close(self) -> None:
        """Close the connection. Only for the thread that reads."""
        with self._closing:
            if not self._is_closed:
                self._is_closed = True
                self._connection.close()
                os.close(self._wakes)
                os.close(self._wake)


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
