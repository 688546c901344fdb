"""Finding a mailbox's servers through the API. What is found of whom: tests/remote/discovery/test_discovery.py."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checked_client import CheckedClient
from tests.servers.desk import Desk
from tests.servers.names import Names, NameServer

SRV = ("_imaps._tcp SRV 0 1 993 imap.cow.example.", "_submissions._tcp SRV 0 1 465 smtp.cow.example.")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedClient]:
    """A client of an appliance that knows one DNS server, and no directory."""
    names = Names()
    names.add_zone("cow.example", [*SRV, "@ MX 10 mx.cow.example."])
    folder: Path = tmp_path_factory.mktemp("discovery") / "data"
    with NameServer(names) as server:
        resolver = f"127.0.0.1:{server.port}"
        desk = Desk(folder, remote__resolver=resolver, remote__autoconfig_directory="")
        client = CheckedClient(desk.appliance)
        client.token = desk.token
        yield client
        desk.close()


def found(client: CheckedClient, email: str) -> Any:
    return client.ask("POST", "/accounts/discover", {"email": email}).data


def test_what_dns_says(client: CheckedClient) -> None:
    data = found(client, "ada@cow.example")
    server = {"security": "tls", "username": "ada@cow.example"}
    assert data["email"] == "ada@cow.example"
    assert data["candidates"] == [
        {
            "source": "srv",
            "foundBy": ["srv"],
            "provider": None,
            "name": None,
            "note": None,
            "imap": server | {"host": "imap.cow.example", "port": 993},
            "smtp": server | {"host": "smtp.cow.example", "port": 465},
        }
    ]
    said = [(one["source"], one["found"]) for one in data["sources"]]
    assert said == [
        ("table", False),
        ("srv", True),
        *[("autoconfig", False)] * 3,
        ("mx", False),
        ("guess", False),
    ]
    assert all(one["outcome"].endswith(".") for one in data["sources"])


@pytest.mark.parametrize(("email", "provider"), [("ada@gmail.com", "google"), ("ada@hotmail.com", "outlook")])
def test_whose_sign_in_is_offered(email: str, provider: str, client: CheckedClient) -> None:
    data = found(client, email)
    assert [one["provider"] for one in data["candidates"]] == [provider]
    assert [one["source"] for one in data["sources"]] == ["table"]


def test_what_is_found_can_be_connected_as_it_is(client: CheckedClient) -> None:
    """Its servers are those of POST /accounts, but for the password."""
    (way,) = found(client, "ada@gmx.net")["candidates"]
    assert "settings on the site of GMX" in way["note"]
    servers = {name: way[name] | {"password": "secret", "host": "127.0.0.1", "port": 1} for name in ("imap", "smtp")}
    refused = client.ask("POST", "/accounts", {"email": "ada@gmx.net", **servers})
    assert refused.refusal == (503, "provider_unavailable")


def test_what_no_address_is(client: CheckedClient) -> None:
    for email in ("", "ada", "ada@", "ada@b c", "a" * 300 + "@b.example"):
        refused = client.ask("POST", "/accounts/discover", {"email": email})
        assert refused.refusal == (400, "invalid_request")
        assert refused.body["error"]["details"][0]["path"] == "/email"


def test_a_domain_that_is_not_there(client: CheckedClient) -> None:
    assert found(client, "ada@nowhere.example")["candidates"] == []
    told = [one["outcome"] for one in found(client, "ada@nowhere.example")["sources"] if one["source"] == "mx"]
    assert told == ["There is no domain nowhere.example in DNS. Check the address."]
