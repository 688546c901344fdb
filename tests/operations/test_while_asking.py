"""What changes while a mail server is asked: whoever may not do it any more, or would be the second, saves nothing."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.checked_client import Answer, CheckedClient
from tests.operations.connected import request_to_connect
from tests.operations.filled import add_member
from tests.servers.desk import Desk
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.servers.issuer import PUBLIC_KEY, sign
from tests.servers.mailboxes import wait_until


class Office:
    """Ada is the administrator. Mailboxes are reached through a proxy, where something happens at the next LIST."""

    proxy: FaultProxy

    def __init__(self, desk: Desk, server: MailServer) -> None:
        self.desk, self.server = desk, server
        self.store = desk.appliance.store
        self.ada = CheckedClient(desk.appliance)
        self.ada.token = desk.token
        self.number = 0

    def join(self, role: Any = "member") -> tuple[str, CheckedClient]:
        """A new member, logged in."""
        self.number += 1
        member = add_member(self.desk.appliance, f"member{self.number}", role)
        return member, CheckedClient(self.desk.appliance).log_in(f"member{self.number}@example.org")

    def mailbox(self, **more: Any) -> dict[str, Any]:
        """What connects a new mailbox."""
        return request_to_connect(self.server, imap_port=self.proxy.port) | more

    def connected(self, client: CheckedClient) -> str:
        """A mailbox that is followed, and at rest."""
        path = f"/accounts/{client.ask('POST', '/accounts', self.mailbox()).data['id']}"
        wait_until(lambda: bool(client.ask("GET", path).data["status"] == "ready"), lambda: "it is not ready", 10)
        return path

    def meanwhile(self, happens: Callable[[], Answer]) -> list[Answer]:
        """At the next LIST, once; answers what came of it."""
        came: list[Answer] = []

        def notice(command: str) -> None:
            if command.upper().startswith("LIST") and not came:
                came.append(None)  # type: ignore[arg-type]  # so that it happens once
                came[0] = happens()

        self.proxy.on_command = notice
        return came

    def emails(self) -> set[str]:
        """Of all mailboxes."""
        return {account.email for account in self.store.accounts.list_all()}


@pytest.fixture(scope="module")
def _office(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[Office]:
    desk = Desk(tmp_path_factory.mktemp("asking") / "data", license__issuer_public_key=PUBLIC_KEY)
    yield Office(desk, mail_server)
    desk.close()


@pytest.fixture
def office(_office: Office) -> Iterator[Office]:
    _office.proxy = _office.server.proxy()  # mailboxes that are followed already go through another one
    yield _office
    _office.proxy.on_command = lambda _: None


def test_a_session_that_ended_connects_nothing(office: Office) -> None:
    eve, client = office.join()
    came = office.meanwhile(lambda: office.ada.ask("DELETE", f"/admin/members/{eve}/sessions"))
    given = office.mailbox()
    assert client.ask("POST", "/accounts", given).refusal == (401, "unauthenticated")
    assert came[0].status == 200
    assert given["email"] not in office.emails()


# What happens to an administrator, or to the key of theirs that asks, and what the key is told then.
ENDS: dict[str, tuple[str, str, Any, tuple[int, str]]] = {
    "revoked": ("DELETE", "/admin/api-keys/{key}", None, (401, "unauthenticated")),
    "limited": ("PATCH", "/admin/api-keys/{key}", {"accounts": []}, (403, "permission_denied")),
    "other capabilities": (
        "PATCH",
        "/admin/api-keys/{key}",
        {"customCapabilities": ["admin.audit"]},
        (403, "permission_denied"),
    ),
    "suspended": ("PATCH", "/admin/members/{member}", {"status": "suspended"}, (403, "member_suspended")),
    "no administrator": ("PATCH", "/admin/members/{member}", {"role": "member"}, (403, "permission_denied")),
}


@pytest.mark.parametrize(("method", "path", "body", "refusal"), ENDS.values(), ids=ENDS)
def test_a_key_that_may_not_any_more_connects_nothing(
    office: Office, method: str, path: str, body: Any, refusal: tuple[int, str]
) -> None:
    member, client = office.join("admin")
    made = client.ask("POST", "/me/api-keys", {"name": "a key", "customCapabilities": ["admin.accounts"]}).data
    key, token = made["apiKey"]["id"], made["token"]
    owner, _ = office.join()
    came = office.meanwhile(lambda: office.ada.ask(method, path.format(key=key, member=member), body))
    given = office.mailbox(ownerMemberId=owner)
    refused = client.ask("POST", "/admin/accounts", given, token=token)
    assert (came[0].status, refused.refusal) == (200, refusal)
    assert refused.places == (["capability"] if refusal[1] == "permission_denied" else [])
    assert given["email"] not in office.emails()


def test_a_session_of_who_is_no_administrator_any_more(office: Office) -> None:
    member, client = office.join("admin")
    office.meanwhile(lambda: office.ada.ask("PATCH", f"/admin/members/{member}", {"role": "member"}))
    given = office.mailbox(ownerMemberId=member)
    assert client.ask("POST", "/admin/accounts", given).refusal == (403, "permission_denied")
    assert given["email"] not in office.emails()


@pytest.mark.parametrize(("method", "body"), [("PATCH", {"status": "suspended"}), ("DELETE", None)])
def test_an_owner_that_cannot_be_any_more(office: Office, method: str, body: Any) -> None:
    owner, _ = office.join()
    came = office.meanwhile(lambda: office.ada.ask(method, f"/admin/members/{owner}", body))
    given = office.mailbox(ownerMemberId=owner)
    assert office.ada.ask("POST", "/admin/accounts", given).refusal == (409, "conflict")
    assert came[0].status == 200
    assert given["email"] not in office.emails()


def test_of_two_that_connect_the_same_one_is_told(office: Office) -> None:
    _, client = office.join()
    given = office.mailbox()
    came = office.meanwhile(lambda: client.ask("POST", "/accounts", given))
    assert client.ask("POST", "/accounts", given).refusal == (409, "account_exists")
    assert came[0].status == 201
    assert [account["email"] for account in client.ask("GET", "/accounts").data] == [given["email"]]


def test_two_at_once_do_not_pass_the_licence(office: Office) -> None:
    most = office.store.accounts.count() + 1
    office.ada.ask("PUT", "/admin/license", {"token": sign({"plan": "team", "maxAccounts": most})})
    came = office.meanwhile(lambda: office.ada.ask("POST", "/accounts", office.mailbox()))
    refused = office.ada.ask("POST", "/accounts", office.mailbox())
    office.ada.ask("DELETE", "/admin/license")
    assert (refused.refusal, refused.places) == ((403, "plan_denied"), ["maxAccounts"])
    assert (came[0].status, office.store.accounts.count()) == (201, most)


def test_a_session_that_ended_reconnects_nothing(office: Office) -> None:
    eve, client = office.join()
    path = office.connected(client)
    before = office.store.accounts.get_connection(path.removeprefix("/accounts/"))
    office.meanwhile(lambda: office.ada.ask("DELETE", f"/admin/members/{eve}/sessions"))
    body = {"imap": {"host": "localhost", "password": "secret"}}
    assert client.ask("POST", f"{path}/reconnect", body).refusal == (401, "unauthenticated")
    assert office.store.accounts.get_connection(path.removeprefix("/accounts/")) == before
    # It is followed as it was.
    office.server.deliver(before.email, b"Subject: later\r\n\r\ntext\r\n")
    again = client.log_in(f"member{office.number}@example.org")
    wait_until(lambda: bool(again.ask("GET", f"{path}/messages").data["items"]), lambda: "nothing came", 15)


def test_a_session_that_ended_maps_no_folders(office: Office) -> None:
    eve, client = office.join()
    path = office.connected(client)
    came = office.meanwhile(lambda: office.ada.ask("DELETE", f"/admin/members/{eve}/sessions"))
    assert client.ask("PATCH", f"{path}/imap/folders", {"archive": "Trash"}).refusal == (401, "unauthenticated")
    assert came[0].status == 200
    account = office.store.accounts.get(path.removeprefix("/accounts/"))
    assert account.folders.archive == "Archive"
    assert office.store.folders.get_user_mapping(account.id) == {}
