"""Where a request comes from and what it was made with; and whether this listener answers to such a request at all."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from mailbox_appliance.errors import HostNotAllowed
from mailbox_appliance.operations.caller import Origin
from mailbox_appliance.web.proxies import Proxies

# Header fields that only proxies write, as the starts of their WSGI names. Any of them, even an empty one, shows that
# the request did not begin on this computer; only configured proxies say who the client is (`proxies`).
_MARKS = (
    "\nHTTP_FORWARDED",
    "\nHTTP_VIA",
    "\nHTTP_X_FORWARDED_",
    "\nHTTP_X_REAL_IP",  # nginx, Traefik
    "\nHTTP_X_CLIENT_IP",
    "\nHTTP_X_ORIGINAL_FORWARDED_FOR",
    "\nHTTP_X_ENVOY_EXTERNAL_ADDRESS",
    "\nHTTP_CF_CONNECTING_IP",
    "\nHTTP_TRUE_CLIENT_IP",
)
_LOOPBACK_NAMES = frozenset({"localhost", "localhost.", "127.0.0.1", "[::1]"})


def origin_of(environ: Mapping[str, Any], proxies: Proxies) -> Origin:
    """Where a request comes from. One that a proxy marked is never of this computer, wherever the proxy runs; where it
    is from then, and whether it came by HTTPS all the way, only trusted proxies can tell.
    """
    address = environ.get("REMOTE_ADDR") or None
    is_secure = environ.get("wsgi.url_scheme") == "https"
    if not _is_forwarded(environ):
        return Origin(address, is_local=_is_loopback(address), is_secure=is_secure)
    if not proxies.trusts(address):
        return Origin(address, is_local=False, is_secure=is_secure)
    said = proxies.read_forwarded(environ)
    # Asked by plain HTTP it was listened to, however well the proxy asks us.
    return Origin(
        said.address or address, is_local=False, is_secure=is_secure if said.is_secure is None else said.is_secure
    )


def client_known(environ: Mapping[str, Any], proxies: Proxies) -> str | None:
    """The client's own address; None where a proxy marked the request and no trusted one says whom it is from."""
    address = environ.get("REMOTE_ADDR") or None
    if not _is_forwarded(environ):
        return address
    return proxies.read_forwarded(environ).address if proxies.trusts(address) else None


def bearer_token(environ: Mapping[str, Any]) -> str | None:
    """The token of `Authorization: Bearer TOKEN` (RFC 6750 2.1), or None."""
    scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


class AllowedHosts:
    """The names that the HTTP listener answers to: loopback ones and configured ones.

    A page of somebody else's, whose name was made to point here (DNS rebinding), sends its own name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = _LOOPBACK_NAMES | {_without_port(name.lower()) for name in names if name}

    def check(self, environ: Mapping[str, Any]) -> None:
        """Raises HostNotAllowed for a foreign Host, or a foreign Origin."""
        if environ.get("wsgi.url_scheme") == "https":
            return
        host = environ.get("HTTP_HOST", "")
        # HTTP/1.0 has no Host, and no browser speaks it. Health checks may; such a request is never local.
        if (host or environ.get("SERVER_PROTOCOL") != "HTTP/1.0") and not self._is_allowed(host):
            raise HostNotAllowed(header="Host")
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and not self._is_same_origin(origin, host):
            raise HostNotAllowed(header="Origin")

    def _is_allowed(self, host: str) -> bool:
        name = _without_port(host.lower())
        return name in self._names or _is_loopback_name(name)

    def _is_same_origin(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
            port = parts.port
        except ValueError:
            return False
        # Another program's page on this computer has a loopback name as well, but another port.
        return (
            parts.scheme in ("http", "https")
            and self._is_allowed(parts.netloc)
            and (port == _port(host) or not _is_loopback_name(_without_port(parts.netloc.lower())))
        )


def _is_loopback(address: str | None) -> bool:
    if address is None:
        return False
    if address in ("127.0.0.1", "::1"):
        return True
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return (getattr(parsed, "ipv4_mapped", None) or parsed).is_loopback


def _is_loopback_name(name: str) -> bool:
    """Whether a host, as a URL has it, always means the local computer: nobody can make such a name point elsewhere."""
    if name in _LOOPBACK_NAMES:
        return True
    try:
        return IPv4Address(name).is_loopback
    except ValueError:
        return False


def _is_forwarded(environ: Mapping[str, Any]) -> bool:
    """Whether a proxy made a request: it has a header field of one, or is HTTP/1.0, which nginx speaks by default."""
    if environ.get("SERVER_PROTOCOL") == "HTTP/1.0":
        return True
    # In one text they are looked for several times faster than name by name, and every request pays for it.
    names = "\n".join(("", *environ))
    return any(mark in names for mark in _MARKS)


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return (
        name
        if separator and (port.isdigit() or not port) and not (host.startswith("[") and host.endswith("]"))
        else host
    )


def _port(host: str) -> int | None:
    port = host.rpartition(":")[2]
    return int(port) if port.isascii() and port.isdigit() and len(port) <= 5 else None
