"""Connect to external servers at allowed addresses, and create TLS contexts that always check certificate names.

The connection goes to the same IP address that was checked, so a later DNS answer cannot redirect it.

- Never allowed: link-local, multicast, unspecified, reserved and Teredo addresses, metadata services of clouds, and
  the appliance's own ports.
- Without TLS (security `none`): only loopback and private addresses.
- With `only_public`, for hosts that the operator did not configure: no loopback or private addresses.
"""

import functools
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import NoReturn

import idna

from mailbox_appliance.model.accounts import Security
from mailbox_appliance.remote.errors import (
    SERVER_NAMES,
    Contact,
    RemoteFault,
    ServerName,
    lookup_fault,
    named_fault,
    socket_fault,
)
from mailbox_appliance.remote.errors import named_fault as named
from mailbox_appliance.settings import BadSetting
from mailbox_appliance.system import ca_certificates

MAX_CANDIDATES = 8
Address = IPv4Address | IPv6Address
#: Replaces the system's name lookup; raises OSError for an unknown name.
AddressLookup = Callable[[str], Sequence[Address]]

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_NAT64 = ip_network("64:ff9b::/96")  # RFC 6052
_PRIVATE = tuple(map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")))  # RFC 1918, RFC 4193
# IANA's registries of special addresses, for releases of Python that lack some of them.
_SPECIAL = tuple(map(ip_network, ("192.88.99.0/24", "64:ff9b:1::/48", "2001::/23", "3fff::/20", "5f00::/16")))
_FORBIDDEN = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",  # "this network" (RFC 1122): on many systems another name for this computer
            "169.254.0.0/16",
            "fe80::/10",
            "fec0::/10",
            # Metadata services of clouds that lie outside the link-local ranges.
            "100.100.100.200/32",
            "168.63.129.16/32",
            "192.0.0.192/32",
            "fd00:ec2::254/128",  # Amazon EC2
            "fd00:ec2::23/128",  # Amazon EKS Pod Identity
            "fd20:ce::254/128",  # Google
            "fd00:c1::a9fe:a9fe/128",  # Oracle
            "fd00:42::42/128",  # Scaleway
            "2001::/32",  # Teredo (RFC 4380): a relay would connect to the IPv4 address inside it.
        ),
    )
)


def is_allowed(address: Address, security: Security) -> bool:
    """Whether a server at this address may be contacted with this security (`tls`, `starttls` or `none`).

    With `none`, only loopback and private addresses are allowed.
    """
    if isinstance(address, IPv6Address) and (translated := _translated_address(address)) is not None:
        # A gateway would connect there, so the address inside must be public.
        return security != "none" and translated.is_global and is_allowed(translated, security)
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return True
    if any(address in network for network in _FORBIDDEN) or address.is_multicast or address.is_unspecified:
        return False
    if address.is_link_local or address.is_reserved:
        return False
    return security != "none" or any(address in network for network in _PRIVATE)


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet.

    For an IPv6 address that a gateway translates to IPv4, the IPv4 address decides.
    """
    if isinstance(address, IPv6Address) and (inner := address.ipv4_mapped or _translated_address(address)) is not None:
        return is_public(inner)
    return address.is_global and not any(address in network for network in _SPECIAL) and is_allowed(address, "tls")


def is_near(address: Address) -> bool:
    """Whether an address belongs to this computer, or to a network that is not public."""
    return not is_public(address) or _is_own(address)


def _is_own(address: Address) -> bool:
    """Whether this computer itself has the address."""
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return True
    try:
        with socket.socket(_FAMILIES[address.version], socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


class OwnPorts:
    """The TCP ports on which this process listens. Mailboxes must not connect to them. Any thread may use it."""

    def __init__(self) -> None:
        self._ports: dict[int, int] = {}

    def add(self, listener: object, port: int) -> None:
        """Record that a listener has opened this port."""
        self._ports[id(listener)] = port

    def remove(self, listener: object) -> None:
        """Forget the port of a listener, if it has one."""
        self._ports.pop(id(listener), None)

    def __contains__(self, port: int) -> bool:
        return port in tuple(self._ports.values())


#: One object for the process: connecting and listening code share nothing else.
OWN_PORTS = OwnPorts()


def _translated_address(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which a gateway translates this IPv6 address (NAT64, 6to4), or None."""
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address.sixtofour


