"""Find the servers of an address: several sources are asked at once, and their results are ranked.

    table       a large provider that we know; nobody is asked then
    srv         what the domain says in DNS (RFC 6186, RFC 8314 5.1)
    autoconfig  what the domain says over HTTPS, and what a directory of providers says of it
    mx          who takes the domain's mail (RFC 5321 5.1), and what is known of them
    guess       hosts of the usual names, as far as there are any

No mail server is connected to here. Each source returns a sentence of ours, also if it knows nothing; of an answer only
host names, ports and user names are kept.
"""

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from mailbox_appliance.mail.address import domain_of, to_envelope_address
from mailbox_appliance.remote.discovery import autoconfig
from mailbox_appliance.remote.discovery.autoconfig import (
    AutoconfigServers,
    DiscoveredServer,
    MailProvider,
    NotAutoconfig,
    ServerCandidate,
    ServerPair,
    Source,
    SourceResult,
)
from mailbox_appliance.remote.errors import RemoteFault, ServerName
from mailbox_appliance.remote.net import connect, https
from mailbox_appliance.remote.net.calls import RemoteCalls
from mailbox_appliance.remote.net.connect import Address
from mailbox_appliance.remote.net.dns import NoSuchName, Resolver, host_name

# --- The sources: DNS, the domain's own web servers, a directory, and the usual names ---


T = TypeVar("T")

# How much each counts. A directory that names the domain was checked by people; whoever takes the mail most often
# keeps it too, where a web host's autoconfig may be left over from before; anybody can have a host of a usual name.
_DIRECTORY, _EXCHANGER, _OWN_AUTOCONFIG, _DNS, _DIRECTORY_OF_EXCHANGER, _GUESS = 70, 60, 50, 40, 35, 5
_REDIRECTS = 3
_IMAP_TLS, _SMTP_TLS = 993, 465  # RFC 8314 3.2 and 3.3
#: What a web server that says nothing does; by the name of the fault, else by its kind.
_FAILURES = {
    "host_unknown": "does not exist",
    "dns_down": "could not be looked up",
    "certificate_name": "has a certificate for another name",
    "tls": "has no certificate that can be trusted",
    "timeout": "did not answer in time",
    "unreachable": "does not answer over HTTPS",
    "forbidden_address": "has no public address, and is asked at no other",
}
#: What `autodiscover` of a domain is another name of where Microsoft 365 keeps its mailboxes.
_MICROSOFT = frozenset({"autodiscover.outlook.com", "autodiscover-s.outlook.com"})


@dataclass(frozen=True)
class DiscoveryRequest:
    """One question: for which address, whom in DNS, how over HTTPS, and which directory (`""`: none)."""

    email: str
    domain: str
    names: Resolver
    web: https.HttpsOptions
    directory: str
    directory_web: https.HttpsOptions
    calls: RemoteCalls


def ask_srv_records(request: DiscoveryRequest) -> SourceResult:
    """What the domain says in DNS: RFC 6186 3, RFC 8314 5.1. TLS from the start is preferred."""
    imap = _find_service(request, ("_imaps", True), ("_imap", False))
    smtp = _find_service(request, ("_submissions", True), ("_submission", False))
    named = [server.host for server in (imap, smtp) if server is not None]
    if not named:
        return SourceResult("srv", f"The DNS of {request.domain} names no servers for mail programs (SRV records).")
    only = "" if len(named) == 2 else f", and none to {'send' if imap else 'read'} mail by"
    told = f"The DNS of {request.domain} names {_join_hosts(named)}{only} (SRV records)."
    return SourceResult("srv", told, ServerPair(imap, smtp), _DNS)


def _find_service(request: DiscoveryRequest, *names: tuple[str, bool]) -> DiscoveredServer | None:
    look_up = request.names.find_services
    asked = [(is_tls, _start_look_up(request, look_up, f"{name}._tcp.{request.domain}")) for name, is_tls in names]
    for is_tls, future in asked:
        if found := future.result():
            first = found[0]
            return DiscoveredServer(first.host, first.port, "tls" if is_tls else "starttls", request.email)
    return None


