"""A notification as desktops show them (org.freedesktop.Notifications). Where nobody shows any, nothing happens."""

from html import escape

from jeepney import DBusAddress, Message, MessageFlag, new_method_call

from mailbox_appliance.tray.host import Look
from mailbox_appliance.tray.icon import pixels
from mailbox_appliance.tray.session_bus import plain

_SERVICE = "org.freedesktop.Notifications"
_SIZE = 48
#: Characters; what is longer fills the screen of somebody who is busy with something else.
_LONGEST_TITLE, _LONGEST_TEXT = 100, 400


def notification(title: str, text: str) -> Message:
    """The message that shows it. No answer is wanted, so one that nobody shows is lost, and that is all."""
    asked = new_method_call(
        DBusAddress("/org/freedesktop/Notifications", _SERVICE, _SERVICE),
        "Notify",
        "susssasa{sv}i",
        (
            "Mailbox Appliance",
            0,
            "mailbox-appliance",
            plain(title)[:_LONGEST_TITLE],
            # Desktops read tags in it.
            escape(plain(text)[:_LONGEST_TEXT], quote=False),
            [],
            {"desktop-entry": ("s", "mailbox-appliance"), "image-data": ("(iiibiiay)", _image())},
            -1,
        ),
    )
    asked.header.flags = MessageFlag.no_reply_expected
    return asked


def _image() -> tuple[int, int, int, bool, int, int, bytes]:
    """Our icon: width, height, bytes a row, whether there is opacity, bits a colour, colours, pixels."""
    return _SIZE, _SIZE, _SIZE * 4, True, 8, 4, pixels(_SIZE, Look.WELL)
