"""Where other computers reach the appliance, as far as the settings say; never taken from a request."""

import socket
from ipaddress import ip_address

from mailbox_appliance.settings import Settings


def lets_others_in(settings: Settings) -> bool:
    """Whether HTTPS is asked for at an address that is not this computer's alone."""
    host = settings.text("server.https_host")
    return settings.flag("server.https") and host != "localhost" and not (host and ip_address(host).is_loopback)


def https_url(settings: Settings, port: int | None) -> str | None:
    """Where HTTPS at this port answers to others; None: to nobody else.

    At all addresses, and at one that means something on this computer only, it is reached by the computer's name.
    """
    if not lets_others_in(settings):
        return None
    host = settings.text("server.https_host")
    if not host or "%" in host or ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"https://{in_url(host)}:{port}"


def in_url(host: str) -> str:
    """A host as it stands in a URL: an IPv6 address in brackets (RFC 3986 3.2.2)."""
    return f"[{host}]" if ":" in host else host
