"""Nobody gives a key more than they hold: every path by which a key could climb, tried over HTTP.

An administrator's session holds everything, and may set every field of every key.
"""

from typing import Any

import pytest

from tests.checked_client import Answer, CheckedClient
from tests.operations.key_people import ADMIN, ALL, MAIL, OWN, People

NO = (403, "permission_denied")


def stored(people: People) -> Any:
    """What every key stores."""
    return [key | {"lastUsedAt": None} for key in people.ada.ask("GET", ALL).data]


def refused(answer: Answer) -> list[str]:
    """The capabilities that an answer refuses."""
    assert (answer.refusal, set(answer.places)) == (NO, {"capability"}), answer.body
    return [detail["message"] for detail in answer.body["error"]["details"]]


def custom(*capabilities: str) -> dict[str, Any]:
    return {"customCapabilities": list(capabilities)}


# --- sessions --------------------------------------------------------------------------------------------------------


def test_the_right_is_asked_before_what_else_is_wrong(people: People) -> None:
    given = {"name": "a\nb", "accounts": ["acc_x"], **custom("admin.audit")}
    assert refused(people.cid.ask("POST", OWN, given)) == ["admin.audit"]
    answer = people.make_for(people.cid, people.ada, name="a\nb", permissionProfile="read-only", memberId="mem_x")
    assert refused(answer) == ["mail.read"]


@pytest.mark.parametrize("given", [{"permissionProfile": "read-only"}, custom("admin.audit", "mail.send")])
def test_a_key_made_for_somebody_else_gets_no_mail_capability(people: People, given: dict[str, Any]) -> None:
    refused(people.make_for(people.cid, people.ada, **given))
    refused(people.make_for(people.bea, people.ada, **given))
    assert stored(people) == []
    assert people.make_for(people.ada, people.ada, **given).status == 201


def test_nor_does_it_get_one_later_from_a_key(people: People) -> None:
    made = people.make_for(people.bea, people.ada, **custom("admin.audit", "admin.api_keys")).data
    key_id, before = made["apiKey"]["id"], stored(people)
    _, full = people.make(people.ada, **custom(*MAIL, *ADMIN))
    _, beas = people.make(people.bea, **custom(*MAIL, *ADMIN))
    # The owner did not choose it alone: Ada was shown the token.
    for token in (full, beas, made["token"]):
        for given in ({"permissionProfile": "read-only"}, custom("mail.read", "admin.audit")):
            refused(people.change(key_id, token, **given))
            refused(people.change(key_id, token, **given, accounts=[]))
    assert [one for one in stored(people) if one["id"] == key_id] == before
    assert people.change(key_id, **custom("admin.license")).data["capabilities"] == ["admin.license"]


def test_an_admins_session_sets_every_field_of_every_key(people: People) -> None:
    """Wider ones too, one change after the other; each is what the key then stores."""
    for owner, box in ((people.cid, people.cids), (people.bea, None), (people.ada, people.adas)):
        scope = [box.id] if box else []
        key_id, _ = people.make(owner, permissionProfile="read-only", accounts=[])
        for given, wanted in (
            ({"permissionProfile": "full"}, {"capabilities": MAIL, "accountIds": []}),
            ({"accounts": scope}, {"capabilities": MAIL, "accountIds": scope}),
            ({"accounts": None}, {"accountIds": None}),
            ({"supplementalCapabilities": ["admin.audit"]}, {"capabilities": [*MAIL, "admin.audit"]}),
            (custom("mail.read"), {"permissionProfile": "custom", "capabilities": ["mail.read"]}),
            ({**custom(*ADMIN, *MAIL), "accounts": []}, {"capabilities": [*ADMIN, *MAIL], "accountIds": []}),
            ({"permissionProfile": "read-write"}, {"supplementalCapabilities": ADMIN}),
        ):
            changed = people.change(key_id, **given)
            assert changed.status == 200, changed.body
            assert {name: changed.data[name] for name in wanted} == wanted


def test_a_key_that_an_admin_widens_does_what_its_owner_may_do(people: People) -> None:
    key_id, token = people.make(people.cid, permissionProfile="read-only", accounts=[])
    assert people.change(key_id, **custom(*MAIL, *ADMIN), accounts=None).status == 200
    me = people.cid.ask("GET", "/me", token=token).data["credential"]
    assert (me["capabilities"], me["accountIds"]) == (MAIL, None)
    assert [box["id"] for box in people.cid.ask("GET", "/accounts", token=token).data] == [people.cids.id]
    assert refused(people.cid.ask("GET", ALL, token=token)) == ["admin.api_keys"]
    answer = people.change(key_id, accounts=[people.adas.id])
    assert (answer.status, answer.places) == (400, ["/accounts/0"])


