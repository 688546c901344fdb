"""Find the servers of an address: ask several sources at once, and rank their results.

    table       a large known provider; nothing else is asked then
    srv         the domain's DNS records for mail clients (RFC 6186, RFC 8314 5.1)
    autoconfig  the domain's autoconfig document over HTTPS, and a public directory of such documents
    mx          the hosts that accept the domain's mail (RFC 5321 5.1), and their known providers
    guess       hosts with the usual names, such as imap.example.org, if they exist

No mail server is contacted. Each source returns a sentence for people, even if it knows nothing. The sentence is
written here: of a server's answer, only host names, ports and user names are used.
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
    CandidateServer,
    DiscoveryCandidate,
    MailProvider,
    NotAutoconfig,
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

# The weight of each source. A directory entry was checked by people. The host that accepts a domain's mail usually
# stores it too, while a web host's autoconfig may be outdated. Anyone can have a host with a usual name.
_DIRECTORY, _EXCHANGER, _OWN_AUTOCONFIG, _DNS, _DIRECTORY_OF_EXCHANGER, _GUESS = 70, 60, 50, 40, 35, 5
_REDIRECTS = 3
_IMAP_TLS, _SMTP_TLS = 993, 465  # RFC 8314 3.2 and 3.3
#: Sentences for a web server without a document, by the name or the kind of the fault.
_FAILURES = {
    "host_unknown": "does not exist",
    "dns_down": "could not be looked up",
    "certificate_name": "has a certificate for another name",
    "tls": "has a certificate that is not trusted",
    "timeout": "did not answer in time",
    "unreachable": "does not answer over HTTPS",
    "forbidden_address": "has no public address, so it is not contacted",
}
#: The target of a domain's `autodiscover` alias if Microsoft 365 hosts its mailboxes.
_MICROSOFT = frozenset({"autodiscover.outlook.com", "autodiscover-s.outlook.com"})


@dataclass(frozen=True)
class DiscoveryRequest:
    """The data that each source needs to find the servers of an email address.

    - names: the DNS resolver.
    - web: options for HTTPS requests to the domain of the address.
    - directory: the URL of a web server with autoconfig documents for many domains; empty for none.
    - directory_web: options for HTTPS requests to `directory`.
    - calls: lets another thread abandon the lookups.
    """

    email: str
    domain: str
    names: Resolver
    web: https.HttpsOptions
    directory: str
    directory_web: https.HttpsOptions
    calls: RemoteCalls


def ask_srv_records(request: DiscoveryRequest) -> SourceResult:
    """Find the servers in the domain's SRV records (RFC 6186 3, RFC 8314 5.1), those with TLS first."""
    imap = _find_service(request, ("_imaps", True), ("_imap", False))
    smtp = _find_service(request, ("_submissions", True), ("_submission", False))
    named = [server.host for server in (imap, smtp) if server is not None]
    if not named:
        return SourceResult("srv", f"The DNS of {request.domain} names no servers for mail programs (SRV records).")
    only = "" if len(named) == 2 else f", and none to {'send' if imap else 'read'} mail by"
    told = f"The DNS of {request.domain} names {_join_hosts(named)}{only} (SRV records)."
    return SourceResult("srv", told, ServerPair(imap, smtp), _DNS)


def _find_service(request: DiscoveryRequest, *names: tuple[str, bool]) -> CandidateServer | None:
    look_up = request.names.find_services
    asked = [(is_tls, _start_look_up(request, look_up, f"{name}._tcp.{request.domain}")) for name, is_tls in names]
    for is_tls, future in asked:
        if found := future.result():
            first = found[0]
            return CandidateServer(first.host, first.port, "tls" if is_tls else "starttls", request.email)
    return None


def ask_own_autoconfig(request: DiscoveryRequest) -> SourceResult:
    """Read the autoconfig document at `autoconfig.DOMAIN`.

    The request contains the address, because some servers compute the user name from it.
    """
    query = f"emailaddress={quote(request.email, safe='@')}"
    return _ask_autoconfig(request, f"autoconfig.{request.domain}", f"/mail/config-v1.1.xml?{query}")