def ask_own_autoconfig(request: DiscoveryRequest) -> SourceResult:
    """What the domain says at autoconfig.DOMAIN; the address is sent along, since some make user names of it."""
    query = f"emailaddress={quote(request.email, safe='@')}"
    return _ask_autoconfig(request, f"autoconfig.{request.domain}", f"/mail/config-v1.1.xml?{query}")


def ask_well_known_autoconfig(request: DiscoveryRequest) -> SourceResult:
    """What the domain says at its own web server."""
    return _ask_autoconfig(request, request.domain, "/.well-known/autoconfig/mail/config-v1.1.xml")


def ask_directory(request: DiscoveryRequest) -> SourceResult:
    """What the directory of providers says of the domain."""
    if not request.directory:
        return SourceResult("autoconfig", "No directory of providers is asked (setting remote.autoconfig_directory).")
    try:
        config = _fetch_config(request, request.directory + request.domain, request.directory_web)
    except RemoteFault as fault:
        return SourceResult("autoconfig", f"The directory of providers {_describe_failure(fault)}.")
    if config is None or not (config.imap or config.smtp):
        return SourceResult("autoconfig", f"The directory of providers does not know {request.domain}.")
    return _result_of_config(config, f"The directory of providers knows {request.domain}", _DIRECTORY)


def ask_exchangers(request: DiscoveryRequest) -> SourceResult:
    """Who takes the mail of the domain, and what is known of them."""
    try:
        hosts = request.names.find_exchangers(request.domain)
    except NoSuchName:
        return SourceResult("mx", f"There is no domain {request.domain} in DNS. Check the address.")
    if hosts is None:
        return SourceResult("mx", f"{request.domain} says that it takes no mail at all.", ends_guessing=True)
    for host in hosts:
        if (provider := autoconfig.provider_of_exchanger(host)) is not None:
            return _result_of_provider(request, provider, f"Mail for {request.domain} goes to {provider.name}.", host)
    if (provider := _find_by_autodiscover(request)) is not None:
        return _result_of_provider(request, provider, f"Mailboxes of {request.domain} lie at {provider.name}.", "")
    return _result_of_unknown(request, hosts)


def guess_usual_names(request: DiscoveryRequest) -> SourceResult:
    """Hosts of usual names that exist. Nobody connects to them to see what they are."""
    domain = request.domain
    anything = f"{secrets.token_hex(8)}.{domain}"  # where this exists, so does every name
    names = (f"imap.{domain}", f"mail.{domain}", f"smtp.{domain}", anything)
    begun = {name: _start_look_up(request, request.names.find_addresses, name) for name in names}
    found = {name: _usable_addresses(future.result()) for name, future in begun.items()}
    there = [name for name in names[:3] if found[name] and found[name] != found[anything]]
    imap = next((name for name in there if not name.startswith("smtp.")), None)
    smtp = next((name for name in reversed(there) if not name.startswith("imap.")), None)
    if imap is None or smtp is None:
        return SourceResult("guess", f"{domain} has no hosts of the usual names (imap, mail, smtp).")
    servers = (
        DiscoveredServer(imap, _IMAP_TLS, "tls", request.email),
        DiscoveredServer(smtp, _SMTP_TLS, "tls", request.email),
    )
    told = (
        f"{_join_hosts([imap, smtp])} exist{'s' if imap == smtp else ''}; whether they are mail servers was not tried."
    )
    return SourceResult("guess", told, ServerPair(*servers), _GUESS)


def _usable_addresses(found: tuple[Address, ...]) -> frozenset[Address]:
    return frozenset(one for one in found if connect.is_allowed(one, "tls") and not one.is_loopback)


def _find_by_autodiscover(request: DiscoveryRequest) -> MailProvider | None:
    """Microsoft 365, where the domain's autodiscover is Microsoft's: its mail may take a way through a filter."""
    try:
        alias = request.names.find_alias(f"autodiscover.{request.domain}")
    except (NoSuchName, RemoteFault):
        return None
    return autoconfig.provider_of_exchanger("mail.protection.outlook.com") if alias in _MICROSOFT else None


