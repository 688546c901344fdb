"""Addresses of this computer besides loopback: who asks over one of them is somebody from elsewhere."""

import os
import re
import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv6Address
from pathlib import Path

_IPV4 = re.compile(r"\|-- ([0-9.]+)\n\s+/32 host LOCAL")
_GLOBAL = "00"
# Addresses for documentation (RFC 5737, RFC 3849), at the loopback device: it needs no driver.
_NAMESPACE = """
ip link set lo up && ip address add 198.51.100.1/32 dev lo || exit 1
ip address add 2001:db8::1/128 dev lo nodad
exec "$@"
"""


def own_addresses() -> tuple[str, ...]:
    """One of IPv4 and one of IPv6, as far as there are any."""
    found = (next(filter(_can_be_listened_at, candidates), None) for candidates in (_ipv4(), _ipv6()))
    return tuple(address for address in found if address is not None)


def in_a_namespace(command: Sequence[str]) -> list[str]:
    """The command, in a network of its own where the computer has such addresses."""
    as_root = () if os.geteuid() == 0 else ("--map-root-user",)
    return ["unshare", "--net", *as_root, "sh", "-c", _NAMESPACE, "sh", *command]


def _ipv4() -> Iterator[str]:
    for address in _IPV4.findall(Path("/proc/net/fib_trie").read_text()):
        if not address.startswith("127."):
            yield address


def _ipv6() -> Iterator[str]:
    table = Path("/proc/net/if_inet6")
    for line in table.read_text().splitlines() if table.exists() else ():
        digits, _, _, scope, *_ = line.split()
        address = IPv6Address(bytes.fromhex(digits))
        if scope == _GLOBAL and not address.is_loopback:
            yield str(address)


def _can_be_listened_at(address: str) -> bool:
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listening:
            listening.bind((address, 0))
    except OSError:
        return False
    return True
