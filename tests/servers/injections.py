"""A hundred messages that try to talk to whoever reads a mailbox for somebody, and honest ones that look like them."""

from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from itertools import chain

from tests.servers.corpus import CorpusMessage
from tests.servers.injected.case import Injection
from tests.servers.injected.fences import fences
from tests.servers.injected.fields import fields
from tests.servers.injected.hiding import hiding
from tests.servers.injected.honest import honest_mail
from tests.servers.injected.invisible import invisible
from tests.servers.injected.shapes import shapes
from tests.servers.injected.structure import structure

_FIRST = 1_700_000_000


def _dated(number: int, injection: Injection) -> Injection:
    """With a Message-ID and a date of its own."""
    if injection.is_bare:
        return injection
    head = f"Message-ID: <{number}@injections.example>\r\nDate: {formatdate(_FIRST + number * 60)}\r\n"
    return replace(injection, source=head.encode() + injection.source)


def _gathered() -> Iterator[Injection]:
    for number, injection in enumerate(
        chain(fields(), fences(), invisible(), hiding(), structure(), shapes(), honest_mail())
    ):
        yield _dated(number, injection)


INJECTIONS: tuple[Injection, ...] = tuple(_gathered())


def as_delivered() -> Iterator[CorpusMessage]:
    """The messages as they are put into a mailbox: a minute apart, in the order of `INJECTIONS`."""
    for number, injection in enumerate(INJECTIONS):
        yield CorpusMessage(injection.source, _FIRST + number * 60, "")
