"""What a provider says of its servers in an autoconfig document (`clientConfig`, version 1.1).

The format is Mozilla's (wiki.mozilla.org/Thunderbird:Autoconfiguration:ConfigFileFormat, and the draft
draft-ietf-mailmaint-autoconfig). Whoever owns a domain writes it, so it is read as hostile: no document type and so no
entities, few bytes, elements and levels, and nothing of it but host names, ports and user names is kept.
"""

import re
import xml.parsers.expat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from mailbox_appliance.remote.dns import host_name

MOST_BYTES = 1 << 16
_MOST_ELEMENTS = 2_000
_DEEPEST = 12
_LONGEST_TEXT = 255
_MOST_SERVERS = 8

Protected = Literal["tls", "starttls"]
_SECURITY: Mapping[str, Protected] = {"SSL": "tls", "STARTTLS": "starttls"}
_BY_PASSWORD = frozenset({"password-cleartext", "password-encrypted", "plain", "secure"})
_SERVERS = {("incomingServer", "imap"): "imap", ("outgoingServer", "smtp"): "smtp"}
_CONTROLS = re.compile("[\x00-\x20\x7f-\xa0\u2028\u2029]")


class NotAutoconfig(Exception):
    """This is no autoconfig document."""


@dataclass(frozen=True)
class Server:
    """How one server is reached, and by which user name."""

    host: str
    port: int
    security: Protected
    username: str


@dataclass(frozen=True)
class Config:
    """The servers of a mailbox that TLS protects, the preferred one first in each kind.

    `imap_by_sign_in` and `smtp_by_sign_in`: those that take no password, but another sign-in.
    """

    imap: tuple[Server, ...] = ()
    smtp: tuple[Server, ...] = ()
    imap_by_sign_in: tuple[Server, ...] = ()
    smtp_by_sign_in: tuple[Server, ...] = ()


@dataclass
class _Element:
    """A server as it stands in the document."""

    kind: str
    fields: dict[str, str] = field(default_factory=dict)
    sign_ins: list[str] = field(default_factory=list)


def read(document: bytes, email: str) -> Config:
    """The servers that a document names for a mailbox. Raises NotAutoconfig."""
    if len(document) > MOST_BYTES:
        raise NotAutoconfig
    reader = _Reader()
    parser = xml.parsers.expat.ParserCreate()
    parser.StartDoctypeDeclHandler = reader.refuse_doctype
    parser.StartElementHandler, parser.EndElementHandler = reader.start_element, reader.end_element
    parser.CharacterDataHandler = reader.add_text
    try:
        parser.Parse(document, True)
    except (xml.parsers.expat.ExpatError, LookupError, ValueError) as error:  # LookupError: an encoding nobody knows
        raise NotAutoconfig from error
    if not reader.is_config:
        raise NotAutoconfig
    return _config(reader.found, email)


def _config(found: list[_Element], email: str) -> Config:
    servers: dict[tuple[str, bool], list[Server]] = {}
    for element in found:
        by_password = not element.sign_ins or not _BY_PASSWORD.isdisjoint(element.sign_ins)
        if (server := _server(element, email)) is not None:
            servers.setdefault((element.kind, by_password), []).append(server)
    # RFC 8314 3.3: implicit TLS is preferred. Otherwise the order is the provider's.
    order = (("imap", True), ("smtp", True), ("imap", False), ("smtp", False))
    return Config(*(tuple(sorted(servers.get(each, ()), key=lambda one: one.security != "tls")) for each in order))


def _server(element: _Element, email: str) -> Server | None:
    local, _, domain = email.rpartition("@")
    places = {"%EMAILADDRESS%": email, "%EMAILLOCALPART%": local, "%EMAILDOMAIN%": domain}

    def of(name: str) -> str:
        return re.sub("%[A-Z]+%", lambda found: places.get(found[0], found[0]), element.fields.get(name, ""))

    host, port = host_name(of("hostname")), element.fields.get("port", "")
    security = _SECURITY.get(element.fields.get("socketType", ""))
    username = of("username") or email
    if host is None or security is None or not re.fullmatch("[0-9]{1,5}", port) or not 0 < int(port) < 65536:
        return None
    if _CONTROLS.search(username) or len(username) > _LONGEST_TEXT:
        return None
    return Server(host, int(port), security, username)


class _Reader:
    """Takes the servers out of a document while it is read. What passes a bound raises ValueError."""

    def __init__(self) -> None:
        self.is_config = False
        self.found: list[_Element] = []
        self._path: list[str] = []
        self._elements = 0
        self._server: _Element | None = None
        self._text = ""

    def refuse_doctype(self, *_: object) -> None:
        """A document type: what entities would come from."""
        raise ValueError("a document type")

    def start_element(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._elements += 1
        if self._elements > _MOST_ELEMENTS or len(self._path) > _DEEPEST:
            raise ValueError("more than a document needs")
        self._text = ""
        self.is_config = self.is_config or self._path == ["clientConfig"]
        kind = _SERVERS.get((name, attributes.get("type", "")))
        if (
            kind is not None
            and self._path[:-1] == ["clientConfig", "emailProvider"]
            and len(self.found) < _MOST_SERVERS
        ):
            self._server = _Element(kind)

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
