"""Who reaches a mailbox: the owner gives and takes, an administrator only takes, and it holds with the next request."""

from dataclasses import dataclass
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.permissions import may_send_now
from mailbox_appliance.security.tokens import hash_token, new_token
from tests.checked_client import Answer, CheckedClient
from tests.operations.filled import FilledMailbox, add_key, letter
from tests.servers.desk import a_key, a_message

FULL = ("mail.read", "mail.drafts", "mail.organize", "mail.trash", "mail.delete", "mail.send")


@dataclass
class Office:
    """Cid owns a mailbox with one message; Ada is an administrator, Dan and Eve are members."""

    client: CheckedClient
    ids: dict[str, str]
    tokens: dict[str, str]
    mailbox: FilledMailbox
    message: str

    def ask(self, who: str, method: str, path: str, body: object = None, **more: Any) -> Answer:
        """As a member, or by a token."""
        return self.client.ask(method, path, body, token=self.tokens.get(who, who), **more)

    def share(self, who: str, *members: str, with_all: bool = False, **more: Any) -> Answer:
        body = {"sharedWithAll": with_all, "memberIds": [self.ids.get(name, name) for name in members]}
        return self.ask(who, "PUT", f"/accounts/{self.mailbox.id}/access", body, **more)

    def reads(self, who: str) -> bool:
        """Whether somebody reads the message; nothing in between reading and not knowing of it."""
        path = f"/accounts/{self.mailbox.id}"
        answers = [self.ask(who, "GET", path + rest) for rest in ("", "/messages", f"/messages/{self.message}/body")]
        listed = self.mailbox.id in [each["id"] for each in self.ask(who, "GET", "/accounts").data]
        statuses = {answer.status for answer in answers}
        assert statuses == ({200} if listed else {404})
        assert bool(self.ask(who, "GET", "/messages").data["items"]) == listed
        return listed

    def join(self, name: str, role: Any = "member") -> str:
        """A new member, with a session; answers the id."""
        store, token = self.client.appliance.store, new_token("mbxs")
        with store.database.transaction(durable=True):
            member = store.members.add(name=name, email=f"{name}@example.org", role=role, password_hash="hash")
            store.credentials.add_session(member.id, hash_token(token), "device")
        self.ids[name], self.tokens[name] = member.id, token
        return member.id

    def key(self, name: str, *capabilities: str, accounts: list[str] | None = None) -> str:
        """The token of an API key."""
        return add_key(self.client.appliance, self.ids[name], *capabilities, accounts=accounts)[1]

    def audited(self, name: str) -> list[tuple[str, str | None]]:
        """What a member did, or what was done to them and their mailboxes: action, and by whom."""
        events, _ = self.client.appliance.store.audit.list(None, 50, about=self.ids[name])
        return [(event.action, event.actor.member_id) for event in events if event.action.startswith("account.")]


@pytest.fixture
def office(checked_client: CheckedClient, appliance: Appliance) -> Office:
    made = Office(checked_client, {"ada": checked_client.member["id"]}, {"ada": checked_client.token}, None, "")  # type: ignore[arg-type]
    for name in ("cid", "dan", "eve"):
        made.join(name)
    made.mailbox = FilledMailbox(appliance, made.ids["cid"])
    (made.message,) = made.mailbox.deliver(letter("Hello"))
    return made


def test_the_owner_gives_and_takes_with_the_next_request(office: Office) -> None:
    granted = office.share("cid", "dan", "dan", "cid").data
    assert (granted["sharedWithAll"], granted["grantedMemberIds"]) == (False, [office.ids["dan"]])
    assert [office.reads(name) for name in ("cid", "dan", "eve", "ada")] == [True, True, False, False]
    moved = office.share("cid", "eve").data
    assert moved["grantedMemberIds"] == [office.ids["eve"]]
    assert [office.reads(name) for name in ("cid", "dan", "eve", "ada")] == [True, False, True, False]
    assert office.share("cid").data["grantedMemberIds"] == []
    assert not office.reads("eve")


def test_what_is_shared_with_all_is_shared_with_those_who_join_later(office: Office) -> None:
    assert office.share("cid", with_all=True).data["sharedWithAll"] is True
    office.join("fay")
    assert [office.reads(name) for name in ("dan", "fay", "ada")] == [True, True, True]
    office.share("cid", "dan")
    assert [office.reads(name) for name in ("dan", "fay", "ada")] == [True, False, False]


def test_keys_follow_what_their_owner_reaches(office: Office) -> None:
    office.share("cid", "dan")
    keys = [office.key("dan", *FULL), office.key("dan", *FULL, accounts=[office.mailbox.id])]
    assert all(office.reads(key) for key in keys)
    office.share("cid")
    assert not any(office.reads(key) for key in keys)
    send = office.ask(
        keys[1],
        "POST",
        f"/accounts/{office.mailbox.id}/send",
        a_message(sendAt="2030-01-01T00:00:00Z"),
        headers={"Idempotency-Key": a_key()},
    )
    assert send.refusal == (404, "not_found")
    office.share("cid", "dan")
    assert all(office.reads(key) for key in keys), "the key was limited to it, and is so still"


