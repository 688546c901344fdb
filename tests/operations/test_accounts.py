"""Connecting a mailbox: both logins are tried first, and nothing is kept of one that fails. Removing leaves nothing."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.members import Role
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.remote.login_check import ANSWER_AFTER
from mailbox_appliance.remote.smtp import SmtpConnection
from tests.checked_client import CheckedClient
from tests.operations.filled import SECRETS, FilledMailbox, add_key, add_member, everything_stored, letter
from tests.servers.desk import Desk
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.names import Names, NameServer
from tests.servers.scripted_smtp import ScriptedSmtp

FIELDS = {
    "id",
    "email",
    "displayName",
    "provider",
    "ownerMemberId",
    "sharedWithAll",
    "grantedMemberIds",
    "status",
    "error",
    "folders",
    "capabilities",
    "createdAt",
    "lastSyncAt",
}
# Nothing listens there: ports below 1024 are not given out by the system.
CLOSED_PORT = 1


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("sync-")]


def test_a_mailbox_is_connected(checked_client: CheckedClient, request_for: dict[str, Any]) -> None:
    answer = checked_client.ask("POST", "/accounts", request_for | {"displayName": "Büro"})
    assert answer.status == 201
    account = answer.data
    assert account.keys() == FIELDS
    assert (account["email"], account["displayName"]) == (request_for["email"], "Büro")
    assert (account["provider"], account["ownerMemberId"]) == ("imap", checked_client.member["id"])
    assert (account["sharedWithAll"], account["grantedMemberIds"], account["error"]) == (False, [], None)
    assert account["folders"] == {
        "sent": "Sent",
        "drafts": "Drafts",
        "trash": "Trash",
        "archive": "Archive",
        "spam": "Junk",
    }
    assert (account["capabilities"]["idle"], account["capabilities"]["move"]) == (True, True)
    path = f"/accounts/{account['id']}"
    wait_until(lambda: checked_client.ask("GET", path).data["status"] == "ready", lambda: "is not ready", 10)
    shown = checked_client.ask("GET", path).data
    assert shown["lastSyncAt"] is not None
    assert checked_client.ask("GET", "/accounts").data == [shown]
    assert "secret" not in str(shown)


def test_a_step_on_the_way_to_other_folders_is_none(
    checked_client: CheckedClient, request_for: dict[str, Any], mail_server: MailServer
) -> None:
    mail_server.make_folder(request_for["email"], "Years/2026")
    account = checked_client.ask("POST", "/accounts", request_for).data["id"]
    paths = {folder["path"] for folder in checked_client.ask("GET", f"/accounts/{account}/folders").data}
    assert "Years/2026" in paths
    assert "Years" not in paths


def test_a_display_name_may_be_left_out(checked_client: CheckedClient, request_for: dict[str, Any]) -> None:
    request_for["displayName"] = None
    assert checked_client.ask("POST", "/accounts", request_for).data["displayName"] is None


def test_every_member_may_connect_a_mailbox(checked_client: CheckedClient, request_for: dict[str, Any]) -> None:
    bob_id = add_member(checked_client.appliance, "bob")
    bob = checked_client.log_in("bob@example.org")
    assert bob.ask("POST", "/accounts", request_for).data["ownerMemberId"] == bob_id
    assert checked_client.ask("GET", "/accounts").data == []


def test_a_mailbox_is_connected_once(checked_client: CheckedClient, request_for: dict[str, Any]) -> None:
    checked_client.ask("POST", "/accounts", request_for)
    for email in (request_for["email"], request_for["email"].upper()):
        refused = checked_client.ask("POST", "/accounts", request_for | {"email": email})
        assert refused.refusal == (409, "account_exists")
    assert len(checked_client.ask("GET", "/accounts").data) == 1


def changed(request: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The request with changes such as `imap.password`."""
    made = {name: dict(value) if isinstance(value, dict) else value for name, value in request.items()}
    for place, value in changes.items():
        server, _, field = place.partition(".")
        made[server][field] = value
    return made


SECRET = "very-private-7d1f"
PUBLIC = {"host": "8.8.8.8", "port": 25}
# What is changed in a good request, the status, and the places that are told.
FAILING: tuple[tuple[dict[str, Any], int, list[str]], ...] = (
    ({"imap.password": SECRET}, 400, ["/imap/username"]),
    ({"imap.username": "nobody@example.test"}, 400, ["/imap/username"]),
    ({"smtp.password": SECRET}, 400, ["/smtp/username"]),
    ({"imap.password": SECRET, "smtp.password": SECRET}, 400, ["/imap/username", "/smtp/username"]),
    ({"imap.port": CLOSED_PORT}, 503, ["imap"]),
    ({"smtp.port": CLOSED_PORT}, 503, ["smtp"]),
    ({"imap.port": CLOSED_PORT, "smtp.port": CLOSED_PORT}, 503, ["imap", "smtp"]),
    ({"imap.password": SECRET, "smtp.port": CLOSED_PORT}, 400, ["/imap/username"]),
    ({"imap.host": "8.8.8.8"}, 400, ["/imap/host"]),
    ({"smtp.host": "8.8.8.8"}, 400, ["/smtp/host"]),
    ({"imap.host": "169.254.169.254", "imap.security": "tls"}, 400, ["/imap/host"]),
    ({"imap.host": "::ffff:169.254.169.254", "imap.security": "tls"}, 400, ["/imap/host"]),
    ({"imap.host": "0.0.0.0"}, 400, ["/imap/host"]),
    ({"imap.security": "tls"}, 400, ["/imap/security"]),
    ({"imap.security": "starttls"}, 400, ["/imap/security"]),  # the certificate is of a CA that nobody knows
)


