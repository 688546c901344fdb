"""expat under autoconfig documents and property lists: many threads, errors midway, parsers left to the collector."""

import plistlib
import random
import xml.parsers.expat
from functools import partial

from mailbox_appliance.remote.discovery import autoconfig
from tests.threads_proof.together import run_together

_THREADS, _TURNS = 8, 60
_SERVER = (
    '<{kind} type="{type}"><hostname>mail{number}.example.com</hostname><port>993</port><socketType>SSL</socketType>'
    "<username>%EMAILADDRESS%</username><authentication>password-cleartext</authentication></{kind}>"
)
_SERVERS = "".join(
    _SERVER.format(kind=kind, type=protocol, number=number)
    for number in range(3)
    for kind, protocol in (("incomingServer", "imap"), ("outgoingServer", "smtp"))
)
_GOOD = (
    f'<clientConfig version="1.1"><emailProvider id="example.com">{_SERVERS}</emailProvider></clientConfig>'.encode()
)
_BAD = (
    b'<!DOCTYPE x [<!ENTITY a "b">]>' + _GOOD,  # a handler raises
    _GOOD.replace(b"<emailProvider", b"<a>" * 20 + b"<emailProvider"),  # too deep: a handler raises
    b"<clientConfig>" + b"<a/>" * 3000,  # too many elements
    b'<?xml version="1.0" encoding="nobody-knows"?>' + _GOOD,
    _GOOD + b"<",
    b"\xff" + _GOOD,
    b"",
)
_VALUES = {"Label": "proof", "ProgramArguments": ["a", "b" * 2000], "RunAtLoad": True, "Nested": {"x": [1, 2, b"y"]}}


def stress(chance: random.Random) -> None:
    """One round."""
    run_together(*(partial(_read, random.Random(chance.random())) for _ in range(_THREADS)))


def _read(chance: random.Random) -> None:
    for _ in range(_TURNS):
        found = autoconfig.read_autoconfig(_GOOD, "ada@example.com")
        assert [server.host for server in found.imap] == [f"mail{number}.example.com" for number in range(3)]
        place = chance.randrange(len(_GOOD))
        for document in (chance.choice(_BAD), _GOOD[:place]):
            try:
                autoconfig.read_autoconfig(document, "ada@example.com")
            except autoconfig.NotAutoconfig:
                continue
            raise AssertionError(f"this was read: {document!r}")
        written = plistlib.dumps(_VALUES)
        assert plistlib.loads(written) == _VALUES
        try:
            plistlib.loads(written[: chance.randrange(200, len(written) - 30)], fmt=plistlib.FMT_XML)
        except (xml.parsers.expat.ExpatError, ValueError):
            pass
        _leave(chance)


def _leave(chance: random.Random) -> None:
    """A parser in the middle of a document, in a cycle with its handlers: only the garbage collector ends it."""
    parser = xml.parsers.expat.ParserCreate()
    kept: list[object] = [parser]
    parser.StartElementHandler = lambda *_: kept.append(parser)
    parser.Parse(_GOOD[: chance.randrange(200, len(_GOOD) - 1)], False)
