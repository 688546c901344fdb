"""From an address to its servers, against a real DNS server and real web servers (tests/servers/internet.py).

What the domains say, and what is to be found, is a table: discovered/domains.toml.
"""

import socket
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.remote.discovery import discovery
from mailbox_appliance.remote.discovery.autoconfig import DiscoveryCandidate
from mailbox_appliance.remote.discovery.discovery import DiscoveryOptions, DiscoveryResult, discover
from mailbox_appliance.remote.net.calls import RemoteCalls
from tests.servers.internet import RESOLVER, WEB, Internet, internet, is_inside, run_inside

FOLDER = Path(__file__).parent / "discovered"
DOMAINS: list[dict[str, Any]] = tomllib.loads((FOLDER / "domains.toml").read_text("utf-8"))["domain"]
DIRECTORY = "directory.example"
TOLD = ["silent.example", "slow.example"]


def domain_of(row: dict[str, Any]) -> str:
    return str(row.get("domain") or row["email"].partition("@")[2].lower())


def hosts() -> list[str]:
    """Every host that is asked by TLS."""
    names = [DIRECTORY, "config.bighoster.example", *TOLD, *(f"autoconfig.{name}" for name in TOLD)]
    for row in DOMAINS:
        names += [domain_of(row), f"autoconfig.{domain_of(row)}"]
    return sorted(set(names))


if not is_inside():

    def test_all_of_it_in_an_internet_of_its_own(tmp_path: Path) -> None:
        run_inside(__file__, tmp_path)

