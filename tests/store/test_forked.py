"""If neither store is the later one, operations ended in either stay ended, and the narrower rights count."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.model.deliveries import Phase
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.forked import HOUR, Parting, told
from tests.store.mail import Mailbox, connection
from tests.store.restored import Act, People, accept, add_key, add_session, lets_in


@pytest.fixture
def parting(tmp_path: Path) -> Parting:
    return Parting(tmp_path)


def nothing(store: Store, people: People, clock: FakeClock) -> None:
    """Do nothing."""


# --- deliveries -------------------------------------------------------------------------------------------------------

NOW, SOON, LATE = None, 1.5 * HOUR, 9 * HOUR
SENDS = [
    # when it is due, status in the backup, in the present store, and after the restore
    (LATE, "succeeded", "nothing", "succeeded"),
    (LATE, "nothing", "succeeded", "succeeded"),
    (LATE, "canceled", "nothing", "canceled"),
    (LATE, "nothing", "canceled", "canceled"),
    (LATE, "succeeded", "canceled", "succeeded"),
    (LATE, "canceled", "succeeded", "succeeded"),
    (LATE, "canceled", "message_rejected", "message_rejected"),
    (NOW, "uncertain", "message_rejected", "message_rejected"),
    (NOW, "message_rejected", "uncertain", "message_rejected"),
    (NOW, "uncertain", "nothing", "uncertain"),
    (NOW, "nothing", "uncertain", "uncertain"),
    (NOW, "nothing", "nothing", "uncertain"),
    (LATE, "sending", "nothing", "uncertain"),
    (LATE, "nothing", "sending", "uncertain"),
    (LATE, "nothing", "nothing", "queued"),
    (SOON, "nothing", "nothing", "uncertain"),
    # accepted in one of the two only
    (LATE, "nothing", None, "queued"),
    (SOON, "nothing", None, "uncertain"),
    (NOW, "succeeded", None, "succeeded"),
    (LATE, None, "nothing", "queued"),
    (SOON, None, "nothing", "queued"),
    (NOW, None, "succeeded", "succeeded"),
]


def accepted(store: Store, people: People, clock: FakeClock, number: int, send_at: float | None) -> None:
    when = None if send_at is None else FakeClock().now() + timedelta(seconds=send_at)
    people.more[f"op-{number}"] = accept(store, people, f"op-{number}", send_at=when)


def become(store: Store, people: People, number: int, outcome: str | None) -> None:
    if outcome is None:
        return
    operation = people.more[f"op-{number}"]
    if outcome == "canceled":
        found = store.deliveries.find(operation)
        assert found is not None
        store.deliveries.cancel(people.box, str(found[0].schedule_id))
    elif outcome != "nothing":
        store.deliveries.begin_sending(operation)
        store.deliveries.enter_phases(operation, Phase.CONNECTING, Phase.DOT)
        if outcome == "succeeded":
            store.deliveries.succeed(operation, None, reply_code=250)
        elif outcome == "uncertain":
            store.deliveries.set_outcome(operation, "uncertain")
        elif outcome != "sending":
            store.deliveries.set_outcome(operation, "failed", outcome)


def ended(store: Store, operation: str) -> str:
    """Return the status, or the code of a failure."""
    found = store.deliveries.find(operation)
    assert found is not None
    delivery = found[0]
    return delivery.error.code if delivery.status == "failed" and delivery.error else delivery.status


def sends(side: int) -> Act:
    """Return the events of the table for the backup (0) or the present store (1)."""

    def act(store: Store, people: People, clock: FakeClock) -> None:
        for number, (send_at, *outcomes, _) in enumerate(SENDS):
            if outcomes[1 - side] is None:
                accepted(store, people, clock, number, send_at)
            become(store, people, number, outcomes[side])

    return act


def test_of_a_send_the_store_counts_that_knows_more(parting: Parting) -> None:
    def together(store: Store, people: People, clock: FakeClock) -> None:
        for number, (send_at, *outcomes, _) in enumerate(SENDS):
            if None not in outcomes:
                accepted(store, people, clock, number, send_at)

    store, people = parting.run(together, sends(0), sends(1))
    found = [ended(store, people.more[f"op-{number}"]) for number in range(len(SENDS))]
    assert [(*row[:3], one) for row, one in zip(SENDS, found, strict=True)] == SENDS
    assert parting.carried.relation == "forked"
    assert store.stored_settings.find("sending.hold_scheduled") is True
    assert parting.carried.sends.are_held
    assert parting.carried.sends.waiting == found.count("queued")
    for number, (row, one) in enumerate(zip(SENDS, found, strict=True)):
        operation = people.more[f"op-{number}"]
        assert bool(store.deliveries.get_work(operation).wire) == (one != "message_rejected" or row[0] is not NOW), row
        chores = [chore.kind for chore in store.schedule.list_chores(operation)]
        is_given_back = one in ("canceled", "message_rejected") and row[0] is not NOW
        assert chores == (["keep_draft"] if is_given_back else []), row
        steps = store.database.value("SELECT count(*) FROM delivery_phases WHERE operation = ?", (operation,))
        assert steps == {"succeeded": 4, "canceled": 1, "queued": 1}.get(one, steps), row
    store.close()


def test_what_is_over_keeps_no_bytes_that_the_other_store_still_needs(parting: Parting) -> None:
    def together(store: Store, people: People, clock: FakeClock) -> None:
        accepted(store, people, clock, 0, LATE)

    def ours(store: Store, people: People, clock: FakeClock) -> None:
        become(store, people, 0, "succeeded")
        store.sent_copies.mark_filed(people.more["op-0"])

    store, people = parting.run(together, ours, nothing)
    assert not store.deliveries.get_work(people.more["op-0"]).wire
    store.close()


@pytest.mark.parametrize("side", [0, 1], ids=["backup", "present"])
def test_a_key_that_each_used_by_itself_names_what_is_over(parting: Parting, side: int) -> None:
    def used(*, is_over: bool) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            operation = accept(store, people, "once", send_at=FakeClock().now() + timedelta(seconds=LATE))
            people.more["over" if is_over else "open"] = operation
            if is_over:
                store.deliveries.begin_sending(operation)
                store.deliveries.succeed(operation, None, reply_code=250)

        return act

    store, people = parting.run(nothing, used(is_over=side == 0), used(is_over=side == 1))
    found = store.deliveries.find_replay(people.key, "once", "hash")
    assert found is not None
    assert found.delivery.operation_id == people.more["over"]
    assert store.deliveries.find(people.more["open"]) is None
    assert store.database.rows("PRAGMA foreign_key_check") == []
    store.close()


# --- members and their credentials ------------------------------------------------------------------------------------

MEMBERS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    # password, role, status in the backup and in the present store (None: as before), and after the restore
    ({}, {}, "member active old"),
    ({"password": "new"}, {}, "member active new"),
    ({}, {"password": "new"}, "member active new"),
    ({"password": "first"}, {"password": "last"}, "member active last"),
    ({"password": "new"}, {"name": "renamed later"}, "member active new"),
    ({"status": "suspended"}, {}, "member suspended old"),
    ({}, {"status": "suspended"}, "member suspended old"),
    ({"role": "admin"}, {}, "member active old"),
    ({"role": "admin"}, {"role": "admin"}, "admin active old"),
]


def test_of_members_the_lesser_counts_and_the_password_that_was_set_last(parting: Parting) -> None:
    def together(store: Store, people: People, clock: FakeClock) -> None:
        for number in range(len(MEMBERS)):
            email = f"m{number}@example.org"
            with store.database.transaction():
                one = store.members.add(name="M", email=email, role="member", password_hash="old").id
            people.more[f"m-{number}"] = one
            add_session(store, one, f"a{number}")

    def change(side: int) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            for number, row in enumerate(MEMBERS):
                member_id, given = people.more[f"m-{number}"], dict((row[0], row[1])[side])
                with store.database.transaction():
                    if password := given.pop("password", None):
                        store.members.set_password(member_id, password)
                        told(store, "password.change", ("member", member_id))
                    store.members.update(member_id, **given)
                if side:
                    add_session(store, member_id, f"b{number}")

        return act

    store, people = parting.run(together, change(0), change(1))
    for number, row in enumerate(MEMBERS):
        member_id = people.more[f"m-{number}"]
        one = store.members.get(member_id)
        assert f"{one.role} {one.status} {store.members.get_password_hash(member_id)}" == row[2], row
        assert (lets_in(store, f"a{number}") == member_id) == (one.status == "active"), row
        # A session since then ends if its password has been replaced.
        is_same = "password" not in row[0] or "password" in row[1]
        assert (lets_in(store, f"b{number}") == member_id) == (one.status == "active" and is_same), row
    assert parting.carried.rights.suspended == 1
    store.close()


def test_keys(parting: Parting) -> None:
    marks = ("stays", "revoked by ours", "revoked by theirs", "gone from ours")

    def together(store: Store, people: People, clock: FakeClock) -> None:
        people.more |= {mark: add_key(store, people.bob, f"c{n}") for n, mark in enumerate(marks)}

    def ours(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.api_keys.revoke(people.more["revoked by ours"])
            store.database.change("DELETE FROM api_keys WHERE id = ?", (people.more["gone from ours"],))
        people.more["made by ours"] = add_key(store, people.bob, "c4")

    def theirs(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.api_keys.revoke(people.more["revoked by theirs"])
        people.more["made by theirs"] = add_key(store, people.bob, "c5")

    store, people = parting.run(together, ours, theirs)
    found = [lets_in(store, f"c{number}") == people.bob for number in range(6)]
    assert found == [True, False, False, False, True, True]
    assert parting.carried.rights.revoked == 3
    store.close()


PERMISSIONS: list[tuple[Any, Any, tuple[str, list[str], list[str] | None]]] = [
    # (capabilities, mailboxes) in the backup and in the present store, then profile, capabilities, mailboxes after it
    ((["mail.read"], None), (["mail.read"], None), ("read-only", ["mail.read"], None)),
    ((["mail.read", "admin.audit"], None), (["mail.read"], None), ("custom", ["mail.read"], None)),
    ((["mail.read"], None), (["mail.read", "mail.send"], None), ("read-only", ["mail.read"], None)),
    (
        (["mail.read", "admin.audit"], None),
        (["mail.send", "admin.audit"], ["acc_1"]),
        ("custom", ["admin.audit"], ["acc_1"]),
    ),
    ((["mail.read"], ["acc_1", "acc_2"]), (["mail.read"], ["acc_2", "acc_3"]), ("read-only", ["mail.read"], ["acc_2"])),
    ((["mail.read"], []), (["mail.read"], None), ("read-only", ["mail.read"], [])),
]


def test_a_key_may_do_what_it_may_in_both(parting: Parting) -> None:
    def together(store: Store, people: People, clock: FakeClock) -> None:
        people.more |= {f"key-{number}": add_key(store, people.bob, f"d{number}") for number in range(len(PERMISSIONS))}

    def allow(side: int) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            with store.database.transaction():
                for number, row in enumerate(PERMISSIONS):
                    capabilities, accounts = (row[0], row[1])[side]
                    store.database.change(
                        "UPDATE api_keys SET capabilities = ?, account_ids = ? WHERE id = ?",
                        (
                            json.dumps(capabilities),
                            None if accounts is None else json.dumps(accounts),
                            people.more[f"key-{number}"],
                        ),
                    )

        return act

    store, people = parting.run(together, allow(0), allow(1))
    for number, row in enumerate(PERMISSIONS):
        key = store.api_keys.get(people.more[f"key-{number}"])
        limit = None if key.account_ids is None else list(key.account_ids)
        assert (key.permission_profile, [*key.capabilities], limit) == row[2], row
        if number == 3:
            assert [*key.supplemental_capabilities] == ["admin.audit"]
    assert parting.carried.rights.narrowed == 3
    store.close()


def test_sessions_and_one_time_tokens(parting: Parting) -> None:
    def issue(store: Store, people: People, name: str) -> None:
        with store.database.transaction():
            store.one_time_tokens.issue("password_reset", people.more[name], name, timedelta(days=9))
            told(store, "password_reset.create", ("member", people.more[name]))

    def together(store: Store, people: People, clock: FakeClock) -> None:
        people.more |= {name: add_session(store, people.bob, mark) for name, mark in (("one", "e1"), ("two", "e2"))}
        for name in ("both", "used", "withdrawn", "theirs", "ours"):
            with store.database.transaction():
                email = f"{name}@example.org"
                people.more[name] = store.members.add(name=name, email=email, role="member", password_hash="x").id
        for name in ("both", "used", "withdrawn"):
            issue(store, people, name)

    def ours(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.credentials.remove_session(people.bob, people.more["one"])
            store.one_time_tokens.revoke_all(people.more["withdrawn"])
        issue(store, people, "ours")

    def theirs(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.credentials.remove_session(people.bob, people.more["two"])
            store.one_time_tokens.redeem("password_reset", "used")
        issue(store, people, "theirs")
        add_session(store, people.bob, "e3")

    store, people = parting.run(together, ours, theirs)
    assert [lets_in(store, mark) for mark in ("2", "e1", "e2", "e3")] == [people.bob, None, None, people.bob]
    names = ("both", "used", "withdrawn", "theirs", "ours")
    good = [name for name in names if store.one_time_tokens.find("password_reset", name)]
    assert good == ["both", "theirs"]
    store.close()


def test_members_and_mailboxes_of_one_of_the_two(parting: Parting) -> None:
    """The backup's members and mailboxes stay as they are in it, unless they were removed from the present store;
    others are not added.
    """

    def add(name: str) -> Act:
        def act(store: Store, people: People, clock: FakeClock) -> None:
            with store.database.transaction():
                email = f"{name}@example.org"
                one = store.members.add(name=name, email=email, role="member", password_hash=name).id
            people.more[name], people.more[f"{name}'s box"] = one, Mailbox(store, people.ada).id
            people.more[f"{name}'s key"] = add_key(store, one, {"both": "f1", "ours": "f2", "theirs": "f3"}[name])
            with store.database.transaction():
                store.accounts.set_access(people.more[f"{name}'s box"], shared_with_all=True, member_ids=[one])

        return act

    def theirs(store: Store, people: People, clock: FakeClock) -> None:
        add("theirs")(store, people, clock)
        with store.database.transaction():
            store.members.remove(people.more["both"])
            store.accounts.remove(people.more["both's box"])
            told(store, "member.delete", ("member", people.more["both"]))
            told(store, "account.delete", ("account", people.more["both's box"]))
            store.accounts.set_access(people.box, shared_with_all=False, member_ids=[people.bob])
            store.accounts.set_connection(people.others_box, connection("new@example.test"))

    store, people = parting.run(add("both"), add("ours"), theirs)
    status = {one.name: one.status for one in store.members.list()}
    assert status == {"Ada": "active", "Bob": "active", "both": "suspended", "ours": "active"}
    assert store.members.get_password_hash(people.more["both"]) is None
    assert [lets_in(store, mark) for mark in ("f1", "f2", "f3")] == [None, people.more["ours"], None]
    boxes = {name: store.accounts.get(people.more[f"{name}'s box"]) for name in ("both", "ours")}
    assert (boxes["both"].shared_with_all, boxes["both"].granted_member_ids) == (False, ())
    assert (boxes["ours"].shared_with_all, boxes["ours"].granted_member_ids) == (True, (people.more["ours"],))
    box = store.accounts.get(people.box)
    assert (box.shared_with_all, box.granted_member_ids) == (False, (people.bob,))
    assert store.accounts.get_connection(people.others_box).imap.username != "new@example.test"
    store.close()


def test_somebody_can_administrate(parting: Parting) -> None:
    """Ada in the present store, Bob in the backup: the backup's administrator stays, whose password is known best."""

    def ours(store: Store, people: People, clock: FakeClock) -> None:
        with store.database.transaction():
            store.members.update(people.bob, role="admin")
            store.members.update(people.ada, role="member")
            store.members.set_password(people.ada, "ada-2")
            told(store, "password.change", ("member", people.ada))

    store, people = parting.run(nothing, ours, nothing)
    assert [(one.name, one.role) for one in store.members.list()] == [("Ada", "member"), ("Bob", "admin")]
    assert store.members.get_password_hash(people.ada) == "ada-2"
    store.close()


def test_the_log_is_that_of_the_backup(parting: Parting) -> None:
    store, _ = parting.run(nothing, nothing, nothing)
    assert [event.target and event.target.id for event in store.audit.list(None, 1)[0]] == ["backup"]
    store.audit.record(SYSTEM_ACTOR, "backup.restore")
    assert store.audit.verify().broken is None
    store.close()
