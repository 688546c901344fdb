"""Server settings for a mailbox: reads autoconfig documents, looks up known providers, and ranks candidates.

An autoconfig document (`clientConfig` 1.1) is XML in which a domain names its mail servers. Anyone who owns a domain
can write one, so it is treated as hostile. A document type declaration is refused, bytes and elements are limited, and
only host names, ports and user names are used.
"""

import functools
import re
import tomllib
import xml.parsers.expat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from mailbox_appliance.model.accounts import OAuthProvider
from mailbox_appliance.model.base import Wire
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


class CandidateServer(Wire, frozen=True):
    """Connection settings of one mail server, with the most likely user name.

    - host: Host name.
    - port: Port.
    - security: `tls` from the start, or `starttls`.
    - username: The user name that the server most likely expects.
    """

    host: str
    port: Annotated[int, Meta(ge=1, le=65535)]
    security: Protected
    username: str


@dataclass(frozen=True)
class AutoconfigServers:
    """The servers with TLS that an autoconfig document names for a mailbox, preferred ones first.

    - imap, smtp: servers that accept a password.
    - imap_by_sign_in, smtp_by_sign_in: servers that accept only OAuth or another method of the provider.
    """

    imap: tuple[CandidateServer, ...] = ()
    smtp: tuple[CandidateServer, ...] = ()
    imap_by_sign_in: tuple[CandidateServer, ...] = ()
    smtp_by_sign_in: tuple[CandidateServer, ...] = ()


@dataclass
class _ServerElement:
    """One server element of an autoconfig document, not checked yet.

    `kind`: `imap` or `smtp`. `sign_ins`: the authentication methods that the document lists.
    """

    kind: str
    fields: dict[str, str] = field(default_factory=dict)
    sign_ins: list[str] = field(default_factory=list)


def read_autoconfig(document: bytes, email: str) -> AutoconfigServers:
    """Return the usable servers that an autoconfig document names, with the user name for this address.

    Raises NotAutoconfig if the document is invalid or too long.
    """
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
    servers: dict[tuple[str, bool], list[CandidateServer]] = {}
    for element in found:
        by_password = not element.sign_ins or not _BY_PASSWORD.isdisjoint(element.sign_ins)
        if (server := _server_of_element(element, email)) is not None:
            servers.setdefault((element.kind, by_password), []).append(server)
    # RFC 8314 3.3: implicit TLS is preferred. Otherwise the order is the provider's.
    order = (("imap", True), ("smtp", True), ("imap", False), ("smtp", False))
    return AutoconfigServers(
        *(tuple(sorted(servers.get(each, ()), key=lambda one: one.security != "tls")) for each in order)
    )


def _server_of_element(element: _ServerElement, email: str) -> CandidateServer | None:
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
    return CandidateServer(host, int(port), security, username)


class _AutoconfigReader:
    """Collects the servers of an autoconfig document while it is parsed.

    Raises ValueError if the document has too many elements or is nested too deeply.
    """

    def __init__(self) -> None:
        self.is_config = False
        self.found: list[_ServerElement] = []
        self._path: list[str] = []
        self._elements = 0
        self._server: _ServerElement | None = None
        self._text = ""

    def refuse_doctype(self, *_: object) -> None:
        """Raise ValueError for a document type declaration, because it could declare entities."""
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
    """A known mail provider.

    - imap, smtp: host and port; None if it offers no access to mail clients.
    - sign_in: the OAuth provider to sign in with; None for passwords.
    - has_local_names: whether the user name for IMAP is only the part of the address before the `@`.
    - note: a sentence for people about steps that the provider requires.
    """

    name: str
    imap: str | None = None
    smtp: str | None = None
    sign_in: OAuthProvider | None = None
    has_local_names: bool = False
    note: str | None = None

    def servers(self, email: str, exchanger: str = "") -> tuple[CandidateServer, CandidateServer] | None:
        """Return the provider's IMAP and SMTP server for an address; None if it offers no access to mail clients.

        `exchanger`: for an address at a custom domain, the host that accepts the domain's mail.
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
    """Return the known provider whose own addresses have this domain, or None."""
    return _load_provider_table().by_domain.get(domain) or _find_by_end(
        _load_provider_table().by_domain, domain, ("onmicrosoft.com",)
    )


def provider_of_exchanger(host: str) -> MailProvider | None:
    """Return the known provider that accepts mail for its customers' domains at this host, or None."""
    return _find_by_end(_load_provider_table().by_exchanger, host)


def provider_of_servers(imap: str, smtp: str = "") -> MailProvider | None:
    """Return the known provider that has this IMAP server, or None.

    `smtp`: its SMTP server. It distinguishes Outlook.com from Microsoft 365, which share one IMAP server.
    """
    return _load_provider_table().by_servers.get((imap, smtp)) or _load_provider_table().by_servers.get((imap, ""))


