"""The table of large providers: it fits itself, and names end where labels do."""

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.remote.discovery import autoconfig
from mailbox_appliance.remote.net.dns import host_name

TABLE: dict[str, list[dict[str, Any]]] = tomllib.loads(
    Path(autoconfig.__file__).with_name("known_servers.toml").read_text("utf-8")
)
COLUMNS = {"name", "sign_in", "domains", "mx", "imap", "smtp", "local", "wants", "note"}


def test_every_row_fits() -> None:
    for row in TABLE["provider"]:
        assert set(row) <= COLUMNS, row
        for place in filter(None, (row.get("imap"), row.get("smtp"))):
            host, _, port = place.rpartition(":")
            assert host == "{mx}" or host_name(host) == host, place
            assert port in ("993", "465", "587", "143"), place
        assert ("imap" in row) == ("smtp" in row), row
        assert "imap" in row or row["note"], row
        assert row["domains"] or row["mx"], row


@pytest.mark.parametrize("column", ["domains", "mx"])
def test_no_name_stands_twice(column: str) -> None:
    names = [name for kind in TABLE.values() for row in kind for name in row.get(column, ())]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    assert [name for name in names if host_name(name) != name] == []


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("aspmx.l.google.com", "Google"),
        ("smtp.google.com", "Google"),
        ("aspmx2.googlemail.com", "Google"),
        ("evilgoogle.com", None),
        ("google.com.evil.example", None),
        ("contoso-com.mail.protection.outlook.com", "Microsoft 365"),
        ("hotmail-com.olc.protection.outlook.com", "Outlook.com"),
        ("w0123456.kasserver.com", "ALL-INKL"),
        ("mx.example.org", None),
    ],
)
def test_whose_exchanger_it_is(host: str, name: str | None) -> None:
    provider = autoconfig.provider_of_exchanger(host)
    assert (provider and provider.name) == name


def test_whose_servers_they_are() -> None:
    named = {
        smtp: autoconfig.provider_of_servers("outlook.office365.com", smtp)
        for smtp in ("smtp.office365.com", "smtp-mail.outlook.com", "smtp.other.example")
    }
    assert [found and found.name for found in named.values()] == ["Microsoft 365", "Outlook.com", "Outlook.com"]
    assert autoconfig.provider_of_servers("imap.other.example") is None


def test_the_name_before_the_at_belongs_to_the_providers_own_domains() -> None:
    icloud = autoconfig.provider_of_domain("icloud.com")
    assert icloud is not None
    own, custom = icloud.servers("ada@icloud.com"), icloud.servers("ada@ada.example", "mx01.mail.icloud.com")
    assert own is not None
    assert custom is not None
    assert (own[0].username, own[1].username, custom[0].username) == ("ada", "ada@icloud.com", "ada@ada.example")
