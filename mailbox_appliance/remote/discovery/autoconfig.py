"""The servers of a mailbox: autoconfig documents, the table of known providers, and the ranking of candidates.

Anyone who owns a domain can write its document (`clientConfig` 1.1), so it is treated as hostile: no document type,
bounded bytes and elements, and only host names, ports and user names are used.
"""

import functools
import re
import tomllib
import xml.parsers.expat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mailbox_appliance.remote.net.dns import host_name

MOST_AUTOCONFIG_BYTES = 1 << 16
_MOST_ELEMENTS = 2_000
_DEEPEST_ELEMENT = 12
_LONGEST_TEXT = 255
_MOST_SERVERS = 8

Protected = Literal["tls", "starttls"]
_SECURITY_OF_SOCKET_TYPE: Mapping[str, Protected] = {"SSL": "tls", "STARTTLS": "starttls"}
_BY_PASSWORD = frozenset({"password-cleartext", "password-encrypted", "plain", "secure"})
_SERVER_ELEMENTS = {("incomingServer", "imap"): "imap", ("outgoingServer", "smtp"): "smtp"}
_CONTROLS = re.compile("[\x00-\x20\x7f-\xa0\u2028\u2029]")


class NotAutoconfig(Exception):
    """The document is not a valid autoconfig document."""


@dataclass(frozen=True)
class DiscoveredServer:
    """The host, port, security and user name of one server."""

    host: str
    port: int
    security: Protected
    username: str


@dataclass(frozen=True)
class AutoconfigServers:
    """The servers of a mailbox that use TLS, preferred ones first in each kind.

    `imap_by_sign_in` and `smtp_by_sign_in`: servers that require the provider's sign-in instead of a password.
    """

    imap: tuple[DiscoveredServer, ...] = ()
    smtp: tuple[DiscoveredServer, ...] = ()
    imap_by_sign_in: tuple[DiscoveredServer, ...] = ()
    smtp_by_sign_in: tuple[DiscoveredServer, ...] = ()


@dataclass
class _ServerElement:
    """A server as the document describes it."""

    kind: str
    fields: dict[str, str] = field(default_factory=dict)
    sign_ins: list[str] = field(default_factory=list)


def read_autoconfig(document: bytes, email: str) -> AutoconfigServers:
    """Return the servers that a document names for a mailbox. Raises NotAutoconfig."""
    if len(document) > MOST_AUTOCONFIG_BYTES:
        raise NotAutoconfig
    reader = _AutoconfigReader()
    parser = xml.parsers.expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.refuse_doctype
    parser.StartElementHandler, parser.EndElementHandler = reader.start_element, reader.end_element
    parser.CharacterDataHandler = reader.add_text
    try:
        parser.Parse(document, True)
    except (xml.parsers.expat.ExpatError, LookupError, ValueError) as error:  # LookupError: an unknown encoding
        raise NotAutoconfig from error
    if not reader.is_config:
        raise NotAutoconfig
    return _servers_of_elements(reader.found, email)


def _servers_of_elements(found: list[_ServerElement], email: str) -> AutoconfigServers:
    servers: dict[tuple[str, bool], list[DiscoveredServer]] = {}
    for element in found:
        by_password = not element.sign_ins or not _BY_PASSWORD.isdisjoint(element.sign_ins)
        if (server := _server_of_element(element, email)) is not None:
            servers.setdefault((element.kind, by_password), []).append(server)
    # RFC 8314 3.3: implicit TLS is preferred. Otherwise the order is the provider's.
    order = (("imap", True), ("smtp", True), ("imap", False), ("smtp", False))
    return AutoconfigServers(
        *(tuple(sorted(servers.get(each, ()), key=lambda one: one.security != "tls")) for each in order)
    )


def _server_of_element(element: _ServerElement, email: str) -> DiscoveredServer | None:
    local, _, domain = email.rpartition("@")
    places = {"%EMAILADDRESS%": email, "%EMAILLOCALPART%": local, "%EMAILDOMAIN%": domain}

    def of(name: str) -> str:
        return re.sub("%[A-Z]+%", lambda found: places.get(found[0], found[0]), element.fields.get(name, ""))

    host, port = host_name(of("hostname")), element.fields.get("port", "")
    security = _SECURITY_OF_SOCKET_TYPE.get(element.fields.get("socketType", ""))
    username = of("username") or email
    if host is None or security is None or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        return None
    if _CONTROLS.search(username) or len(username) > _LONGEST_TEXT:
        return None
    return DiscoveredServer(host, int(port), security, username)