def mail_filter_of(host: str) -> str | None:
    """Return the name of the filter service that accepts mail at this host, or None.

    Such a service forwards mail to the actual mail server, so its host does not show the mailbox's provider.
    """
    return _find_by_end(_load_provider_table().filters, host)


def _find_by_end(table: Mapping[str, Any], host: str, ends: Iterable[str] | None = None) -> Any:
    """Return the entry of a table for the longest suffix of a host name, in whole labels; None if there is none.

    `ends`: if given, only these suffixes count.
    """
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


def _server_of_place(place: str, username: str, exchanger: str) -> CandidateServer:
    host, _, port = place.replace("{mx}", exchanger).rpartition(":")
    return CandidateServer(host, int(port), _SECURITY_OF_PORT[int(port)], username)


# --- Results: the servers that each source names, and their ranking ---


Source = Annotated[
    Literal["table", "srv", "autoconfig", "mx", "guess"],
    Meta(
        description="`table`: known large providers; `srv`: the domain's DNS (RFC 6186); `autoconfig`: the domain's web"
        " server, or a directory of providers; `mx`: the servers that receive its mail; `guess`: common host names."
    ),
]
MOST_CANDIDATES = 5


@dataclass(frozen=True)
class ServerPair:
    """The IMAP and the SMTP server that one source names. One of them may be None."""

    imap: CandidateServer | None
    smtp: CandidateServer | None


@dataclass(frozen=True)
class SourceResult:
    """The result of asking one source for the servers of a mailbox.

    - message: a sentence for people about the result.
    - servers: None if the source names none.
    - weight: how reliable the source is; higher is better.
    - ends_guessing: whether guessed host names must be ignored, since the source knows that they are wrong.
    """

    source: Source
    message: str
    servers: ServerPair | None = None
    weight: int = 0
    ends_guessing: bool = False


class DiscoveryCandidate(Wire, frozen=True, kw_only=True):
    """Settings to connect a mailbox with: the fields of `POST /accounts`, without the passwords.

    - found_by: All sources that found these settings, the most trusted first.
    - provider: The OAuth provider to connect it with (`POST /accounts/oauth/{provider}`); null for IMAP and SMTP.
    - name: Name of the mail provider; null if it is not known.
    - note: A step that the provider requires before you connect; null if none is known.
    - imap: The IMAP server.
    - smtp: The SMTP server.
    """

    source: Source
    found_by: tuple[Source, ...]
    provider: OAuthProvider | None
    name: str | None
    note: str | None
    imap: CandidateServer
    smtp: CandidateServer


def rank_candidates(heard: Iterable[SourceResult]) -> tuple[DiscoveryCandidate, ...]:
    """Return at most MOST_CANDIDATES candidates from the results of all sources, the most likely first.

    If several sources name the same servers, their weights are added.
    """
    by_weight = sorted(heard, key=lambda one: -one.weight)
    if any(one.ends_guessing for one in by_weight):
        by_weight = [one for one in by_weight if one.source != "guess"]
    ways: dict[object, list[SourceResult]] = {}
    servers: dict[object, tuple[CandidateServer, CandidateServer]] = {}
    for one, (imap, smtp) in _with_both_servers(by_weight):
        way = (imap.host, imap.port, smtp.host, smtp.port)
        servers.setdefault(way, (imap, smtp))
        ways.setdefault(way, []).append(one)
    order = sorted(ways, key=lambda way: -sum(one.weight for one in ways[way]))
    return tuple(_to_candidate(ways[way], *servers[way]) for way in order[:MOST_CANDIDATES])


def _with_both_servers(
    heard: list[SourceResult],
) -> Iterator[tuple[SourceResult, tuple[CandidateServer, CandidateServer]]]:
    """Yield each result that names at least one server, paired with its IMAP and SMTP servers.

    A missing server is taken from the most trusted result that names one; without any, the result is left out. `heard`:
    the results, the most trusted first.
    """
    findings = [(one, one.servers) for one in heard if one.servers is not None]
    first_imap = next((finding.imap for _, finding in findings if finding.imap), None)
    first_smtp = next((finding.smtp for _, finding in findings if finding.smtp), None)
    for one, finding in findings:
        imap, smtp = finding.imap or first_imap, finding.smtp or first_smtp
        if imap is not None and smtp is not None:
            yield one, (imap, smtp)


def _to_candidate(heard: list[SourceResult], imap: CandidateServer, smtp: CandidateServer) -> DiscoveryCandidate:
    provider = provider_of_servers(imap.host, smtp.host)
    return DiscoveryCandidate(
        source=heard[0].source,
        found_by=tuple(dict.fromkeys(one.source for one in heard)),
        provider=provider.sign_in if provider else None,
        name=provider.name if provider else None,
        note=provider.note if provider else None,
        imap=imap,
        smtp=smtp,
    )
