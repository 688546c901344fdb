"""From an address to the servers of its mailbox: several sources are asked at once, and what they say is weighed.

    table       a large provider that we know; nobody is asked then
    srv         what the domain says in DNS (RFC 6186, RFC 8314 5.1)
    autoconfig  what the domain says over HTTPS, and what a directory of providers says of it
    mx          who takes the domain's mail (RFC 5321 5.1), and what is known of them
    guess       hosts of the usual names, as far as there are any

No mail server is ever connected to here. Each source has its say in our words, also where it knows nothing.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from functools import partial

from mailbox_appliance.mail.address import domain_of, to_envelope_address
from mailbox_appliance.remote import findings, https, known_servers, sources
from mailbox_appliance.remote.calls import Calls
from mailbox_appliance.remote.dns import Resolver, host_name
from mailbox_appliance.remote.faults import RemoteFault, ServerName
from mailbox_appliance.remote.findings import Candidate, Finding, Heard, Source
from mailbox_appliance.remote.sources import Asking

#: Seconds for all of it. What has not come by then is told as such.
WITHIN = 6.0
_WEB_WITHIN = 4.5
_QUESTIONS: tuple[tuple[Source, ServerName, Callable[[Asking], Heard]], ...] = (
    ("srv", "dns", sources.services),
    ("autoconfig", "autoconfig", sources.own_autoconfig),
    ("autoconfig", "autoconfig", sources.well_known_autoconfig),
    ("autoconfig", "autoconfig", sources.directory),
    ("mx", "dns", sources.exchangers),
    ("guess", "dns", sources.usual_names),
)


@dataclass(frozen=True)
class Means:
    """With what it is asked: a DNS server (empty: the system's), a directory of providers (empty: none).

    `is_own_directory`: the operator named it, so it may lie in their own network.
    """

    calls: Calls
    resolver: str = ""
    directory: str = ""
    is_own_directory: bool = False
    ca_file: str = ""


@dataclass(frozen=True)
class Discovered:
    """The ways to a mailbox, the likeliest first, and what each source said."""

    candidates: tuple[Candidate, ...]
    results: tuple[Heard, ...]


def discover(email: str, means: Means) -> Discovered:
    """The servers of a mailbox. It takes a few seconds at most; a source that fails has nothing to say but why."""
    domain = _domain(email)
    if domain is None:
        told = "The part after the @ is no name that can be looked up, such as example.org."
        return Discovered((), (Heard("table", told),))
    if (provider := known_servers.of_domain(domain)) is not None:
        servers = provider.servers(email)
        told = f"{domain} is a domain of {provider.name}." if servers else provider.note or ""
        heard = Heard("table", told, Finding(*servers) if servers else None)
        return Discovered(findings.weighed([heard]), (heard,))
    unknown = Heard("table", f"{domain} is none of the large providers that are known here.")
    answers = _asked(email, domain, means)
    return Discovered(findings.weighed(answers), (unknown, *answers))


def _domain(email: str) -> str | None:
    try:
        return host_name(domain_of(to_envelope_address(email)))
    except ValueError:
        return None


def _asked(email: str, domain: str, means: Means) -> list[Heard]:
    until = time.monotonic() + WITHIN
    names = Resolver(means.resolver, until)
    find = names.look_up if means.resolver else None
    web = https.Reach("autoconfig", means.ca_file, _WEB_WITHIN, look_up=find)
    directory_web = https.Reach("autoconfig", means.ca_file, _WEB_WITHIN, not means.is_own_directory, find)
    asking = Asking(email, domain, names, web, means.directory, directory_web, means.calls)
    begun: list[tuple[Source, Future[Heard]]] = []
    for source, server, question in _QUESTIONS:
        begun.append((source, means.calls.start(server, partial(question, asking))))
    return [_heard(source, answer, until) for source, answer in begun]


def _heard(source: Source, answer: "Future[Heard]", until: float) -> Heard:
    try:
        return answer.result(max(0.0, until - time.monotonic()))
    except RemoteFault as fault:
        return Heard(source, fault.reason)
    except NotInTime:
        return Heard(source, "No answer came in time.")