def _result_of_provider(request: DiscoveryRequest, provider: MailProvider, told: str, host: str) -> SourceResult:
    servers = provider.servers(request.email, host)
    if servers is None:
        return SourceResult("mx", f"{told} {provider.note or ''}".rstrip(), ends_guessing=True)
    return SourceResult("mx", told, ServerPair(*servers), _EXCHANGER)


def _result_of_unknown(request: DiscoveryRequest, hosts: tuple[str, ...]) -> SourceResult:
    if not hosts:
        return SourceResult("mx", f"The DNS of {request.domain} does not say who takes its mail (MX records).")
    goes = f"Mail for {request.domain} goes to"
    if (service := autoconfig.mail_filter_of(hosts[0])) is not None:
        return SourceResult("mx", f"{goes} {service}, which hands it on: that does not tell where its mailboxes are.")
    host = hosts[0]
    for name in _parent_domains(host, request.domain) if request.directory else ():
        config = _find_in_directory(request, name)
        if config is not None and config.imap and config.smtp:
            return _result_of_config(
                config, f"{goes} {host}, which the directory of providers knows", _DIRECTORY_OF_EXCHANGER, "mx"
            )
    return SourceResult("mx", f"{goes} {host}, of which nothing is known.")


def _parent_domains(host: str, domain: str) -> list[str]:
    """The domains that an exchanger may belong to; not the one that was asked for anyway."""
    labels = host.split(".")
    ends = dict.fromkeys(".".join(labels[start:]) for start in (1, len(labels) - 2) if start > 0)
    return [end for end in ends if "." in end and end != domain]


def _find_in_directory(request: DiscoveryRequest, name: str) -> AutoconfigServers | None:
    try:
        return _fetch_config(request, request.directory + name, request.directory_web)
    except RemoteFault:  # the result for the domain itself reports the failure
        return None


def _ask_autoconfig(request: DiscoveryRequest, host: str, path: str) -> SourceResult:
    try:
        config = _fetch_config(request, f"https://{host}{path}", request.web)
    except RemoteFault as fault:
        return SourceResult("autoconfig", f"{host} {_describe_failure(fault)}.")
    if config is None:
        return SourceResult("autoconfig", f"{host} says nothing about mail servers.")
    return _result_of_config(config, f"{host} says so", _OWN_AUTOCONFIG)


def _fetch_config(request: DiscoveryRequest, url: str, options: https.HttpsOptions) -> AutoconfigServers | None:
    """The document that lies at an address; None: there is none."""
    answer = https.get(url, options, {"Accept": "application/xml, text/xml"}, redirects=_REDIRECTS)
    try:
        return autoconfig.read_autoconfig(answer.body, request.email) if answer.status == 200 else None
    except NotAutoconfig:
        return None


def _result_of_config(config: AutoconfigServers, how: str, weight: int, source: Source = "autoconfig") -> SourceResult:
    imap = _first_server(config.imap) or _first_with_sign_in(config.imap_by_sign_in)
    smtp = _first_server(config.smtp) or (_first_server(config.smtp_by_sign_in) if imap and not config.imap else None)
    named = [server.host for server in (imap, smtp) if server is not None]
    if named:
        return SourceResult(source, f"{how}: {_join_hosts(named)}.", ServerPair(imap, smtp), weight)
    if config.imap_by_sign_in:
        return SourceResult(
            source, f"{how}, but its servers take no password, only a sign-in that is not offered here."
        )
    return SourceResult(source, f"{how}, but names no server for IMAP or SMTP with TLS.")


def _describe_failure(fault: RemoteFault) -> str:
    """Why a web server said nothing."""
    return _FAILURES.get(fault.name or "") or _FAILURES.get(fault.kind, "gave no answer that can be read")


def _first_with_sign_in(servers: tuple[DiscoveredServer, ...]) -> DiscoveredServer | None:
    """The first whose provider's sign-in is offered here."""
    known = ((server, autoconfig.provider_of_servers(server.host)) for server in servers)
    return next((server for server, provider in known if provider and provider.sign_in), None)


def _first_server(servers: tuple[DiscoveredServer, ...]) -> DiscoveredServer | None:
    return servers[0] if servers else None


