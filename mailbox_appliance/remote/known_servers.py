"""Large providers whose servers we know: by the domain of an address, or by the host that takes a domain's mail.

The table itself is data, in known_servers.toml, which says what stands in it.
"""

import functools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mailbox_appliance.remote.autoconfig import Protected, Server

SignIn = Literal["google", "outlook"]

_TABLE = Path(__file__).with_name("known_servers.toml")
_SECURITY: Mapping[int, Protected] = {993: "tls", 465: "tls", 143: "starttls", 587: "starttls"}
_WANTS = {
    "app_password": "{name} wants an app password, which you make on its site, in place of your own.",
    "own_password": "{name} wants the password for mail programs, which you set on its site, in place of your own.",
    "switched_on": "Other mail programs must be let in first, in the settings on the site of {name}.",
}


@dataclass(frozen=True)
class Provider:
    """A provider and its servers. `imap` and `smtp` are None where it has none for mail programs."""

    name: str
    imap: str | None = None
    smtp: str | None = None
    sign_in: SignIn | None = None
    has_local_names: bool = False
    note: str | None = None

    def servers(self, email: str, exchanger: str = "") -> tuple[Server, Server] | None:
        """Where IMAP and SMTP are reached for an address. `exchanger`: what takes mail for a domain of one's own."""
        if self.imap is None or self.smtp is None:
            return None
        local = email.rpartition("@")[0] if self.has_local_names and not exchanger else email
        return _server(self.imap, local, exchanger), _server(self.smtp, email, exchanger)


@dataclass(frozen=True)
class _Table:
    by_domain: Mapping[str, Provider]
    by_exchanger: Mapping[str, Provider]
    by_servers: Mapping[tuple[str, str], Provider]
    filters: Mapping[str, str]


def of_domain(domain: str) -> Provider | None:
    """Whose addresses a domain's are."""
    return _table().by_domain.get(domain) or _by_end(_table().by_domain, domain, ("onmicrosoft.com",))


def of_exchanger(host: str) -> Provider | None:
    """Who takes mail for domains of others at a host."""
    return _by_end(_table().by_exchanger, host)


def of_servers(imap: str, smtp: str = "") -> Provider | None:
    """Whose servers these are: Outlook.com and Microsoft 365 have one IMAP server, and two for SMTP."""
    return _table().by_servers.get((imap, smtp)) or _table().by_servers.get((imap, ""))


def filter_of(host: str) -> str | None:
    """The service that takes mail at a host and hands it on to wherever the mailboxes are."""
    return _by_end(_table().filters, host)


def _by_end(table: Mapping[str, Any], host: str, ends: Iterable[str] | None = None) -> Any:
    """What the longest end of a host name stands for, of whole labels."""
    labels = host.split(".")
    for start in range(len(labels)):
        end = ".".join(labels[start:])
        if end in table and (ends is None or end in ends):
            return table[end]
    return None


@functools.cache
def _table() -> _Table:
    rows = tomllib.loads(_TABLE.read_text("utf-8"))
    providers = [(_provider(row), row) for row in rows["provider"]]
    return _Table(
        dict(_by(providers, "domains")),
        dict(_by(providers, "mx")),
        dict(_by_hosts(provider for provider, _ in reversed(providers))),
        {end: row["name"] for row in rows["filter"] for end in row["mx"]},
    )


def _by(providers: list[tuple[Provider, dict[str, Any]]], column: str) -> Iterator[tuple[str, Provider]]:
    for provider, row in providers:
        yield from ((name, provider) for name in row.get(column, ()))


def _by_hosts(providers: Iterable[Provider]) -> Iterator[tuple[tuple[str, str], Provider]]:
    for provider in providers:
        if provider.imap and provider.smtp:
            imap, smtp = (place.partition(":")[0] for place in (provider.imap, provider.smtp))
            yield from (((imap, smtp), provider), ((imap, ""), provider))


def _provider(row: dict[str, Any]) -> Provider:
    sentences = [_WANTS[want].format(name=row["name"]) for want in row.get("wants", ())]
    note = " ".join([*sentences, *([row["note"]] if "note" in row else [])])
    is_local = row.get("local", False)
    return Provider(row["name"], row.get("imap"), row.get("smtp"), row.get("sign_in"), is_local, note or None)


def _server(place: str, username: str, exchanger: str) -> Server:
    host, _, port = place.replace("{mx}", exchanger).rpartition(":")
    return Server(host, int(port), _SECURITY[int(port)], username)