def test_the_owner_of_a_key_is_told_that_an_admin_widened_it(people: People) -> None:
    key_id, _ = people.make(people.cid, permissionProfile="read-only")
    assert people.cid.ask("GET", "/me").warnings == []
    assert people.change(key_id, permissionProfile="full").warnings == []
    (told,) = people.cid.ask("GET", "/me").warnings
    assert told.startswith("An administrator changed the permissions of an API key of yours on ")
    (event, _) = people.cid.ask("GET", "/me/audit-events?limit=2").data["items"]
    assert (event["action"], event["target"]["id"]) == ("api_key.update", key_id)
    assert event["actor"]["memberId"] == people.ada.member["id"]


def test_mail_for_a_key_whose_token_somebody_else_has_seen_is_warned_about(people: People) -> None:
    made = people.make_for(people.cid, people.ada, **custom("admin.audit")).data["apiKey"]["id"]
    assert people.change(made, **custom("admin.license")).warnings == []
    (warned,) = people.change(made, **custom("mail.read")).warnings
    assert warned.startswith("The administrator who created this key has seen its token")


# --- API keys --------------------------------------------------------------------------------------------------------


def test_a_key_does_not_widen_itself(people: People) -> None:
    key_id, token = people.make(people.ada, accounts=[people.adas.id], **custom("mail.read", "admin.api_keys"))
    before = stored(people)
    for given, missing in (
        (custom("mail.read", "mail.send", "admin.api_keys"), ["mail.send"]),
        (custom("mail.read", "admin.api_keys", "admin.members"), ["admin.members"]),
        (custom(*MAIL, *ADMIN), sorted({*MAIL, *ADMIN} - {"mail.read", "admin.api_keys"})),
        ({"permissionProfile": "full"}, sorted(MAIL[1:])),
        ({"permissionProfile": "read-only", "supplementalCapabilities": ADMIN}, sorted({*ADMIN} - {"admin.api_keys"})),
        ({"accounts": None}, ["mail.read"]),
        ({"accounts": [people.adas.id, people.second.id]}, ["mail.read"]),
        ({"accounts": [people.second.id]}, ["mail.read"]),
        ({"accounts": None, **custom("mail.read")}, ["mail.read"]),
    ):
        assert refused(people.change(key_id, token, **given)) == missing
    assert stored(people) == before
    # Into a profile and back is no way round either.
    assert people.change(key_id, token, permissionProfile="read-only").data["supplementalCapabilities"] == [
        "admin.api_keys"
    ]
    assert refused(people.change(key_id, token, permissionProfile="read-write")) == sorted(MAIL[1:4])
    assert refused(people.change(key_id, token, supplementalCapabilities=["admin.audit"])) == ["admin.audit"]
    # What it has given away is gone, and so is what it would be given back by.
    assert people.change(key_id, token, accounts=[]).status == 200
    assert refused(people.change(key_id, token, accounts=[people.adas.id])) == ["mail.read"]
    assert people.change(key_id, token, **custom("mail.read")).status == 200
    assert refused(people.change(key_id, token, **custom("mail.read", "admin.api_keys"))) == ["admin.api_keys"]


def test_a_key_makes_no_key_that_is_more_than_itself(people: People) -> None:
    _, token = people.make(people.ada, accounts=[people.adas.id], **custom("mail.read", "admin.api_keys"))
    near, far = [people.adas.id], [people.adas.id, people.second.id]
    for given, missing in (
        ({"permissionProfile": "read-only"}, ["mail.read"]),
        ({"permissionProfile": "read-only", "accounts": far}, ["mail.read"]),
        ({"permissionProfile": "read-only", "accounts": ["acc_unknown"]}, ["mail.read"]),
        ({"permissionProfile": "full", "accounts": []}, sorted(MAIL[1:])),
        ({"accounts": near, **custom("mail.read", "admin.audit")}, ["admin.audit"]),
    ):
        assert refused(people.make_for(people.ada, people.ada, token, **given)) == missing
    for scope in (near, []):
        made = people.make_for(people.ada, people.ada, token, permissionProfile="read-only", accounts=scope).data
        # What it has made, it does not widen afterwards.
        key_id = made["apiKey"]["id"]
        assert refused(people.change(key_id, token, accounts=far)) == ["mail.read"]
        assert refused(people.change(key_id, token, accounts=None)) == ["mail.read"]
        assert refused(people.change(key_id, token, permissionProfile="full")) == sorted(MAIL[1:])
        assert people.change(key_id, token, accounts=near).status == 200
    # Without mail in it, it reaches none, wherever it is good.
    made = people.make_for(people.ada, people.ada, token, **custom("admin.api_keys")).data
    assert refused(people.change(made["apiKey"]["id"], token, **custom("mail.read"))) == ["mail.read"]
    assert refused(people.change(made["apiKey"]["id"], made["token"], **custom("mail.read"))) == ["mail.read"]


