"""Whom an address's servers are asked of, besides the table: DNS, the domain's own web servers, a directory, and luck.

Each says in a sentence of ours what came of it. Only host names, ports and user names of an answer are kept.
"""

import secrets
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import quote

from mailbox_appliance.remote import addresses, autoconfig, https, known_servers
from mailbox_appliance.remote.addresses import Address
from mailbox_appliance.remote.autoconfig import Config, NotAutoconfig, Server
from mailbox_appliance.remote.calls import Calls
from mailbox_appliance.remote.dns import NoSuchName, Resolver
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.findings import Finding, Heard, Source
from mailbox_appliance.remote.known_servers import Provider

T = TypeVar("T")

# How much each is believed. A directory that names the domain was checked by people; whoever takes the mail most often
# keeps it too, where a web host's autoconfig may be left over from before; anybody can have a host of a usual name.
_DIRECTORY, _EXCHANGER, _OWN, _DNS, _DIRECTORY_OF_EXCHANGER, _GUESS = 70, 60, 50, 40, 35, 5
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
class Asking:
    """One question: for which address, whom in DNS, how over HTTPS, and which directory (`""`: none)."""

    email: str
    domain: str
    names: Resolver
    web: https.Reach
    directory: str
    directory_web: https.Reach
    calls: Calls


def services(asking: Asking) -> Heard:
    """What the domain says in DNS: RFC 6186 3, RFC 8314 5.1. TLS from the start is preferred."""
    imap = _service(asking, ("_imaps", True), ("_imap", False))
    smtp = _service(asking, ("_submissions", True), ("_submission", False))
    named = [server.host for server in (imap, smtp) if server is not None]
    if not named:
        return Heard("srv", f"The DNS of {asking.domain} names no servers for mail programs (SRV records).")
    only = "" if len(named) == 2 else f", and none to {'send' if imap else 'read'} mail by"
    told = f"The DNS of {asking.domain} names {_and(named)}{only} (SRV records)."
    return Heard("srv", told, Finding(imap, smtp), _DNS)


def _service(asking: Asking, *names: tuple[str, bool]) -> Server | None:
    look_up = asking.names.find_services
    asked = [(is_tls, _begin(asking, look_up, f"{name}._tcp.{asking.domain}")) for name, is_tls in names]
    for is_tls, future in asked:
        if found := future.result():
            first = found[0]
            return Server(first.host, first.port, "tls" if is_tls else "starttls", asking.email)
    return None


def own_autoconfig(asking: Asking) -> Heard:
    """What the domain says at `autoconfig.DOMAIN`; it is told the address, since some make user names of it."""
    query = f"emailaddress={quote(asking.email, safe='@')}"
    return _autoconfig(asking, f"autoconfig.{asking.domain}", f"/mail/config-v1.1.xml?{query}")


def well_known_autoconfig(asking: Asking) -> Heard:
    """What the domain says at its own web server."""
    return _autoconfig(asking, asking.domain, "/.well-known/autoconfig/mail/config-v1.1.xml")


def directory(asking: Asking) -> Heard:
    """What the directory of providers says of the domain."""
    if not asking.directory:
        return Heard("autoconfig", "No directory of providers is asked (setting remote.autoconfig_directory).")
    try:
        config = _config(asking, asking.directory + asking.domain, asking.directory_web)
    except RemoteFault as fault:
        return Heard("autoconfig", f"The directory of providers {_what_failed(fault)}.")
    if config is None or not (config.imap or config.smtp):
        return Heard("autoconfig", f"The directory of providers does not know {asking.domain}.")
    return _said(config, f"The directory of providers knows {asking.domain}", _DIRECTORY)


def exchangers(asking: Asking) -> Heard:
    """Who takes the mail of the domain, and what is known of them."""
    try:
        hosts = asking.names.find_exchangers(asking.domain)
    except NoSuchName:
        return Heard("mx", f"There is no domain {asking.domain} in DNS. Check the address.")
    if hosts is None:
        return Heard("mx", f"{asking.domain} says that it takes no mail at all.", ends_guessing=True)
    for host in hosts:
        if (provider := known_servers.of_exchanger(host)) is not None:
            return _of_provider(asking, provider, f"Mail for {asking.domain} goes to {provider.name}.", host)
    if (provider := _by_autodiscover(asking)) is not None:
        return _of_provider(asking, provider, f"Mailboxes of {asking.domain} lie at {provider.name}.", "")
    return _of_unknown(asking, hosts)


def usual_names(asking: Asking) -> Heard:
    """Hosts of usual names that exist. Nobody connects to them to see what they are."""
    domain = asking.domain
    anything = f"{secrets.token_hex(8)}.{domain}"  # where this exists, so does every name
    names = (f"imap.{domain}", f"mail.{domain}", f"smtp.{domain}", anything)
    begun = {name: _begin(asking, asking.names.find_addresses, name) for name in names}
    found = {name: _usable(future.result()) for name, future in begun.items()}
    there = [name for name in names[:3] if found[name] and found[name] != found[anything]]
    imap = next((name for name in there if not name.startswith("smtp.")), None)
    smtp = next((name for name in reversed(there) if not name.startswith("imap.")), None)
    if imap is None or smtp is None:
        return Heard("guess", f"{domain} has no hosts of the usual names (imap, mail, smtp).")
    servers = (Server(imap, _IMAP_TLS, "tls", asking.email), Server(smtp, _SMTP_TLS, "tls", asking.email))
    told = f"{_and([imap, smtp])} exist{'s' if imap == smtp else ''}; whether they are mail servers was not tried."
    return Heard("guess", told, Finding(*servers), _GUESS)


