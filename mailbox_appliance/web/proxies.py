"""Proxies whose word counts: which they are, and what they say of where a request comes from and how.

    X-Forwarded-For: 198.51.100.7, 10.0.0.5      each proxy puts the address it was asked from behind those before
    X-Forwarded-Proto: https                     and the scheme that it was asked by
    Forwarded: for=198.51.100.7;proto=https      the same in one field (RFC 7239)

Only the end of what is said was written by somebody who is trusted: it is read from there, and no further than the
first address that is no trusted proxy. What stands before it a client may have made up.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from mailbox_appliance.settings import Settings

# Nobody has as many in a row; what stands before is not read.
_MOST_HOPS = 32
_PORT = r"(?::(?:[0-9]{1,5}|_[0-9A-Za-z._-]+))?"
# RFC 7239 section 6; the last, an IPv6 address without brackets, is what X-Forwarded-For has.
_NODE = re.compile(rf"\[([^]]+)\]{_PORT}|([0-9.]+){_PORT}|([0-9A-Fa-f:.]+(?:%[^]]*)?)")
# Good backwards too, and used so: a quote that a client left open does not swallow what a proxy wrote behind it.
_ELEMENT = re.compile(r'(?:[^",]+|"[^"]*")*')
# No character may be taken by two of its parts: that would be tried in all ways, while everybody else waits.
_PAIR = re.compile(r"""[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=("[^"\\]*"|[^ \t",;\\]+)[ \t]*)?(?:;|\Z)""")


@dataclass(frozen=True)
class Said:
    """What trusted proxies say: the client's address, and whether it asked by HTTPS. None: nothing that is readable."""

    address: str | None
    is_secure: bool | None


@dataclass(frozen=True)
class _Hop:
    address: str | None
    scheme: str | None


class Proxies:
    """The addresses and networks of proxies that are trusted, and the kind of header fields that they write."""

    def __init__(self, networks: Iterable[str] = (), headers: str = "x-forwarded") -> None:
        parsed = [ip_network(_mapped_off(text.partition("%")[0])) for text in networks]
        self._networks = tuple(parsed)
        self._read_headers = self._read_forwarded_field if headers == "forwarded" else self._read_x_forwarded

    def trusts(self, address: str | None) -> bool:
        """Whether a peer of this address is one of them."""
        if not self._networks or address is None or (parsed := _parsed(address)) is None:
            return False
        return any(parsed in network for network in self._networks)

    def read_forwarded(self, environ: Mapping[str, Any]) -> Said:
        """What is said of a request whose peer is trusted. The other kind of fields says nothing."""
        return self._read_headers(environ)

    def _read_x_forwarded(self, environ: Mapping[str, Any]) -> Said:
        elements = environ.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", _MOST_HOPS)[-_MOST_HOPS:]
        nodes = (_address(element) for element in reversed(elements) if element.strip())
        schemes = (scheme.strip() for scheme in environ.get("HTTP_X_FORWARDED_PROTO", "").split(","))
        return Said(self._find_client(nodes), _all_https(filter(None, schemes)))

    def _read_forwarded_field(self, environ: Mapping[str, Any]) -> Said:
        schemes: list[str] = []

        def nodes() -> Iterator[str | None]:
            for hop in _hops(environ.get("HTTP_FORWARDED", "")):
                if hop.scheme is not None:
                    schemes.append(hop.scheme)
                yield hop.address

        return Said(self._find_client(nodes()), _all_https(schemes))

    def _find_client(self, nodes: Iterable[str | None]) -> str | None:
        """The first address, from the end, that is no trusted proxy; else the last that is readable."""
        client = None
        for node in nodes:
            if node is None:
                break
            client = node
            if not self.trusts(node):
                break
        return client


@lru_cache(maxsize=4)
def _made(networks: tuple[str, ...], headers: str) -> Proxies:
    return Proxies(networks, headers)


def proxies_of(settings: Settings) -> Proxies:
    """Those that the settings name."""
    return _made(settings.names("server.trusted_proxies"), settings.text("server.proxy_headers"))


def _all_https(schemes: Iterable[str]) -> bool | None:
    said = [scheme.lower() == "https" for scheme in schemes]
    return all(said) if said else None


def _hops(field: str) -> Iterator[_Hop]:
    """The elements of a Forwarded field (RFC 7239 section 4), the last one first, until one cannot be read."""
    backwards, place = field[::-1], 0
    for _ in range(_MOST_HOPS):
        found = _ELEMENT.match(backwards, place)
        assert found is not None  # noqa: S101 - it matches nothing as well
        place = found.end() + 1
        is_whole = place > len(backwards) or backwards[found.end()] == ","
        if not is_whole or found.group().strip():
            hop = _hop(found.group()[::-1]) if is_whole else None
            # Who knows what it would have said of the scheme.
            yield hop or _Hop(None, "unreadable")
        if place > len(backwards):
            return


def _hop(element: str) -> _Hop | None:
    """An element of Forwarded; None: it is none, such as with one parameter twice."""
    pairs: dict[str, str] = {}
    place = 0
    while place < len(element):
        found = _PAIR.match(element, place)
        if found is None or (found.group(1) or "").lower() in pairs:
            return None
        place = found.end()
        if found.group(1):
            pairs[found.group(1).lower()] = found.group(2).strip('"')
    return _Hop(_address(pairs.get("for", "")), pairs.get("proto"))


def _address(node: str) -> str | None:
    """The address of a node as proxies write it: with or without a port, quotes, brackets and a zone, or None."""
    text = node.strip()
    text = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    found = _NODE.fullmatch(text)
    parsed = None if found is None else _parsed(found.group(1) or found.group(2) or found.group(3))
    return None if parsed is None else str(parsed)


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    """An address without its zone; an IPv4 one where an IPv6 socket shows it."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed


def _mapped_off(network: str) -> str:
    """A network of mapped IPv4 addresses, as a log of ours may show them, as the IPv4 network that it is."""
    parsed = ip_network(network)
    mapped = getattr(parsed.network_address, "ipv4_mapped", None)
    return network if mapped is None or parsed.prefixlen < 96 else f"{mapped}/{parsed.prefixlen - 96}"