else:

    @pytest.fixture(scope="module")
    def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
        with internet(tmp_path_factory.mktemp("internet"), hosts()) as there:
            there.names.add(DIRECTORY, "A", WEB)
            for row in DOMAINS:
                publish(there, row)
            yield there

    @pytest.fixture
    def means(world: Internet) -> DiscoveryOptions:
        return DiscoveryOptions(RemoteCalls(), "", f"https://{DIRECTORY}/v1.1/", ca_file=world.ca_file)

    def publish(there: Internet, row: dict[str, Any]) -> None:
        domain = domain_of(row)
        there.names.add_zone(domain, [line.replace("{web}", WEB) for line in row.get("dns", ())])
        if row.get("failing"):
            there.names.failing.update(
                [
                    domain,
                    *(f"{one}.{domain}" for one in ("autoconfig", "imap", "mail", "smtp")),
                    f"_imaps._tcp.{domain}",
                ]
            )
            there.names.failing.update(f"_{one}._tcp.{domain}" for one in ("imap", "submission", "submissions"))
        there.web.misnamed.update(row.get("misnamed", ()))
        for place, what in row.get("web", {}).items():
            put(there, place.replace("{domain}", domain), what)
        for name, what in row.get("directory", {}).items():
            put(there, f"{DIRECTORY}/v1.1/{name}", what)

    def put(there: Internet, place: str, what: str) -> None:
        if what.startswith("="):
            there.web.put(place, (FOLDER / what[1:]).read_bytes())
        elif what.startswith(">"):
            there.web.put(place, b"", 302, Location=what[1:])
        else:
            there.web.put(place, b"", int(what))

    def written(candidate: DiscoveryCandidate) -> str:
        imap, smtp = candidate.imap, candidate.smtp
        servers = f"{imap.host}:{imap.port}/{imap.security} {smtp.host}:{smtp.port}/{smtp.security}"
        return f"{servers} {candidate.source} {candidate.provider or '-'}"

    @pytest.mark.parametrize("row", DOMAINS, ids=domain_of)
    def test_a_domain(row: dict[str, Any], world: Internet, means: DiscoveryOptions) -> None:
        found = discover(row["email"], means)
        first = next(iter(found.candidates), None)
        assert (written(first) if first else "") == row["first"]
        if first:
            assert f"{first.imap.username} {first.smtp.username}" == row.get("user", f"{row['email']} {row['email']}")
            assert list(first.found_by) == row.get("found_by", list(first.found_by))
            assert row.get("note", "") in (first.note or "")
        if also := row.get("also"):
            assert also in [written(one) for one in found.candidates[1:]]
        for source, part in (line.split(": ", 1) for line in row.get("said", ())):
            assert any(part in one.message for one in found.results if one.source == source), found.results
        if asked := row.get("asked"):
            assert asked in world.web.asked

    def test_who_is_known_is_asked_for_nowhere(world: Internet, means: DiscoveryOptions) -> None:
        names, pages = len(world.names.asked), len(world.web.asked)
        assert discover("ada@gmail.com", means).candidates
        assert (len(world.names.asked), len(world.web.asked)) == (names, pages)

    def test_no_mail_server_is_connected_to(world: Internet, means: DiscoveryOptions) -> None:
        listening = [socket.create_server((WEB, port)) for port in (25, 110, 143, 465, 587, 993, 995)]
        try:
            assert discover("ada@cow.example", means).candidates
            for one in listening:
                one.setblocking(False)
                with pytest.raises(BlockingIOError):
                    one.accept()
        finally:
            for one in listening:
                one.close()

    def test_the_address_goes_to_its_own_domain_alone(world: Internet, means: DiscoveryOptions) -> None:
        world.web.asked.clear()
        discover("ada.lovelace@redirected.example", means)
        told = [one.partition("/")[0] for one in world.web.asked if "lovelace" in one]
        assert told == ["autoconfig.redirected.example"]
        assert any(one.startswith(DIRECTORY) for one in world.web.asked)

    def test_a_resolver_of_ones_own_is_asked_for_everything(world: Internet, means: DiscoveryOptions) -> None:
        own = DiscoveryOptions(means.calls, f"{RESOLVER}:53", means.directory, ca_file=means.ca_file)
        before = len(world.names.asked)
        assert discover("ada@automx.example", own).candidates
        assert {"autoconfig.automx.example", DIRECTORY} <= {name for name, _ in world.names.asked[before:]}

    def test_without_a_directory_nobody_else_is_asked(world: Internet, means: DiscoveryOptions) -> None:
        world.web.asked.clear()
        found = discover("ada@hosted.example", DiscoveryOptions(means.calls, ca_file=means.ca_file))
        assert found.candidates == ()
        assert any("No directory of providers is configured" in one.message for one in found.results)
        assert not [one for one in world.web.asked if one.startswith(DIRECTORY)]

    def test_a_directory_that_is_gone_takes_nothing_along(world: Internet, means: DiscoveryOptions) -> None:
        found = discover(
            "ada@uni.example", DiscoveryOptions(means.calls, "", "https://gone.example/", ca_file=means.ca_file)
        )
        assert [one.source for one in found.candidates] == ["srv"]
        assert "The directory of providers does not exist." in told_by(found, "autoconfig")
        assert told_by(found, "mx") == ["Mail for uni.example goes to mx.uni.example, which is not a known provider."]

    def test_what_is_silent_is_not_waited_for_long(
        world: Internet, means: DiscoveryOptions, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(discovery, "TIME_LIMIT", 1.0)
        monkeypatch.setattr(discovery, "_WEB_TIME_LIMIT", 0.5)
        world.names.add_zone("silent.example", [f"@ A {WEB}", f"autoconfig A {WEB}", f"mail A {WEB}"])
        world.web.silent.update(["silent.example", "autoconfig.silent.example"])
        world.names.silent.update(f"_{one}._tcp.silent.example" for one in ("imaps", "submissions"))
        began = time.monotonic()
        found = discover("ada@silent.example", means)
        assert time.monotonic() - began < 20  # where nobody gave up, it would be as long as servers are silent
        assert [written(one) for one in found.candidates] == [
            "mail.silent.example:993/tls mail.silent.example:465/tls guess -"
        ]
        said = told_by(found, "autoconfig")
        assert "silent.example did not answer in time." in said
        assert told_by(found, "srv")[0] in ("No response arrived in time.", "The DNS server did not answer in time.")

    def test_a_dns_server_that_fails_is_told_from_a_name_that_is_not_there(
        world: Internet, means: DiscoveryOptions
    ) -> None:
        world.names.add_zone("failing.example", [f"autoconfig A {WEB}"])
        world.names.failing.add("autoconfig.failing.example")
        named = replace(means, resolver=RESOLVER)
        said = told_by(discover("ada@failing.example", named), "autoconfig")
        assert "autoconfig.failing.example could not be looked up." in said

    def told_by(found: DiscoveryResult, source: str) -> list[str]:
        return [one.message for one in found.results if one.source == source]

    @pytest.mark.parametrize("email", ["ada@localhost", "ada@127.0.0.1", "ada@[127.0.0.1]", "ada@0x7f.1", "ada@-a-.b"])
    def test_what_is_no_domain(email: str, world: Internet, means: DiscoveryOptions) -> None:
        before = len(world.names.asked)
        found = discover(email, means)
        assert (found.candidates, len(found.results), len(world.names.asked)) == ((), 1, before)
        assert "must be a domain" in found.results[0].message

    def test_once_the_appliance_stops_nobody_is_waited_for(means: DiscoveryOptions) -> None:
        means.calls.abandon_all()
        with pytest.raises(Exception, match="dns: disconnected"):
            discover("ada@cow.example", means)
