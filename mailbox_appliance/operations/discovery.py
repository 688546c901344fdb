"""Finding the servers of a mailbox from its address, before it is connected."""

from typing import Annotated, Literal

from msgspec import Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.records import Input, Wire
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.operations.texts import Email
from mailbox_appliance.remote.discovery import autoconfig, discovery
from mailbox_appliance.settings import BY_NAME, Settings

Source = Annotated[
    Literal["table", "srv", "autoconfig", "mx", "guess"],
    Meta(
        description="`table`: a large provider; `srv`: the domain's DNS (RFC 6186); `autoconfig`: the domain's web"
        " server, or a directory of providers; `mx`: who takes its mail; `guess`: hosts of usual names."
    ),
]
_DIRECTORY = "remote.autoconfig_directory"


class Wanted(Input, frozen=True, kw_only=True):
    """The mailbox whose servers are looked for."""

    email: Email


class FoundServer(Wire, frozen=True, kw_only=True):
    """How one mail server is reached, and the user name it most likely wants."""

    host: str
    port: Annotated[int, Meta(ge=1, le=65535)]
    security: Literal["tls", "starttls"]
    username: str


class Candidate(Wire, frozen=True, kw_only=True):
    """A way to the mailbox: what POST `/accounts` takes, but for the password.

    `foundBy`: every source that says so, the most believed first. `provider`: by whose sign-in it is connected best
    (POST `/accounts/oauth/{provider}`). `name` and `note`: who it is, where that is known, and what they want first.
    """

    source: Source
    found_by: tuple[Source, ...]
    provider: Literal["google", "outlook"] | None
    name: str | None
    note: str | None
    imap: FoundServer
    smtp: FoundServer


class Said(Wire, frozen=True, kw_only=True):
    """What a source said, in a sentence. `found`: it named a server."""

    source: Source
    found: bool
    outcome: str


class Discovered(Wire, frozen=True, kw_only=True):
    """The ways to a mailbox, the likeliest first; and what each source said."""

    email: str
    candidates: tuple[Candidate, ...]
    sources: tuple[Said, ...]


@operation(access=Access.SESSION, asks_servers=True, tag="discovery")
def discover(appliance: Appliance, caller: Caller, request: Wanted) -> Discovered:  # noqa: ARG001 - for every session
    """Find the servers of a mailbox from its address. No mail server is connected to, and nothing is saved."""
    found = discovery.discover(request.email, _means(appliance, appliance.settings))
    said = (Said(source=one.source, found=one.servers is not None, outcome=one.message) for one in found.results)
    candidates = tuple(map(_candidate, found.candidates))
    return Discovered(email=request.email, candidates=candidates, sources=tuple(said))


def _means(appliance: Appliance, settings: Settings) -> discovery.DiscoveryOptions:
    directory = settings.text(_DIRECTORY)
    return discovery.DiscoveryOptions(
        appliance.calls,
        settings.text("remote.resolver"),
        directory.rstrip("/") + "/" if directory else "",
        directory != BY_NAME[_DIRECTORY].default,
        settings.text("remote.ca_file"),
    )


def _candidate(found: autoconfig.ServerCandidate) -> Candidate:
    return Candidate(
        source=found.source,
        found_by=found.found_by,
        provider=found.sign_in,
        name=found.name,
        note=found.note,
        imap=_server(found.imap),
        smtp=_server(found.smtp),
    )


def _server(server: autoconfig.DiscoveredServer) -> FoundServer:
    return FoundServer(host=server.host, port=server.port, security=server.security, username=server.username)
