"""Updates of API keys over HTTP: what a key stores then, from the next request on."""

from typing import Any

from mailbox_appliance.appliance import Appliance
from tests.operations.key_people import ALL, MAIL, People

# fmt: off
AUDIT, BOTH = ["admin.audit"], ["admin.audit", "admin.members"]
#: One after another, of one key: what is asked, and what it stores then (profile, supplemental) or what the 400 names.
CHANGES: tuple[tuple[dict[str, Any], tuple[str, list[str]] | list[str]], ...] = (
    ({},                                                                     ("read-only", [])),
    ({"supplementalCapabilities": [*BOTH, *AUDIT]},                          ("read-only", BOTH)),
    ({"permissionProfile": "read-write"},                                    ("read-write", BOTH)),
    ({"permissionProfile": "full", "supplementalCapabilities": AUDIT},       ("full", AUDIT)),
    ({"customCapabilities": ["mail.read"], "permissionProfile": "full"},     ["/permissionProfile"]),
    ({"customCapabilities": ["mail.read"], "supplementalCapabilities": []},  ["/supplementalCapabilities"]),
    ({"customCapabilities": []},                                             ["/customCapabilities"]),
    ({"customCapabilities": None},                                           ["/customCapabilities"]),
    ({"customCapabilities": ["mail.read"] * 12},                             ["/customCapabilities"]),
    ({"customCapabilities": ["mail.all"]},                                   ["/customCapabilities/0"]),
    ({"supplementalCapabilities": AUDIT * 6},                                ["/supplementalCapabilities"]),
    ({"supplementalCapabilities": ["mail.read"]},                            ["/supplementalCapabilities/0"]),
    ({"permissionProfile": "custom"},                                        ["/permissionProfile"]),
    ({"name": "other"},                                                      ["/name"]),
    ({"customCapabilities": ["mail.send", "admin.license", "mail.send"]},    ("custom", ["admin.license"])),
    ({"supplementalCapabilities": AUDIT},                                    ["/supplementalCapabilities"]),
    ({"supplementalCapabilities": []},                                       ["/supplementalCapabilities"]),
    ({},                                                                     ("custom", ["admin.license"])),
    ({"permissionProfile": "read-only"},                                     ("read-only", ["admin.license"])),
    ({"supplementalCapabilities": []},                                       ("read-only", [])),
)
MAIL_OF = {"read-only": MAIL[:1], "read-write": MAIL[:4], "full": MAIL, "custom": ["mail.send"]}
# fmt: on


def test_a_key_is_changed_step_by_step(people: People) -> None:
    key_id, token = people.make(people.ada, permissionProfile="read-only")
    stored: Any = None
    for given, expected in CHANGES:
        answer = people.change(key_id, **given)
        if isinstance(expected, list):
            assert (answer.refusal, answer.places) == ((400, "invalid_request"), expected), given
        else:
            stored = answer.data
            profile, supplemental = expected
            assert (stored["permissionProfile"], stored["supplementalCapabilities"]) == expected, given
            assert stored["capabilities"] == MAIL_OF[profile] + supplemental
        (listed,) = people.ada.ask("GET", ALL).data
        assert listed | {"lastUsedAt": None} == stored | {"lastUsedAt": None}
        # From the next request on.
        assert people.ada.ask("GET", "/me", token=token).data["credential"]["capabilities"] == stored["capabilities"]


def test_the_scope_of_a_key_is_lifted_and_closed(people: People) -> None:
    key_id, token = people.make(people.cid, permissionProfile="read-only", accounts=[people.cids.id])
    people.update(people.cid, role="admin")
    people.adas.grant(people.cid.member["id"])
    both = [people.cids.id, people.adas.id]
    for given, scope in (
        ({}, [people.cids.id]),
        ({"accounts": None}, None),
        ({"permissionProfile": "full"}, None),
        ({"accounts": []}, []),
        ({"accounts": [*both, people.cids.id]}, both),
        ({"customCapabilities": ["mail.read"]}, both),
    ):
        assert people.change(key_id, people.cid.token, **given).data["accountIds"] == scope
        listed = people.cid.ask("GET", "/accounts", token=token).data
        reached = both if scope is None else scope
        assert sorted(account["id"] for account in listed) == sorted(reached)
    answer = people.change(key_id, people.cid.token, accounts=[people.cids.id, "acc_x"])
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["/accounts/1"])
    # Ada reaches it, but it is Cid's key.
    people.update(people.cid, role="member")
    assert people.change(key_id, accounts=[]).data["accountIds"] == []
    assert people.change(key_id, accounts=[people.cids.id]).data["accountIds"] == [people.cids.id]
    audit = people.change(key_id, accounts=[people.second.id], customCapabilities=["admin.audit"])
    assert audit.places == ["/accounts/0"]


def test_a_scope_may_keep_what_is_reached_no_more_but_not_be_given_it(people: People, timed: Appliance) -> None:
    people.adas.grant(people.cid.member["id"])
    key_id, _ = people.make(people.cid, permissionProfile="read-only", accounts=[people.adas.id])
    with timed.store.database.transaction(durable=True):
        timed.store.accounts.set_access(people.adas.id, shared_with_all=False, member_ids=())
    people.update(people.cid, role="admin")
    changed = people.change(key_id, people.cid.token, permissionProfile="full")
    assert changed.data["accountIds"] == [people.adas.id]
    assert people.change(key_id, people.cid.token, accounts=[people.adas.id]).places == ["/accounts/0"]


def test_what_changes_nothing_is_not_audited(people: People, timed: Appliance) -> None:
    key_id, _ = people.make(people.ada, permissionProfile="read-only")
    same: tuple[dict[str, Any], ...] = (
        {},
        {"permissionProfile": "read-only"},
        {"accounts": None},
        {"supplementalCapabilities": []},
    )
    for given in same:
        assert people.change(key_id, **given).data["permissionProfile"] == "read-only"
    events, _ = timed.store.audit.list(None, 100)
    assert [event.action for event in events if event.action.startswith("api_key")] == ["api_key.create"]