def open_connection(
    host: str,
    port: int,
    security: Security,
    timeout: float,
    *,
    server: ServerName,
    only_public: bool = False,
    find: AddressLookup | None = None,
    contact: Contact | None = None,
) -> socket.socket:
    """Connect over TCP to the first allowed address of a host that answers. The socket has no TLS yet.

    - security: decides which addresses are allowed (`is_allowed`).
    - timeout: seconds for all addresses together.
    - server: the server's name for faults.
    - only_public: do not allow loopback and private addresses.
    - find: looks up the host's addresses; None for the system's lookup.
    - contact: its `is_near` is set to whether the server is on this computer or in a network that is not public.
      If so, its `greet_by` also limits the time.

    Raises RemoteFault: `forbidden_address`, `unreachable` or `timeout`.
    """
    found = _resolve(host, port, server, find)
    candidates = _only_public(found, server) if only_public else _only_allowed(found, security, server)
    contact = contact or Contact()
    # If a public address came after a near one, the owner of the name would see there that the near port is closed.
    near = [one for one in candidates if is_near(ip_address(one[1][0]))]
    contact.is_near, candidates = bool(near), near or candidates
    deadline = min(time.monotonic() + timeout, contact.deadline)
    fault = named("port_blocked", server)
    for tried, (family, sockaddr) in enumerate(candidates):
        # An address that drops packets must not use up the time of the next ones.
        share = (deadline - time.monotonic()) / (len(candidates) - tried)
        if share <= 0:
            break
        try:
            return _open_socket(family, sockaddr, share)
        except OSError as error:
            fault = socket_fault(server, error)
    raise fault


def _resolve(host: str, port: int, server: ServerName, find: AddressLookup | None) -> list[tuple[int, tuple[str, int]]]:
    try:
        name = host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
        if find is not None:
            given = _parse_literal(name) or find(name)
            return [(_FAMILIES[address.version], (str(address), port)) for address in given] or _raise_no_address(name)
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError) as error:  # idna's errors are UnicodeErrors
        raise lookup_fault(server, error) from error
    # Without flow label and scope: an address that needs a scope is link-local.
    return [(family, (str(sockaddr[0]), port)) for family, _, _, _, sockaddr in found]


def _raise_no_address(name: str) -> NoReturn:
    raise OSError(f"{name} has no address")


def _parse_literal(name: str) -> Sequence[Address]:
    try:
        return (ip_address(name),)
    except ValueError:
        return ()


def _only_public(found: list[tuple[int, tuple[str, int]]], server: ServerName) -> list[tuple[int, tuple[str, int]]]:
    public = [one for one in found if is_public(ip_address(one[1][0]))]
    if not public:
        reason = f"The {SERVER_NAMES[server]} server has no public address, so it cannot be used."
        raise RemoteFault(server, "forbidden_address", reason)
    return public[:MAX_CANDIDATES]


def _only_allowed(
    found: list[tuple[int, tuple[str, int]]], security: Security, server: ServerName
) -> list[tuple[int, tuple[str, int]]]:
    addresses = [ip_address(sockaddr[0]) for _, sockaddr in found]
    allowed = [one for one, address in zip(found, addresses, strict=True) if is_allowed(address, security)]
    others = [one for one in allowed if not (one[1][1] in OWN_PORTS and _is_own(ip_address(one[1][0])))]
    if others:
        return others[:MAX_CANDIDATES]
    name = SERVER_NAMES[server]
    if allowed:
        reason = f"The {name} server has the appliance's own address and port. Check host and port."
        raise RemoteFault(server, "forbidden_address", reason)
    if any(is_allowed(address, "tls") for address in addresses):
        reason = f"The {name} server is outside this network: use security `tls` or `starttls` instead of `none`."
    else:
        reason = f"The {name} server has a link-local, reserved or metadata address, which is never allowed."
    raise RemoteFault(server, "forbidden_address", reason)


