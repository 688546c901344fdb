"""DNS lookups (RFC 1034, RFC 1035): services, mail exchangers, aliases, addresses.

Only the system's resolver or the configured one is asked. Results are limited in number. A host name that looks like an
IP address, or that stands for this computer, is left out.
"""

import re
import socket
import time
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from mailbox_appliance.remote.errors import RemoteFault, malformed_fault, timeout_fault
from mailbox_appliance.remote.net.connect import Address
from mailbox_appliance.settings import parse_host_and_port

if TYPE_CHECKING:
    import dns.resolver

MOST_RECORDS = 8
_LONGEST_QUERY = 3.0
_PORT = 53
# RFC 1123 2.1. The last label begins with a letter: `127.1` and `0x7f.0.0.1` are addresses to the system's resolver.
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{_LABEL}\.)+(?=[a-z]){_LABEL}")
_THIS_COMPUTER = ("localhost", "localdomain")


class NoSuchName(Exception):
    """DNS reports that a name, and every name below it, does not exist (NXDOMAIN, RFC 8020)."""


@dataclass(frozen=True)
class ServiceHost:
    """A host and port that offer a service, from an SRV record (RFC 2782)."""

    host: str
    port: int


def host_name(text: str) -> str | None:
    """Return the text as a host name in lower case, without a final dot. None if it has not at least two labels."""
    name = text.lower().removesuffix(".")
    if not _HOST_NAME.fullmatch(name) or name.rpartition(".")[2] in _THIS_COMPUTER:
        return None
    return name


@dataclass(frozen=True)
class Resolver:
    """Looks up names in DNS. A lookup raises NoSuchName or RemoteFault.

    `server`: the IP address of the DNS server, optionally with a port; empty for the system's resolver. `until`: the
    time limit of all lookups (`time.monotonic`).
    """

    server: str
    until: float

    def find_services(self, name: str) -> tuple[ServiceHost, ...]:
        """Return the hosts of a service (SRV), preferred ones first; empty if there are none."""
        records = sorted(self._ask(name, "SRV"), key=lambda record: (record.priority, -record.weight))
        named = [(host_name(record.target.to_text()), record.port) for record in records[:MOST_RECORDS]]
        return tuple(ServiceHost(host, port) for host, port in named if host is not None and port)

    def find_exchangers(self, name: str) -> tuple[str, ...] | None:
        """Return the hosts that accept mail for a domain (MX), preferred ones first; empty if there are no records.

        Returns None if the domain declares that it accepts no mail (RFC 7505).
        """
        records = sorted(self._ask(name, "MX"), key=lambda record: record.preference)
        if len(records) == 1 and records[0].exchange.to_text() == ".":
            return None
        named = [host_name(record.exchange.to_text()) for record in records[:MOST_RECORDS]]
        return tuple(host for host in named if host is not None)

    def find_alias(self, name: str) -> str | None:
        """Return the name that this alias points to (CNAME), or None."""
        records = self._ask(name, "CNAME")
        return host_name(records[0].target.to_text()) if records else None

    def find_addresses(self, name: str) -> tuple[Address, ...]:
        """Return the IPv4 addresses of a host, or its IPv6 addresses if it has no IPv4 address."""
        records = self._ask(name, "A") or self._ask(name, "AAAA")
        return tuple(ip_address(record.address) for record in records[:MOST_RECORDS])

    def look_up(self, name: str) -> tuple[Address, ...]:
        """Return the addresses of a host, for `connect.open_connection`. Raises OSError, like `socket.getaddrinfo`."""
        try:
            return self.find_addresses(name)
        except NoSuchName as error:
            raise OSError from error
        except RemoteFault as error:
            raise socket.gaierror(socket.EAI_AGAIN, "no response from the DNS server") from error

    def _ask(self, name: str, kind: str) -> list[Any]:
        import dns.exception
        import dns.resolver

        lifetime = min(_LONGEST_QUERY, self.until - time.monotonic())
        if lifetime <= 0:
            raise timeout_fault("dns")
        try:
            resolver = _resolver(self.server)
            return list(resolver.resolve(f"{name}.", kind, lifetime=lifetime, raise_on_no_answer=False) or ())
        except dns.resolver.NXDOMAIN as error:
            raise NoSuchName from error
        except dns.resolver.LifetimeTimeout as error:
            raise timeout_fault("dns") from error
        except dns.resolver.NoResolverConfiguration as error:
            raise _without_resolver() from error
        except dns.resolver.NoNameservers as error:
            raise RemoteFault("dns", "refused", "The DNS server could not answer. Try again later.") from error
        except (dns.exception.DNSException, OSError, ValueError) as error:
            raise malformed_fault("dns") from error


def _resolver(server: str) -> "dns.resolver.Resolver":
    import dns.resolver

    if not server:
        return dns.resolver.Resolver()
    host, port = parse_host_and_port(server) or ("", 0)
    resolver = dns.resolver.Resolver(configure=False)
    resolver.nameservers, resolver.port = [host], port or _PORT
    return resolver


def _without_resolver() -> RemoteFault:
    reason = "No DNS server is configured on this computer. Name one in the setting remote.resolver."
    return RemoteFault("dns", "unreachable", reason)