@pytest.mark.parametrize(("changes", "status", "places"), FAILING, ids=str)
def test_nothing_is_kept_of_a_mailbox_that_cannot_be_used(
    checked_client: CheckedClient,
    request_for: dict[str, Any],
    changes: dict[str, Any],
    status: int,
    places: list[str],
) -> None:
    before = everything_stored(checked_client.appliance)
    answer = checked_client.ask("POST", "/accounts", changed(request_for, changes))
    code = "provider_unavailable" if status == 503 else "invalid_request"
    assert (answer.refusal, answer.places) == ((status, code), places)
    assert ("retry-after" in answer.headers) == (status == 503)
    assert SECRET not in answer.content.decode()
    assert checked_client.ask("GET", "/accounts").data == []
    assert everything_stored(checked_client.appliance) == before
    assert threads() == []


@pytest.mark.parametrize("email", ["a@-x.example", "a@☃.net", "a@" + "l" * 64 + ".example"])
def test_an_address_that_cannot_travel_is_told(
    checked_client: CheckedClient, request_for: dict[str, Any], email: str
) -> None:
    answer = checked_client.ask("POST", "/accounts", request_for | {"email": email})
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/email"])
    assert checked_client.ask("GET", "/accounts").data == []


def test_where_the_servers_are_swapped_the_ports_are_told(
    checked_client: CheckedClient, request_for: dict[str, Any]
) -> None:
    ports = {"imap.port": request_for["smtp"]["port"], "smtp.port": request_for["imap"]["port"]}
    answer = checked_client.ask("POST", "/accounts", changed(request_for, ports))
    assert (answer.status, answer.places) == (400, ["/imap/port", "/smtp/port"])


def test_a_server_that_limits_is_429(
    checked_client: CheckedClient, request_for: dict[str, Any], scripted_smtp: ScriptedSmtp
) -> None:
    scripted_smtp.at("auth", "454 4.7.0 too many logins by ada@private.test")
    answer = checked_client.ask("POST", "/accounts", changed(request_for, {"smtp.port": scripted_smtp.port}))
    assert (answer.refusal, answer.places) == ((429, "provider_rate_limited"), ["smtp"])
    assert b"private" not in answer.content


def test_a_member_cannot_tell_closed_from_silent_ports(
    checked_client: CheckedClient, request_for: dict[str, Any]
) -> None:
    add_member(checked_client.appliance, "bob")
    bob = checked_client.log_in("bob@example.org")
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor(2) as pool:
        requests = [changed(request_for, {"imap.port": port}) for port in (CLOSED_PORT, silent.getsockname()[1])]
        began = time.monotonic()
        asked = [pool.submit(bob.ask, "POST", "/accounts", request) for request in requests]
        done, _ = wait(asked, return_when=FIRST_COMPLETED)
        assert time.monotonic() - began >= ANSWER_AFTER, "one was answered before the other could be"
        closed, unheard = (answer.result() for answer in asked)
    assert len(done) > 0
    assert (closed.refusal, closed.places) == ((503, "provider_unavailable"), ["imap"])
    assert (unheard.refusal, unheard.places, unheard.message) == (closed.refusal, closed.places, closed.message)
    assert unheard.body["error"]["details"] == closed.body["error"]["details"]
    assert unheard.headers["retry-after"] == closed.headers["retry-after"]
    # An administrator is told what it is, at once, and so is everybody of a login that a mail server refused.
    frank = checked_client.ask("POST", "/accounts", requests[0])
    assert "does not accept connections on this port" in frank.message
    refused = bob.ask("POST", "/accounts", changed(request_for, {"imap.password": SECRET}))
    assert (refused.refusal, refused.places) == ((400, "invalid_request"), ["/imap/username"])


def test_a_key_of_an_administrator_cannot_tell_ports_apart_either(
    checked_client: CheckedClient, request_for: dict[str, Any]
) -> None:
    _, key = add_key(checked_client.appliance, checked_client.member["id"], "admin.accounts")
    request = changed(request_for, {"imap.port": CLOSED_PORT}) | {"ownerMemberId": checked_client.member["id"]}
    told = [
        checked_client.ask("POST", "/admin/accounts", request, token=token) for token in (key, checked_client.token)
    ]
    assert [one.refusal for one in told] == [(503, "provider_unavailable")] * 2
    assert ["only administrators see" in one.message for one in told] == [True, False]