def _usable(found: tuple[Address, ...]) -> frozenset[Address]:
    return frozenset(one for one in found if addresses.is_allowed(one, "tls") and not one.is_loopback)


def _by_autodiscover(asking: Asking) -> Provider | None:
    """Microsoft 365, where the domain's autodiscover is Microsoft's: its mail may take a way through a filter."""
    try:
        alias = asking.names.find_alias(f"autodiscover.{asking.domain}")
    except (NoSuchName, RemoteFault):
        return None
    return known_servers.of_exchanger("mail.protection.outlook.com") if alias in _MICROSOFT else None


def _of_provider(asking: Asking, provider: Provider, told: str, host: str) -> Heard:
    servers = provider.servers(asking.email, host)
    if servers is None:
        return Heard("mx", f"{told} {provider.note or ''}".rstrip(), ends_guessing=True)
    return Heard("mx", told, Finding(*servers), _EXCHANGER)


def _of_unknown(asking: Asking, hosts: tuple[str, ...]) -> Heard:
    if not hosts:
        return Heard("mx", f"The DNS of {asking.domain} does not say who takes its mail (MX records).")
    goes = f"Mail for {asking.domain} goes to"
    if (service := known_servers.filter_of(hosts[0])) is not None:
        return Heard("mx", f"{goes} {service}, which hands it on: that does not tell where its mailboxes are.")
    host = hosts[0]
    for name in _ends(host, asking.domain) if asking.directory else ():
        config = _of_directory(asking, name)
        if config is not None and config.imap and config.smtp:
            return _said(
                config, f"{goes} {host}, which the directory of providers knows", _DIRECTORY_OF_EXCHANGER, "mx"
            )
    return Heard("mx", f"{goes} {host}, of which nothing is known.")


def _ends(host: str, domain: str) -> list[str]:
    """The domains that an exchanger may belong to; not the one that was asked for anyway."""
    labels = host.split(".")
    ends = dict.fromkeys(".".join(labels[start:]) for start in (1, len(labels) - 2) if start > 0)
    return [end for end in ends if "." in end and end != domain]


def _of_directory(asking: Asking, name: str) -> Config | None:
    try:
        return _config(asking, asking.directory + name, asking.directory_web)
    except RemoteFault:  # that it fails is told of the domain itself
        return None


def _autoconfig(asking: Asking, host: str, path: str) -> Heard:
    try:
        config = _config(asking, f"https://{host}{path}", asking.web)
    except RemoteFault as fault:
        return Heard("autoconfig", f"{host} {_what_failed(fault)}.")
    if config is None:
        return Heard("autoconfig", f"{host} says nothing about mail servers.")
    return _said(config, f"{host} says so", _OWN)


def _config(asking: Asking, url: str, reach: https.Reach) -> Config | None:
    """The document that lies at an address; None: there is none."""
    answer = https.get(url, reach, {"Accept": "application/xml, text/xml"}, redirects=_REDIRECTS)
    try:
        return autoconfig.read(answer.body, asking.email) if answer.status == 200 else None
    except NotAutoconfig:
        return None


def _said(config: Config, how: str, weight: int, source: Source = "autoconfig") -> Heard:
    imap = _first(config.imap) or _by_sign_in(config.imap_by_sign_in)
    smtp = _first(config.smtp) or (_first(config.smtp_by_sign_in) if imap and not config.imap else None)
    named = [server.host for server in (imap, smtp) if server is not None]
    if named:
        return Heard(source, f"{how}: {_and(named)}.", Finding(imap, smtp), weight)
    if config.imap_by_sign_in:
        return Heard(source, f"{how}, but its servers take no password, only a sign-in that is not offered here.")
    return Heard(source, f"{how}, but names no server for IMAP or SMTP with TLS.")


def _what_failed(fault: RemoteFault) -> str:
    """Why a web server said nothing."""
    return _FAILURES.get(fault.name or "") or _FAILURES.get(fault.kind, "gave no answer that can be read")


def _by_sign_in(servers: tuple[Server, ...]) -> Server | None:
    """The first whose provider's sign-in is offered here."""
    known = ((server, known_servers.of_servers(server.host)) for server in servers)
    return next((server for server, provider in known if provider and provider.sign_in), None)


def _first(servers: tuple[Server, ...]) -> Server | None:
    return servers[0] if servers else None


def _or_nothing(look_up: Callable[[str], tuple[T, ...]], name: str) -> tuple[T, ...]:
    """What is found of a name; nothing where there is no such name."""
    try:
        return look_up(name)
    except NoSuchName:
        return ()


def _begin(asking: Asking, look_up: Callable[[str], tuple[T, ...]], name: str) -> "Future[tuple[T, ...]]":
    return asking.calls.start("dns", partial(_or_nothing, look_up, name))


def _and(hosts: list[str]) -> str:
    return " and ".join(dict.fromkeys(hosts))
