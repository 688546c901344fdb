"""What is found out about the servers of a mailbox: what one source says, and what all of it comes to."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from mailbox_appliance.remote import known_servers
from mailbox_appliance.remote.autoconfig import Server
from mailbox_appliance.remote.known_servers import SignIn

Source = Literal["table", "srv", "autoconfig", "mx", "guess"]
MOST_CANDIDATES = 5


@dataclass(frozen=True)
class Finding:
    """Where mail is read and sent, as one source says; one of both may be missing."""

    imap: Server | None
    smtp: Server | None


@dataclass(frozen=True)
class Heard:
    """What a source said, as a sentence of ours, and what was found.

    `weight`: how much it is believed. `ends_guessing`: with this, hosts of usual names mean nothing.
    """

    source: Source
    message: str
    servers: Finding | None = None
    weight: int = 0
    ends_guessing: bool = False


@dataclass(frozen=True)
class Candidate:
    """A way to a mailbox. `found_by`: every source that says so, the most believed first.

    `sign_in`: whose sign-in page is the way in. `name`, `note`: the provider where it is known, and what it wants.
    """

    found_by: tuple[Source, ...]
    imap: Server
    smtp: Server
    name: str | None = None
    sign_in: SignIn | None = None
    note: str | None = None

    @property
    def source(self) -> Source:
        """The most believed of the sources."""
        return self.found_by[0]


def weighed(heard: Iterable[Heard]) -> tuple[Candidate, ...]:
    """The ways that were found, the likeliest first. Sources that say the same are believed together."""
    by_weight = sorted(heard, key=lambda one: -one.weight)
    if any(one.ends_guessing for one in by_weight):
        by_weight = [one for one in by_weight if one.source != "guess"]
    ways: dict[object, list[Heard]] = {}
    servers: dict[object, tuple[Server, Server]] = {}
    for one, (imap, smtp) in _complete(by_weight):
        way = (imap.host, imap.port, smtp.host, smtp.port)
        servers.setdefault(way, (imap, smtp))
        ways.setdefault(way, []).append(one)
    order = sorted(ways, key=lambda way: -sum(one.weight for one in ways[way]))
    return tuple(_candidate(ways[way], *servers[way]) for way in order[:MOST_CANDIDATES])


def _complete(heard: list[Heard]) -> Iterator[tuple[Heard, tuple[Server, Server]]]:
    """What was found, each with both servers: what a source does not name is as the most believed says that does."""
    findings = [(one, one.servers) for one in heard if one.servers is not None]
    first_imap = next((finding.imap for _, finding in findings if finding.imap), None)
    first_smtp = next((finding.smtp for _, finding in findings if finding.smtp), None)
    for one, finding in findings:
        imap, smtp = finding.imap or first_imap, finding.smtp or first_smtp
        if imap is not None and smtp is not None:
            yield one, (imap, smtp)


def _candidate(heard: list[Heard], imap: Server, smtp: Server) -> Candidate:
    found_by = tuple(dict.fromkeys(one.source for one in heard))
    provider = known_servers.of_servers(imap.host, smtp.host)
    if provider is None:
        return Candidate(found_by, imap, smtp)
    return Candidate(found_by, imap, smtp, provider.name, provider.sign_in, provider.note)