class _AutoconfigReader:
    """Collects the servers of a document while it is parsed. Raises ValueError if a bound is exceeded."""

    def __init__(self) -> None:
        self.is_config = False
        self.found: list[_ServerElement] = []
        self._path: list[str] = []
        self._elements = 0
        self._server: _ServerElement | None = None
        self._text = ""

    def refuse_doctype(self, *_: object) -> None:
        """Refuse a document type, which could declare entities. Raises ValueError."""
        raise ValueError("a document type")

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._elements += 1
        if self._elements > _MOST_ELEMENTS or len(self._path) > _DEEPEST_ELEMENT:
            raise ValueError("more than a document needs")
        self._text = ""
        self.is_config = self.is_config or self._path == ["clientConfig"]
        kind = _SERVER_ELEMENTS.get((name, attributes.get("type", "")))
        if (
            kind is not None
            and self._path[:-1] == ["clientConfig", "emailProvider"]
            and len(self.found) < _MOST_SERVERS
        ):
            self._server = _ServerElement(kind)

    def add_text(self, text: str) -> None:
        self._text = (self._text + text)[: _LONGEST_TEXT + 1]

    def end_element(self, name: str) -> None:
        server, text = self._server, self._text.strip()
        is_inside = self._path[2:-1] in (["incomingServer"], ["outgoingServer"])
        self._path.pop()
        self._text = ""
        if server is None:
            return
        if is_inside and name == "authentication":
            server.sign_ins.append(text)
        elif is_inside:
            server.fields.setdefault(name, text)
        elif name in ("incomingServer", "outgoingServer"):
            self.found.append(server)
            self._server = None


# --- Known providers: by the domain of an address, or by the host that accepts a domain's mail ---
#
# The table itself is data: known_servers.toml, which describes its columns.


SignIn = Literal["google", "outlook"]

_PROVIDERS_TOML = Path(__file__).with_name("known_servers.toml")
_SECURITY_OF_PORT: Mapping[int, Protected] = {993: "tls", 465: "tls", 143: "starttls", 587: "starttls"}
_WANTS = {
    "app_password": (
        "{name} requires an app password. Create one on its website and use it instead of your own password."
    ),
    "own_password": (
        "{name} requires a password for mail clients. Set one on its website and use it instead of your own password."
    ),
    "switched_on": "Allow other mail clients first, in the settings on {name}'s website.",
}


@dataclass(frozen=True)
class MailProvider:
    """A provider and its servers. `imap` and `smtp` are None if it offers none to mail clients."""

    name: str
    imap: str | None = None
    smtp: str | None = None
    sign_in: SignIn | None = None
    has_local_names: bool = False
    note: str | None = None

    def servers(self, email: str, exchanger: str = "") -> tuple[DiscoveredServer, DiscoveredServer] | None:
        """Return the IMAP and SMTP server for an address. `exchanger`: the host that accepts mail for a custom
        domain.
        """
        if self.imap is None or self.smtp is None:
            return None
        local = email.rpartition("@")[0] if self.has_local_names and not exchanger else email
        return _server_of_place(self.imap, local, exchanger), _server_of_place(self.smtp, email, exchanger)


@dataclass(frozen=True)
class _ProviderTable:
    by_domain: Mapping[str, MailProvider]
    by_exchanger: Mapping[str, MailProvider]
    by_servers: Mapping[tuple[str, str], MailProvider]
    filters: Mapping[str, str]


def provider_of_domain(domain: str) -> MailProvider | None:
    """Return the provider whose addresses have this domain."""
    return _load_provider_table().by_domain.get(domain) or _find_by_end(
        _load_provider_table().by_domain, domain, ("onmicrosoft.com",)
    )


def provider_of_exchanger(host: str) -> MailProvider | None:
    """Return the provider that accepts mail for customers' domains at this host."""
    return _find_by_end(_load_provider_table().by_exchanger, host)


def provider_of_servers(imap: str, smtp: str = "") -> MailProvider | None:
    """Return the provider of these servers. Outlook.com and Microsoft 365 share one IMAP server and have two for
    SMTP.
    """
    return _load_provider_table().by_servers.get((imap, smtp)) or _load_provider_table().by_servers.get((imap, ""))


def mail_filter_of(host: str) -> str | None:
    """Return the filter service that accepts mail at this host and forwards it to the actual mail server."""
    return _find_by_end(_load_provider_table().filters, host)


def _find_by_end(table: Mapping[str, Any], host: str, ends: Iterable[str] | None = None) -> Any:
    """Return the entry for the longest suffix of a host name, in whole labels."""
    labels = host.split(".")
    for start in range(len(labels)):
        end = ".".join(labels[start:])
        if end in table and (ends is None or end in ends):
            return table[end]
    return None


@functools.cache
def _load_provider_table() -> _ProviderTable:
    rows = tomllib.loads(_PROVIDERS_TOML.read_text("utf-8"))
    providers = [(_provider_of_row(row), row) for row in rows["provider"]]
    return _ProviderTable(
        dict(_by_column(providers, "domains")),
        dict(_by_column(providers, "mx")),
        dict(_by_hosts(provider for provider, _ in reversed(providers))),
        {end: row["name"] for row in rows["filter"] for end in row["mx"]},
    )