def test_what_a_member_scheduled_is_not_for_them_any_more(office: Office) -> None:
    office.share("cid", "dan")
    path, header = f"/accounts/{office.mailbox.id}/send", {"Idempotency-Key": a_key()}
    body = a_message(sendAt="2027-01-01T00:00:00Z")
    scheduled = office.ask("dan", "POST", path, body, headers=header).data
    work = office.client.appliance.store.deliveries.get_work(scheduled["operationId"])
    asked = (office.client.appliance.store, work.account_id, work.credential_id, work.member_id)
    assert may_send_now(*asked)
    office.share("cid")
    assert not may_send_now(*asked)
    assert office.ask("dan", "POST", path, body, headers=header).refusal == (404, "not_found")
    shown = f"/accounts/{office.mailbox.id}/delivery-operations/{scheduled['operationId']}"
    assert office.ask("dan", "GET", shown).refusal == (404, "not_found")
    # What is to leave the mailbox in its owner's name, the owner sees and takes back.
    assert office.ask("cid", "GET", shown).data["status"] == "queued"
    cancel = f"/accounts/{office.mailbox.id}/scheduled/{scheduled['scheduleId']}"
    assert office.ask("cid", "DELETE", cancel).status == 200


Who = tuple[str, ...]
# Who reaches it before, what is asked for (members, with all), whether an administrator may.
CHANGES: tuple[tuple[Who, bool, Who, bool, bool], ...] = (
    (("dan", "eve"), False, ("dan",), False, True),
    (("dan", "eve"), True, ("dan", "eve"), False, True),
    (("dan",), True, (), False, True),
    (("dan",), True, ("eve",), False, True),  # who had access as all had
    ((), True, ("dan", "eve"), False, True),
    (("dan",), True, ("dan",), True, True),  # nothing changes
    (("dan",), False, ("eve",), False, False),
    (("dan",), False, ("dan", "eve"), False, False),
    (("dan",), False, ("dan",), True, False),
    ((), False, ("ada",), False, False),
    ((), True, ("ada",), True, False),
    ((), True, ("eve",), True, False),
    ((), False, ("mem_unknown",), False, False),
)


@pytest.mark.parametrize("who", ["ada", "ada's key", "an owner's key", "ada, granted"])
def test_who_is_not_the_owner_only_takes_away(office: Office, who: str) -> None:
    asker, also = _asker(office, who), ("ada",) if who == "ada, granted" else ()
    for before, was_for_all, after, for_all, may in CHANGES:
        office.share("cid", *before, *also, with_all=was_for_all)
        answer = office.share(asker, *after, *also, with_all=for_all)
        held = office.ask("cid", "GET", f"/accounts/{office.mailbox.id}").data
        access = ({*held["grantedMemberIds"]}, held["sharedWithAll"])
        case = (before, was_for_all, after, for_all)
        if may or ("ada" in also and after == ("ada",)):  # to whom it is granted already
            assert answer.data == held, case
            assert access == (_ids(office, *after, *also), for_all), case
        else:
            assert (answer.refusal, answer.places) == ((403, "permission_denied"), ["owner"]), case
            assert access == (_ids(office, *before, *also), was_for_all), case


def _asker(office: Office, who: str) -> str:
    """The token of somebody who is not the owner with a session."""
    if who == "an owner's key":
        office.join("gil", "admin")
        office.mailbox = FilledMailbox(office.client.appliance, office.ids["gil"], "gil@example.org")
        office.tokens["cid"], office.ids["cid"] = office.tokens["gil"], office.ids["gil"]
        return office.key("gil", "admin.accounts")
    return office.key("ada", "admin.accounts") if who == "ada's key" else "ada"


def _ids(office: Office, *names: str) -> set[str]:
    return {office.ids[name] for name in names}


BAD: tuple[tuple[dict[str, Any], list[str]], ...] = (
    ({}, ["/sharedWithAll"]),
    ({"sharedWithAll": True}, ["/memberIds"]),
    ({"memberIds": []}, ["/sharedWithAll"]),
    ({"sharedWithAll": None, "memberIds": []}, ["/sharedWithAll"]),
    ({"sharedWithAll": False, "memberIds": ["mem_unknown"]}, ["/memberIds/0"]),
    ({"sharedWithAll": False, "memberIds": ["OWNER", "a", "OWNER", "b"]}, ["/memberIds/1", "/memberIds/3"]),
    ({"sharedWithAll": False, "memberIds": [""]}, ["/memberIds/0"]),
    ({"sharedWithAll": False, "memberIds": ["OWNER"] * 1001}, ["/memberIds"]),
    ({"sharedWithAll": False, "memberIds": [], "more": 1}, ["/more"]),
)


def test_lists_that_cannot_be(office: Office) -> None:
    office.share("cid", "dan")
    for bad, places in BAD:
        names = bad.get("memberIds", [])
        body = bad | ({"memberIds": [office.ids["cid"] if one == "OWNER" else one for one in names]} if names else {})
        refused = office.ask("cid", "PUT", f"/accounts/{office.mailbox.id}/access", body)
        assert (refused.refusal, refused.places) == ((400, "invalid_request"), places), bad
    assert office.reads("dan")


def test_what_administrators_take_away_is_shown_to_the_owner(office: Office) -> None:
    office.share("cid", "dan", "eve")
    office.share("cid", "eve", "dan")  # the same again
    office.share("ada", "dan")
    office.share("ada", "eve", "dan")  # refused
    cid, ada = office.ids["cid"], office.ids["ada"]
    assert office.audited("cid") == [("account.access", ada), ("account.access", cid)]
    assert office.audited("dan") == []
    (event, *_), _ = office.client.appliance.store.audit.list(None, 1)
    assert event.target is not None
    assert (event.target.kind, event.target.id) == ("account", office.mailbox.id)