def _look_up_or_nothing(look_up: Callable[[str], tuple[T, ...]], name: str) -> tuple[T, ...]:
    """What is found of a name; nothing where there is no such name."""
    try:
        return look_up(name)
    except NoSuchName:
        return ()


def _start_look_up(
    request: DiscoveryRequest, look_up: Callable[[str], tuple[T, ...]], name: str
) -> "Future[tuple[T, ...]]":
    return request.calls.start("dns", partial(_look_up_or_nothing, look_up, name))


def _join_hosts(hosts: list[str]) -> str:
    return " and ".join(dict.fromkeys(hosts))


# --- Asking them all ---


#: Seconds for all of it. A source without an answer by then says so.
TIME_LIMIT = 6.0
_WEB_TIME_LIMIT = 4.5
_SOURCES: tuple[tuple[Source, ServerName, Callable[[DiscoveryRequest], SourceResult]], ...] = (
    ("srv", "dns", ask_srv_records),
    ("autoconfig", "autoconfig", ask_own_autoconfig),
    ("autoconfig", "autoconfig", ask_well_known_autoconfig),
    ("autoconfig", "autoconfig", ask_directory),
    ("mx", "dns", ask_exchangers),
    ("guess", "dns", guess_usual_names),
)


@dataclass(frozen=True)
class DiscoveryOptions:
    """What to ask with: a DNS server (empty: the system's), a directory of providers (empty: none).

    `is_own_directory`: the operator named it, so it may lie in their own network.
    """

    calls: RemoteCalls
    resolver: str = ""
    directory: str = ""
    is_own_directory: bool = False
    ca_file: str = ""


@dataclass(frozen=True)
class DiscoveryResult:
    """The ways to a mailbox, the likeliest first, and what each source said."""

    candidates: tuple[ServerCandidate, ...]
    results: tuple[SourceResult, ...]


def discover(email: str, options: DiscoveryOptions) -> DiscoveryResult:
    """The servers of a mailbox. It takes a few seconds at most; a source that fails has nothing to say but why."""
    domain = _domain_to_ask(email)
    if domain is None:
        told = "The part after the @ is no name that can be looked up, such as example.org."
        return DiscoveryResult((), (SourceResult("table", told),))
    if (provider := autoconfig.provider_of_domain(domain)) is not None:
        servers = provider.servers(email)
        told = f"{domain} is a domain of {provider.name}." if servers else provider.note or ""
        heard = SourceResult("table", told, ServerPair(*servers) if servers else None)
        return DiscoveryResult(autoconfig.rank_candidates([heard]), (heard,))
    unknown = SourceResult("table", f"{domain} is none of the large providers that are known here.")
    answers = _ask_sources(email, domain, options)
    return DiscoveryResult(autoconfig.rank_candidates(answers), (unknown, *answers))


def _domain_to_ask(email: str) -> str | None:
    try:
        return host_name(domain_of(to_envelope_address(email)))
    except ValueError:
        return None


def _ask_sources(email: str, domain: str, options: DiscoveryOptions) -> list[SourceResult]:
    until = time.monotonic() + TIME_LIMIT
    names = Resolver(options.resolver, until)
    find = names.look_up if options.resolver else None
    web = https.HttpsOptions("autoconfig", options.ca_file, _WEB_TIME_LIMIT, look_up=find)
    directory_web = https.HttpsOptions(
        "autoconfig", options.ca_file, _WEB_TIME_LIMIT, not options.is_own_directory, find
    )
    request = DiscoveryRequest(email, domain, names, web, options.directory, directory_web, options.calls)
    begun: list[tuple[Source, Future[SourceResult]]] = []
    for source, server, question in _SOURCES:
        begun.append((source, options.calls.start(server, partial(question, request))))
    return [_await_source(source, answer, until) for source, answer in begun]


def _await_source(source: Source, answer: "Future[SourceResult]", until: float) -> SourceResult:
    try:
        return answer.result(max(0.0, until - time.monotonic()))
    except RemoteFault as fault:
        return SourceResult(source, fault.reason)
    except NotInTime:
        return SourceResult(source, "No answer came in time.")