def test_what_became_of_a_members_server_does_not_tell_its_port_either(
    checked_client: CheckedClient, request_for: dict[str, Any]
) -> None:
    """As where the name that a member gave leads to another address since."""
    appliance = checked_client.appliance
    owners: tuple[tuple[str, Role, bool], ...] = (("bob", "member", False), ("eve", "admin", True))
    for name, role, exact in owners:
        box = FilledMailbox(appliance, add_member(appliance, name, role), f"{name}@private.test")
        for use in (appliance.logins.open_imap, appliance.logins.open_smtp):
            opening = ImapMailbox.open if use == appliance.logins.open_imap else SmtpConnection.open
            with pytest.raises(RemoteFault) as caught:
                use(box.id, partial(opening, ca_file="", timeout=5))
            assert (caught.value.name == "connection_refused") is exact


def test_beyond_four_waiting_requests_the_answer_is_503(
    checked_client: CheckedClient, request_for: dict[str, Any]
) -> None:
    with ExitStack() as taken:
        assert all(taken.enter_context(checked_client.appliance.io_slot()) for _ in range(4))
        answer = checked_client.ask("POST", "/accounts", request_for)
        assert answer.refusal == (503, "provider_unavailable")
        assert int(answer.headers["retry-after"]) > 0
        # Who may not, or asks wrongly, learns that first; reading goes on.
        assert checked_client.ask("POST", "/accounts", {}).status == 400
        assert checked_client.ask("GET", "/accounts").data == []
    assert checked_client.ask("POST", "/accounts", request_for).status == 201


def test_a_removed_mailbox_leaves_nothing(
    checked_client: CheckedClient, request_for: dict[str, Any], mail_server: MailServer
) -> None:
    mail_server.deliver(request_for["email"], letter("A-subject-to-forget"))
    request_for["imap"]["password"] = request_for["smtp"]["password"] = "secret"
    account = checked_client.ask("POST", "/accounts", request_for).data["id"]
    path = f"/accounts/{account}"
    wait_until(lambda: checked_client.ask("GET", path).data["status"] == "ready", lambda: "is not ready", 10)
    (message,) = checked_client.ask("GET", f"{path}/messages").data["items"]
    assert mail_server.connections(request_for["email"]) == 1
    assert "A-subject-to-forget" in everything_stored(checked_client.appliance)
    assert checked_client.ask("DELETE", path).data == {"id": account, "deleted": True}
    wait_until(lambda: mail_server.connections(request_for["email"]) == 0, lambda: "is still connected", 10)
    for gone in ("", "/folders", "/messages", f"/messages/{message['id']}", f"/threads/{message['threadId']}"):
        assert checked_client.ask("GET", path + gone).refusal == (404, "not_found")
    assert checked_client.ask("DELETE", path).refusal == (404, "not_found")
    assert checked_client.ask("GET", "/accounts").data == []
    stored = everything_stored(checked_client.appliance)
    for forgotten in ("secret'", '"secret"'):
        assert forgotten not in stored
    mail = ("A-subject-to-forget", request_for["email"], message["id"])  # goes bit by bit

    def left() -> list[str]:
        now = everything_stored(checked_client.appliance)
        return [each for each in mail if each in now]

    wait_until(lambda: left() == [], lambda: str(left()), 10)
    assert len(mail_server.messages(request_for["email"])) == 1
    # It may be connected anew.
    assert checked_client.ask("POST", "/accounts", request_for).data["id"] != account


def test_other_mailboxes_stay(checked_client: CheckedClient, appliance: Appliance) -> None:
    ada = checked_client.member["id"]
    stays, goes = (FilledMailbox(appliance, ada, f"box{number}@example.org") for number in (1, 2))
    for mailbox in (stays, goes):
        mailbox.deliver(letter("One", number=1), letter("Re: One", number=2, answers=1))
    goes.grant(add_member(appliance, "bob"))
    assert checked_client.ask("DELETE", f"/accounts/{goes.id}").status == 200
    assert [account["id"] for account in checked_client.ask("GET", "/accounts").data] == [stays.id]
    items = checked_client.ask("GET", f"/accounts/{stays.id}/messages").data["items"]
    assert len(items) == 2
    thread = checked_client.ask("GET", f"/accounts/{stays.id}/threads/{items[0]['threadId']}").data
    assert len(thread["messages"]["items"]) == 2
    assert all(secret in everything_stored(appliance) for secret in SECRETS)


def test_what_happens_to_mailboxes_is_audited(checked_client: CheckedClient, request_for: dict[str, Any]) -> None:
    account = checked_client.ask("POST", "/accounts", request_for).data["id"]
    checked_client.ask("DELETE", f"/accounts/{account}")
    rows = checked_client.appliance.store.database.rows(
        "SELECT action, target_kind, target_id, outcome, actor_member_id FROM audit_events ORDER BY number DESC LIMIT 2"
    )
    ada = checked_client.member["id"]
    assert [tuple(row) for row in rows] == [
        ("account.delete", "account", account, "success", ada),
        ("account.create", "account", account, "success", ada),
    ]


# --- Finding a mailbox's servers through the API. What is found of whom: tests/remote/discovery/test_discovery.py ---


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
    assert "settings on GMX's website" in way["note"]
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
