"""`accounts discover`: which servers a mailbox has, and the command that connects it."""

import shlex
from collections.abc import Iterator
from typing import Any

import click

from mailbox_appliance.cli import render
from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.rows import Call, Given, Row

#: The ports that `accounts add` takes for the security (RFC 8314 3.2 and 3.3, RFC 6409).
_PORTS = {"imap": {"tls": 993, "starttls": 143}, "smtp": {"tls": 465, "starttls": 587}}
_ADD = ("mailbox-appliance", "accounts", "add")


def _body(_invocation: Invocation, given: Given) -> Any:
    return {"email": given["email"]}


def _ways(found: Any) -> str:
    """The ways that were found, each with what connects it, and what each source said."""
    ways = [line for number, way in enumerate(found["candidates"], 1) for line in _way(number, way, found["email"])]
    said = [f"  {one['source']}: {one['outcome']}" for one in found["sources"]]
    nothing = "Nothing was found. The provider tells its servers, mostly under “IMAP”."
    lines = [*(ways or [nothing, ""]), "What each source said:", *said]
    return "".join(f"{render.plain(line)}\n" for line in lines)


def _way(number: int, way: Any, email: str) -> Iterator[str]:
    """A way as a paragraph."""
    yield f"{number}. {way['name'] or way['imap']['host']} ({', '.join(way['foundBy'])})"
    for kind in ("imap", "smtp"):
        server = way[kind]
        yield f"   {kind.upper()}: {server['host']}:{server['port']}, {server['security']}, as {server['username']}"
    if way["note"]:
        yield f"   {way['note']}"
    yield f"   {shlex.join(_command(way, email))}"
    if way["provider"] == "google":
        yield f"   {shlex.join(_command({**way, 'provider': None}, email))}   # with an app password"
    yield ""


def _command(way: Any, email: str) -> Iterator[str]:
    """What connects a mailbox in this way."""
    yield from (*_ADD, "--email", email)
    if way["provider"]:
        yield from ("--provider", way["provider"])
        return
    for kind, ports in _PORTS.items():
        server = way[kind]
        yield from (f"--{kind}-host", server["host"])
        if server["security"] != "tls":
            yield from (f"--{kind}-security", server["security"])
        if server["port"] != ports[server["security"]]:
            yield from (f"--{kind}-port", str(server["port"]))
    if way["imap"]["username"] != email:
        yield from ("--imap-username", way["imap"]["username"])
    if way["smtp"]["username"] != way["imap"]["username"]:
        yield from ("--smtp-username", way["smtp"]["username"])


DISCOVER = Row(
    "discover",
    Call("POST", "/accounts/discover"),
    "Find the servers of a mailbox from its address.\n\n"
    "Asked are a table of large providers, and else DNS, the domain's web server, and a directory of providers. No mail"
    " server is connected to and nothing is stored; the first way is the likeliest.",
    (click.Argument(["email"], metavar="ADDRESS"),),
    view=_ways,
    body=_body,
    waiting_for="Asking DNS and the provider…",
)
