"""Which addresses we connect to. The address that was checked is the one connected to, so a name cannot be rebound.

Never: link-local, metadata services, multicast, unspecified, reserved. `security: none`: only loopback and private.
What nobody who operates this computer has named (`only_public`) lies in no network of its own.
"""

import socket
import time
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import NoReturn

import idna

from mailbox_appliance.records import Security
from mailbox_appliance.remote.faults import SERVER_NAMES, RemoteFault, ServerName
from mailbox_appliance.remote.named_faults import fault as named
from mailbox_appliance.remote.named_faults import lookup_fault, socket_fault

MAX_CANDIDATES = 8
Address = IPv4Address | IPv6Address
#: Who looks a name up in the place of the system; raises OSError where there is none of that name.
Find = Callable[[str], Sequence[Address]]

_FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
_NAT64 = ip_network("64:ff9b::/96")  # RFC 6052
_PRIVATE = tuple(map(ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")))  # RFC 1918, RFC 4193
# IANA's registries of special addresses, as far as not every release of Python knows them.
_SPECIAL = tuple(map(ip_network, ("192.88.99.0/24", "64:ff9b:1::/48", "2001::/23", "3fff::/20", "5f00::/16")))
_FORBIDDEN = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",  # "this network" (RFC 1122): on many systems another name of the computer itself
            "169.254.0.0/16",
            "fe80::/10",
            "fec0::/10",
            # Metadata services of clouds that lie outside the link-local ranges.
            "100.100.100.200/32",
            "168.63.129.16/32",
            "192.0.0.192/32",
            "fd00:ec2::254/128",
            "fd20:ce::254/128",
        ),
    )
)


def is_allowed(address: Address, security: Security) -> bool:
    """Whether a mail server may be reached at this address in this way."""
    if isinstance(address, IPv6Address) and (translated := _translated(address)) is not None:
        # A gateway would take us there: nothing that is special on this computer or network may be named in this way.
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
    """Whether an address lies in the public internet, also behind a gateway that it names."""
    if isinstance(address, IPv6Address):
        if (inner := address.ipv4_mapped or _translated(address)) is not None:
            return is_public(inner)
        if (teredo := address.teredo) is not None:  # RFC 4380 4: the server's address, and the client's
            return all(map(is_public, teredo))
    return address.is_global and not any(address in network for network in _SPECIAL) and is_allowed(address, "tls")


def _translated(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address behind a translation gateway (NAT64, 6to4)."""
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else address.sixtofour


def connect(
    host: str,
    port: int,
    security: Security,
    timeout: float,
    *,
    server: ServerName,
    only_public: bool = False,
    find: Find | None = None,
) -> socket.socket:
    """A TCP connection to the first allowed address of the host that answers, within `timeout` seconds in all.

    `only_public`: no loopback and private addresses either. Raises RemoteFault: `forbidden_address`, `unreachable` or
    `timeout`.
    """
    found = _resolve(host, port, server, find)
    candidates = _public(found, server) if only_public else _allowed(found, security, server)
    deadline = time.monotonic() + timeout
    fault = named("port_blocked", server)
    for tried, (family, sockaddr) in enumerate(candidates):
        # An address that swallows packets must not use up the time of those after it.
        share = (deadline - time.monotonic()) / (len(candidates) - tried)
        if share <= 0:
            break
        try:
            return _open(family, sockaddr, share)
        except OSError as error:
            fault = socket_fault(server, error)
    raise fault


def _resolve(host: str, port: int, server: ServerName, find: Find | None) -> list[tuple[int, tuple[str, int]]]:
    try:
        name = host if host.isascii() else idna.encode(host, uts46=True).decode("ascii")
        if find is not None:
            given = _literal(name) or find(name)
            return [(_FAMILIES[address.version], (str(address), port)) for address in given] or _missing(name)
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError) as error:  # idna's errors are UnicodeErrors
        raise lookup_fault(server, error) from error
    # Without flow label and scope: an address that needs a scope is link-local.
    return [(family, (str(sockaddr[0]), port)) for family, _, _, _, sockaddr in found]


def _missing(name: str) -> NoReturn:
    raise OSError(f"{name} has no address")


def _literal(name: str) -> Sequence[Address]:
    try:
        return (ip_address(name),)
    except ValueError:
        return ()


def _public(found: list[tuple[int, tuple[str, int]]], server: ServerName) -> list[tuple[int, tuple[str, int]]]:
    public = [one for one in found if is_public(ip_address(one[1][0]))]
    if not public:
        reason = f"The {SERVER_NAMES[server]} server has no public address, and only those are connected to."
        raise RemoteFault(server, "forbidden_address", reason)
    return public[:MAX_CANDIDATES]


def _allowed(
    found: list[tuple[int, tuple[str, int]]], security: Security, server: ServerName
) -> list[tuple[int, tuple[str, int]]]:
    addresses = [ip_address(sockaddr[0]) for _, sockaddr in found]
    allowed = [one for one, address in zip(found, addresses, strict=True) if is_allowed(address, security)]
    if allowed:
        return allowed[:MAX_CANDIDATES]
    name = SERVER_NAMES[server]
    if any(is_allowed(address, "tls") for address in addresses):
        reason = f"The {name} server is outside this network: use security `tls` or `starttls` instead of `none`."
    else:
        reason = f"The {name} server has a link-local, reserved or metadata address, where we never connect."
    raise RemoteFault(server, "forbidden_address", reason)


def _open(family: int, sockaddr: tuple[str, int], timeout: float) -> socket.socket:
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