def ask_well_known_autoconfig(request: DiscoveryRequest) -> SourceResult:
    """Read the autoconfig document below `/.well-known/` at the domain's own web server."""
    return _ask_autoconfig(request, request.domain, "/.well-known/autoconfig/mail/config-v1.1.xml")


def ask_directory(request: DiscoveryRequest) -> SourceResult:
    """Read the domain's autoconfig document from the configured directory, a web server for many domains."""
    if not request.directory:
        return SourceResult(
            "autoconfig", ("No directory of providers is configured (setting remote.autoconfig_directory).")
        )
    try:
        config = _fetch_config(request, request.directory + request.domain, request.directory_web)
    except RemoteFault as fault:
        return SourceResult("autoconfig", f"The directory of providers {_describe_failure(fault)}.")
    if config is None or not (config.imap or config.smtp):
        return SourceResult("autoconfig", f"The directory of providers does not know {request.domain}.")
    return _result_of_config(config, f"The directory of providers knows {request.domain}", _DIRECTORY)


def ask_exchangers(request: DiscoveryRequest) -> SourceResult:
    """Find the hosts that accept the domain's mail (MX records), and the known provider to which they belong."""
    try:
        hosts = request.names.find_exchangers(request.domain)
    except NoSuchName:
        return SourceResult("mx", f"There is no domain {request.domain} in DNS. Check the address.")
    if hosts is None:
        return SourceResult("mx", f"{request.domain} reports that it accepts no mail (RFC 7505).", ends_guessing=True)
    for host in hosts:
        if (provider := autoconfig.provider_of_exchanger(host)) is not None:
            return _result_of_provider(request, provider, f"Mail for {request.domain} goes to {provider.name}.", host)
    if (provider := _find_by_autodiscover(request)) is not None:
        return _result_of_provider(request, provider, f"Mailboxes of {request.domain} lie at {provider.name}.", "")
    return _result_of_unknown(request, hosts)


def guess_usual_names(request: DiscoveryRequest) -> SourceResult:
    """Find out by DNS which usual names exist (imap, mail and smtp at the domain), without connecting to the hosts."""
    domain = request.domain
    anything = f"{secrets.token_hex(8)}.{domain}"  # If this name exists, every name of the domain does.
    names = (f"imap.{domain}", f"mail.{domain}", f"smtp.{domain}", anything)
    begun = {name: _start_look_up(request, request.names.find_addresses, name) for name in names}
    found = {name: _usable_addresses(future.result()) for name, future in begun.items()}
    there = [name for name in names[:3] if found[name] and found[name] != found[anything]]
    imap = next((name for name in there if not name.startswith("smtp.")), None)
    smtp = next((name for name in reversed(there) if not name.startswith("imap.")), None)
    if imap is None or smtp is None:
        return SourceResult("guess", f"{domain} has no hosts with the usual names (imap, mail, smtp).")
    servers = (
        CandidateServer(imap, _IMAP_TLS, "tls", request.email),
        CandidateServer(smtp, _SMTP_TLS, "tls", request.email),
    )
    exist = "exists" if imap == smtp else "exist"
    told = f"{_join_hosts([imap, smtp])} {exist}; whether they are mail servers was not checked."
    return SourceResult("guess", told, ServerPair(*servers), _GUESS)


def _usable_addresses(found: tuple[Address, ...]) -> frozenset[Address]:
    return frozenset(one for one in found if connect.is_allowed(one, "tls") and not one.is_loopback)