def _open_socket(family: int, sockaddr: tuple[str, int], timeout: float) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(sockaddr)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        connection.close()
        raise
    return connection


# --- TLS to other servers: the system's CAs plus a private one, TLS 1.2 or newer, names always checked ---


# X509_V_ERR_* of OpenSSL's x509_vfy.h
_NAME_MISMATCH = (62, 64)
_EXPIRED = 10
_NOT_YET_VALID = 9
#: A clock before this date is wrong, for example because a battery is empty.
_CODE_WRITTEN_AT = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
#: The two sides share no TLS version (RFC 8446 6.2, protocol_version).
_VERSION_TOO_OLD = frozenset(
    {"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "UNSUPPORTED_SSL_PROTOCOL_VERSION"}
)


def client_context(ca_file: str) -> ssl.SSLContext:
    """Return the TLS context for connections to servers: the system's CAs, and those in `ca_file` unless it is empty.

    It is cached until the file changes, because loading the system's CAs takes about 20 ms on Linux. Raises OSError
    (also as ssl.SSLError) if the file cannot be read or contains no certificate.
    """
    if sys.platform == "win32" or sys.platform == "darwin":
        # Contexts are cheap there, and connections that share one would wait for the handshake of a silent server.
        return _load_context(ca_file)
    else:
        return _cached_context(ca_file, Path(ca_file).stat().st_mtime_ns if ca_file else 0)


@functools.lru_cache(maxsize=4)
def _cached_context(ca_file: str, changed: int) -> ssl.SSLContext:  # noqa: ARG001 - part of the cache's key
    return _load_context(ca_file)


def _load_context(ca_file: str) -> ssl.SSLContext:
    context = ca_certificates.client_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file:
        context.load_verify_locations(ca_file)
    return context


def context_or_fault(server: ServerName, ca_file: str) -> ssl.SSLContext:
    """Return the TLS context for connections to servers. Raises RemoteFault if `ca_file` cannot be used.

    That fault is `unreachable`, which is retried: members cannot fix the file, and it may be usable the next time.
    """
    try:
        return client_context(ca_file)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        raise RemoteFault(server, "unreachable", _describe_bad_ca_file(ca_file, error)) from error


def require_ca_file(ca_file: str) -> None:
    """Raise BadSetting, with the file's path, if `ca_file` is set and cannot be used.

    Called when the appliance starts, so that the problem is not first reported for each mailbox.
    """
    if not ca_file:
        return  # So no start of the appliance loads the system's CAs.
    try:
        client_context(ca_file)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        raise BadSetting(_describe_bad_ca_file(ca_file, error)) from error


def _describe_bad_ca_file(ca_file: str, error: Exception) -> str:
    why = "contains no certificate (PEM)" if isinstance(error, ssl.SSLError) else "cannot be read"
    return f"{Path(ca_file).absolute()}, the file of the setting remote.ca_file, {why}."


def tls_fault(server: ServerName, error: ssl.SSLError, now: Callable[[], float] = time.time) -> RemoteFault:
    """Return the fault for a failed TLS handshake. `now`: the clock, to detect that this computer's time is wrong."""
    return named_fault(_fault_name_of(error, now), server)


def _fault_name_of(error: ssl.SSLError, now: Callable[[], float]) -> str:
    if not isinstance(error, ssl.SSLCertVerificationError):
        return "tls_too_old" if error.reason in _VERSION_TOO_OLD else "wrong_port"
    code = ca_certificates.verification_error(error)
    if code in _NAME_MISMATCH:
        return "certificate_name"
    if code in (_EXPIRED, _NOT_YET_VALID) and now() < _CODE_WRITTEN_AT:
        return "clock_skew"
    return {_EXPIRED: "certificate_expired", _NOT_YET_VALID: "certificate_not_yet_valid"}.get(
        code, "certificate_untrusted"
    )