def _by_column(providers: list[tuple[MailProvider, dict[str, Any]]], column: str) -> Iterator[tuple[str, MailProvider]]:
    for provider, row in providers:
        yield from ((name, provider) for name in row.get(column, ()))


def _by_hosts(providers: Iterable[MailProvider]) -> Iterator[tuple[tuple[str, str], MailProvider]]:
    for provider in providers:
        if provider.imap and provider.smtp:
            imap, smtp = (place.partition(":")[0] for place in (provider.imap, provider.smtp))
            yield from (((imap, smtp), provider), ((imap, ""), provider))


def _provider_of_row(row: dict[str, Any]) -> MailProvider:
    sentences = [_WANTS[want].format(name=row["name"]) for want in row.get("wants", ())]
    note = " ".join([*sentences, *([row["note"]] if "note" in row else [])])
    is_local = row.get("local", False)
    return MailProvider(row["name"], row.get("imap"), row.get("smtp"), row.get("sign_in"), is_local, note or None)


def _server_of_place(place: str, username: str, exchanger: str) -> DiscoveredServer:
    host, _, port = place.replace("{mx}", exchanger).rpartition(":")
    return DiscoveredServer(host, int(port), _SECURITY_OF_PORT[int(port)], username)


# --- Results: the servers that each source names, and their ranking ---


Source = Literal["table", "srv", "autoconfig", "mx", "guess"]
MOST_CANDIDATES = 5


@dataclass(frozen=True)
class ServerPair:
    """The servers for reading and sending that one source names; one of them may be missing."""

    imap: DiscoveredServer | None
    smtp: DiscoveredServer | None


@dataclass(frozen=True)
class SourceResult:
    """The result of one source: a sentence for people, and the servers it found.

    `weight`: how much the source counts. `ends_guessing`: after this result, guessed host names are ignored.
    """

    source: Source
    message: str
    servers: ServerPair | None = None
    weight: int = 0
    ends_guessing: bool = False


@dataclass(frozen=True)
class ServerCandidate:
    """Possible servers of a mailbox. `found_by`: every source that names them, the most trusted first.

    `sign_in`: the provider whose sign-in page is needed. `name`, `note`: the provider if known, and what it requires.
    """

    found_by: tuple[Source, ...]
    imap: DiscoveredServer
    smtp: DiscoveredServer
    name: str | None = None
    sign_in: SignIn | None = None
    note: str | None = None

    @property
    def source(self) -> Source:
        """The most trusted of the sources."""
        return self.found_by[0]


def rank_candidates(heard: Iterable[SourceResult]) -> tuple[ServerCandidate, ...]:
    """Return the candidates, the most likely first. The weights of sources that agree are added."""
    by_weight = sorted(heard, key=lambda one: -one.weight)
    if any(one.ends_guessing for one in by_weight):
        by_weight = [one for one in by_weight if one.source != "guess"]
    ways: dict[object, list[SourceResult]] = {}
    servers: dict[object, tuple[DiscoveredServer, DiscoveredServer]] = {}
    for one, (imap, smtp) in _with_both_servers(by_weight):
        way = (imap.host, imap.port, smtp.host, smtp.port)
        servers.setdefault(way, (imap, smtp))
        ways.setdefault(way, []).append(one)
    order = sorted(ways, key=lambda way: -sum(one.weight for one in ways[way]))
    return tuple(_to_candidate(ways[way], *servers[way]) for way in order[:MOST_CANDIDATES])


def _with_both_servers(
    heard: list[SourceResult],
) -> Iterator[tuple[SourceResult, tuple[DiscoveredServer, DiscoveredServer]]]:
    """Yield each result with both servers; a missing one is taken from the most trusted source that names it."""
    findings = [(one, one.servers) for one in heard if one.servers is not None]
    first_imap = next((finding.imap for _, finding in findings if finding.imap), None)
    first_smtp = next((finding.smtp for _, finding in findings if finding.smtp), None)
    for one, finding in findings:
        imap, smtp = finding.imap or first_imap, finding.smtp or first_smtp
        if imap is not None and smtp is not None:
            yield one, (imap, smtp)


def _to_candidate(heard: list[SourceResult], imap: DiscoveredServer, smtp: DiscoveredServer) -> ServerCandidate:
    found_by = tuple(dict.fromkeys(one.source for one in heard))
    provider = provider_of_servers(imap.host, smtp.host)
    if provider is None:
        return ServerCandidate(found_by, imap, smtp)
    return ServerCandidate(found_by, imap, smtp, provider.name, provider.sign_in, provider.note)