def test_a_key_for_some_mailboxes_gives_their_settings_only(people: People) -> None:
    near = [people.adas.id]
    key_id, token = people.make(people.ada, accounts=near, **custom("admin.accounts", "admin.api_keys"))
    assert refused(people.change(key_id, token, accounts=None)) == ["admin.accounts"]
    assert refused(people.make_for(people.ada, people.ada, token, **custom("admin.accounts"))) == ["admin.accounts"]
    assert refused(people.make_for(people.bea, people.ada, token, **custom("admin.accounts"))) == ["admin.accounts"]
    # Neither in two steps.
    made = people.make_for(people.ada, people.ada, token, **custom("admin.api_keys")).data["apiKey"]["id"]
    assert refused(people.change(made, token, **custom("admin.accounts"))) == ["admin.accounts"]
    assert people.change(made, token, **custom("admin.accounts"), accounts=near).status == 200
    assert refused(people.change(made, token, accounts=None)) == ["admin.accounts"]


def test_a_key_gives_no_mail_rights_to_the_keys_of_other_members(people: People) -> None:
    _, token = people.make(people.ada, **custom(*MAIL, *ADMIN))
    for owner in (people.cid, people.bea):
        refused(people.make_for(owner, people.ada, token, permissionProfile="read-only"))
        key_id, _ = people.make(owner, permissionProfile="read-only")
        assert refused(people.change(key_id, token, permissionProfile="full")) == sorted(MAIL[1:])
        # Less is no more; and what was taken is not given back.
        assert people.change(key_id, token, accounts=[]).status == 200
        assert refused(people.change(key_id, token, accounts=None)) == ["mail.read"]
        assert people.change(key_id, token, **custom("admin.audit")).status == 200
        assert refused(people.change(key_id, token, permissionProfile="read-only")) == ["mail.read"]
        assert people.ada.ask("DELETE", f"{ALL}/{key_id}", token=token).status == 200


def test_a_key_changes_a_wider_key_of_its_owner_without_gain(people: People) -> None:
    _, token = people.make(people.ada, **custom("admin.api_keys"))
    wide, _ = people.make(people.ada, permissionProfile="full")
    for one in ADMIN:
        answer = people.change(wide, token, supplementalCapabilities=[one])
        assert answer.status == 200 if one == "admin.api_keys" else refused(answer) == [one]
    # What it has may stay, in another form too.
    assert people.change(wide, token, **custom(*MAIL)).data["permissionProfile"] == "custom"
    assert people.change(wide, token, accounts=[people.adas.id]).status == 200
    assert refused(people.change(wide, token, accounts=None)) == sorted(MAIL)
    assert refused(people.change(wide, token, accounts=[people.second.id])) == sorted(MAIL)


def test_what_the_key_of_an_admin_of_earlier_stores_helps_nobody(people: People) -> None:
    old, olds = people.make(people.bea, **custom(*MAIL, *ADMIN))
    _, token = people.make(people.ada, **custom("admin.api_keys"))
    people.update(people.bea, role="member")
    # The stored list counts for nothing: the key manages no keys, not even itself.
    for answer in (
        people.change(old, olds, accounts=[]),
        people.make_for(people.bea, people.bea, olds, permissionProfile="read-only"),
        people.bea.ask("GET", ALL, token=olds),
        people.bea.ask("POST", OWN, {"name": "k", **custom("admin.audit")}),
    ):
        assert len(refused(answer)) == 1
    # It stays as it is, is made less by whoever may, and is not given back by who does not hold it.
    assert people.change(old, token, **custom(*ADMIN)).data["capabilities"] == ADMIN
    assert people.change(old, token, **custom("admin.audit")).data["capabilities"] == ["admin.audit"]
    assert refused(people.change(old, token, **custom("admin.audit", "admin.license"))) == ["admin.license"]
    assert people.change(old, **custom("admin.audit", "admin.license")).status == 200


def test_who_was_demoted_gives_nothing(people: People) -> None:
    own, token = people.make(people.ada, **custom(*MAIL, *ADMIN))
    people.update(people.ada, role="member")
    for who in (people.ada.token, token):
        for answer in (
            people.change(own, who, permissionProfile="full"),
            people.ada.ask("DELETE", f"{ALL}/{own}", token=who),
            people.make_for(people.ada, people.ada, who, permissionProfile="read-only"),
        ):
            assert refused(answer) == ["admin.api_keys"]
    # Her own she still makes and revokes.
    mine: CheckedClient = people.ada
    assert mine.ask("POST", OWN, {"name": "k", "permissionProfile": "full"}).status == 201
    assert mine.ask("DELETE", f"{OWN}/{own}").status == 200