def _find_by_autodiscover(request: DiscoveryRequest) -> MailProvider | None:
    """Return Microsoft 365 if the domain's `autodiscover` name is an alias of Microsoft's, otherwise None.

    This finds Microsoft 365 also if the domain's mail passes through a filter service first.
    """
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
        return SourceResult("mx", f"The DNS of {request.domain} has no MX records for this domain.")
    goes = f"Mail for {request.domain} goes to"
    if (service := autoconfig.mail_filter_of(hosts[0])) is not None:
        return SourceResult(
            "mx", f"{goes} {service}, which forwards it, so this does not show where its mailboxes are."
        )
    host = hosts[0]
    for name in _parent_domains(host, request.domain) if request.directory else ():
        config = _find_in_directory(request, name)
        if config is not None and config.imap and config.smtp:
            return _result_of_config(
                config, f"{goes} {host}, which the directory of providers knows", _DIRECTORY_OF_EXCHANGER, "mx"
            )
    return SourceResult("mx", f"{goes} {host}, which is not a known provider.")


def _parent_domains(host: str, domain: str) -> list[str]:
    """Return the domains above a host that accepts mail, to look up in the directory.

    `domain`: the domain of the address, which is looked up anyway and left out.
    """
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
        return SourceResult("autoconfig", f"{host} names no mail servers.")
    return _result_of_config(config, f"{host} says so", _OWN_AUTOCONFIG)


def _fetch_config(request: DiscoveryRequest, url: str, options: https.HttpsOptions) -> AutoconfigServers | None:
    """Return the servers in the autoconfig document at a URL; None without a valid one. Raises RemoteFault."""
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
            source, f"{how}, but its servers accept no password, only a sign-in that this appliance does not support."
        )
    return SourceResult(source, f"{how}, but names no server for IMAP or SMTP with TLS.")


def _describe_failure(fault: RemoteFault) -> str:
    """Return the end of a sentence that explains why a web server gave no document, to follow the server's name."""
    return _FAILURES.get(fault.name or "") or _FAILURES.get(fault.kind, "gave an invalid response")


def _first_with_sign_in(servers: tuple[CandidateServer, ...]) -> CandidateServer | None:
    """Return the first server of a provider at which this appliance can sign in with OAuth, or None."""
    known = ((server, autoconfig.provider_of_servers(server.host)) for server in servers)
    return next((server for server, provider in known if provider and provider.sign_in), None)


def _first_server(servers: tuple[CandidateServer, ...]) -> CandidateServer | None:
    return servers[0] if servers else None


def _look_up_or_nothing(look_up: Callable[[str], tuple[T, ...]], name: str) -> tuple[T, ...]:
    """Look up a name in DNS. Returns nothing, instead of raising NoSuchName, if it does not exist."""
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


# --- Asking all sources ---


#: Seconds for everything. A source without an answer by then reports that.
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
    """Settings for `discover`.

    - calls: lets another thread abandon the lookups.
    - resolver: the DNS server to ask; empty for the system's.
    - directory: the URL of a web server with autoconfig documents for many domains; empty for none.
    - is_own_directory: whether the operator configured that directory, so that it may be in a private network.
    - ca_file: file with additional CAs; may be empty.
    """

    calls: RemoteCalls
    resolver: str = ""
    directory: str = ""
    is_own_directory: bool = False
    ca_file: str = ""


@dataclass(frozen=True)
class DiscoveryResult:
    """The candidates, the most likely first, and what each source reported."""

    candidates: tuple[DiscoveryCandidate, ...]
    results: tuple[SourceResult, ...]


def discover(email: str, options: DiscoveryOptions) -> DiscoveryResult:
    """Find the servers of a mailbox from its address, within about TIME_LIMIT seconds.

    If a source fails, its result explains why. Raises RemoteFault only if the calls in `options.calls` were abandoned
    before the lookups began.
    """
    domain = _domain_to_ask(email)
    if domain is None:
        told = "The part after the @ must be a domain, such as example.org."
        return DiscoveryResult((), (SourceResult("table", told),))
    if (provider := autoconfig.provider_of_domain(domain)) is not None:
        servers = provider.servers(email)
        told = f"{domain} is a domain of {provider.name}." if servers else provider.note or ""
        heard = SourceResult("table", told, ServerPair(*servers) if servers else None)
        return DiscoveryResult(autoconfig.rank_candidates([heard]), (heard,))
    unknown = SourceResult("table", f"{domain} is not one of the large providers known here.")
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
        return SourceResult(source, "No response arrived in time.")
