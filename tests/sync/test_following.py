"""The mirror equals the server, whatever another program does to the mailbox, and whatever the server can."""

import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from mailbox_appliance.model.sync import FolderState, ListedFolder, MirroredFolder
from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.store.folders import Folders
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync import backlog, folder, follower
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.sync.mirrored import Mirror, connection_to, source

#: What to take away from a server that has everything.
KINDS: dict[str, Callable[[FaultProxy], None]] = {
    "qresync": lambda proxy: None,
    "condstore": lambda proxy: proxy.hide("QRESYNC", "LIST-STATUS"),
    "poor": lambda proxy: proxy.make_poor(),
}


@pytest.fixture(params=KINDS)
def mirror(
    request: pytest.FixtureRequest, mail_server: MailServer, store: Store, user: str, proxy: FaultProxy
) -> Mirror:
    KINDS[request.param](proxy)
    return Mirror(store, connection_to(mail_server, user, proxy.port), sync__poll_interval=1)


def test_flags_moves_and_deletions_follow_and_ids_stay(mail_server: MailServer, user: str, mirror: Mirror) -> None:
    subjects = [f"m{number}" for number in range(8)]
    mail_server.deliver(user, *map(source, subjects))
    with mirror.running():
        before = mirror.ids()
        mail_server.doveadm("flags", "add", "-u", user, "\\Seen $Work", "mailbox", "INBOX", "subject", "m0")
        mail_server.doveadm("flags", "add", "-u", user, "\\Flagged", "mailbox", "INBOX", "subject", "m3")
        mail_server.doveadm("expunge", "-u", user, "mailbox", "INBOX", "subject", "m1")
        mail_server.doveadm("move", "-u", user, "Archive", "mailbox", "INBOX", "subject", "m2")
        mail_server.doveadm("move", "-u", user, "Trash", "mailbox", "INBOX", "subject", "m3")
        mail_server.doveadm("copy", "-u", user, "Sent", "mailbox", "INBOX", "subject", "m4")
        mirror.wait_until_equal(mail_server, user)
        assert mirror.ids("Archive") == {"m2": before["m2"]}
        assert mirror.ids("Trash") == {"m3": before["m3"]}
        assert mirror.ids("INBOX") == {one: before[one] for one in subjects if one not in ("m1", "m2", "m3")}
        assert mirror.ids("Sent").keys() == {"m4"}
        # Back again: it comes into the folder that is looked at first.
        mail_server.doveadm("move", "-u", user, "INBOX", "mailbox", "Archive", "subject", "m2")
        mirror.wait_until_equal(mail_server, user)
        assert mirror.ids("INBOX")["m2"] == before["m2"]


def test_a_message_that_is_in_both_folders_while_it_moves_keeps_its_id(
    mail_server: MailServer, store: Store, user: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "MOVING_SECONDS", 2.0)
    opened = r"(SELECT|EXAMINE) .*"
    mail_server.deliver(user, source("moves"), source("stays"))
    mirror = Mirror(store, connection_to(mail_server, user, proxy.port), sync__poll_interval=600)
    with mirror.running():
        before, archive, inbox = mirror.ids(), proxy.count(f"{opened}Archive"), proxy.count(f"{opened}INBOX")
        mail_server.doveadm("copy", "-u", user, "Archive", "mailbox", "INBOX", "all")
        mirror.wake()
        mirror.wait_for(lambda: proxy.count(f"{opened}Archive") > archive, "a look at the new place")
        mirror.wait_for(lambda: proxy.count(f"{opened}INBOX") > inbox, "a look at the old place")
        mail_server.doveadm("expunge", "-u", user, "mailbox", "INBOX", "subject", "moves")
        mirror.wait_until_equal(mail_server, user)
        assert mirror.ids("Archive")["moves"] == before["moves"]
        assert mirror.ids("INBOX") == {"stays": before["stays"]}


def test_folders_in_another_order_are_the_same_folders(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    orders, stored = random.Random(1), []
    look, replace = ImapMailbox.list_folders_with_states, Folders.replace
    looks: list[tuple[ListedFolder, ...]] = []

    def shuffled(mailbox: ImapMailbox) -> tuple[tuple[ListedFolder, ...], Mapping[str, FolderState]]:
        listed, states = look(mailbox)
        looks.append(tuple(orders.sample(listed, len(listed))))
        return looks[-1], states

    def counting(folders: Folders, account: str, listed: Sequence[ListedFolder]) -> tuple[MirroredFolder, ...]:
        stored.append(listed)
        return replace(folders, account, listed)

    monkeypatch.setattr(ImapMailbox, "list_folders_with_states", shuffled)
    monkeypatch.setattr(Folders, "replace", counting)
    with mirror.running():
        mirror.wait_for(lambda: len(looks) >= 3, "the checks")
    assert len(set(looks)) > 1
    assert len(stored) == 1


def test_a_folder_that_is_made_renamed_and_deleted(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    mail_server.make_folder(user, "Alt")
    mail_server.deliver(user, *(source(f"m{number}") for number in range(60)), folder="Alt")
    with mirror.running():
        before = mirror.ids()
        mail_server.doveadm("mailbox", "rename", "-u", user, "Alt", "Neu")
        mirror.wait_until_equal(mail_server, user)
        assert mirror.ids("Neu") == before
        proxy.stall()  # for as long as Dovecot deletes a folder it refuses it, and lists it still
        mail_server.doveadm("move", "-u", user, "Archive", "mailbox", "Neu", "subject", "m7")
        mail_server.doveadm("mailbox", "delete", "-u", user, "Neu")
        proxy.go_on()
        mirror.wait_until_equal(mail_server, user)
        assert mirror.ids() == {"m7": before["m7"]}


def test_a_folder_that_others_dropped_and_made_anew_is_followed(
    mail_server: MailServer, user: str, mirror: Mirror
) -> None:
    mail_server.make_folder(user, "Work")
    mail_server.deliver(user, source("one"), folder="Work")
    with mirror.running():
        before = mirror.ids()
        # As the copies of sent mail do while another client renames it, and back.
        there = mirror.store.folders.list(mirror.account_id)
        left = [ListedFolder(one.path, one.delimiter, frozenset()) for one in there if one.path != "Work"]
        mirror.store.folders.replace(mirror.account_id, left, {})
        mail_server.deliver(user, source("two"), folder="Work")
        mirror.wait_until_equal(mail_server, user)
        assert mirror.ids("Work").keys() == {"one", "two"}
        assert mirror.ids("Work")["one"] == before["one"]


def test_another_uidvalidity_keeps_ids_and_bodies(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailbox_appliance.sync.mailbox.FIRST_RETRY", 0.01)  # Dovecot ends the connection then
    mail_server.deliver(user, *(source(f"m{number}") for number in range(60)))
    with mirror.running():
        before = mirror.messages()
        assert all(message.text == "body" for message in before.values())
        proxy.commands.clear()
        mail_server.doveadm("mailbox", "update", "-u", user, "--uid-validity", "4711", "INBOX")
        mirror.wake()
        mirror.wait_for(lambda: _uidvalidity(mirror) == 4711, "the new UIDVALIDITY")
        mirror.wait_until_equal(mail_server, user)
        assert mirror.messages() == before
        assert proxy.count(r"FETCH .*BODY\.PEEK\[\]") == 0


def _uidvalidity(mirror: Mirror) -> int:
    folders = {one.path: one for one in mirror.store.folders.list(mirror.account_id)}
    state = folders["INBOX"].state
    return state.uidvalidity if state else 0


def test_what_changed_while_nothing_ran_is_caught_up(mail_server: MailServer, user: str, mirror: Mirror) -> None:
    mail_server.deliver(user, *(source(f"m{number}") for number in range(5)))

    def change() -> None:
        mail_server.doveadm("expunge", "-u", user, "mailbox", "INBOX", "subject", "m1")
        mail_server.doveadm("move", "-u", user, "Archive", "mailbox", "INBOX", "subject", "m2")
        mail_server.doveadm("flags", "add", "-u", user, "\\Seen", "mailbox", "INBOX", "subject", "m3")
        mail_server.deliver(user, source("new"))

    with mirror.running():
        before = mirror.ids()
        mirror.restart(within=change)
        mirror.wait_until_equal(mail_server, user)
        after = mirror.ids()
        assert after.keys() == {"m0", "m2", "m3", "m4", "new"}
        assert {one: after[one] for one in ("m0", "m2", "m3", "m4")}.items() <= before.items()


def test_a_large_folder_comes_by_headers_first(
    mail_server: MailServer, user: str, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "HEADERS", 40)
    monkeypatch.setattr(backlog, "BATCH_COUNT", 30)
    mail_server.deliver(user, *(source(f"m{number}", f"body {number}") for number in range(130)))
    mail_server.deliver(user, source("big", "the text", size=300_000))
    with mirror.running():
        mirror.wait_until_equal(mail_server, user)
        found = mirror.messages()
        assert {one: message.text for one, message in found.items()} == {
            "big": "the text",
            **{f"m{number}": f"body {number}" for number in range(130)},
        }
        assert [found[one].body for one in ("m0", "m129", "big")] == [1, 1, 2]


def test_an_interrupted_first_sync_is_taken_up(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "HEADERS", 20)
    monkeypatch.setattr(backlog, "BATCH_COUNT", 10)
    mail_server.deliver(user, *(source(f"m{number}") for number in range(120)))
    proxy.cut_at(r"FETCH .*HEADER", moment="after")
    mirror.supervisor.start()
    mirror.wait_for_status("error")
    ids = mirror.ids()
    proxy.cut_at(r"FETCH .*BODY\.PEEK\[\]")
    mirror.wake()
    mirror.wait_for(lambda: proxy.cuts == 2, "the second cut")
    mirror.wait_for_status("error")
    ids |= mirror.ids()
    assert len(ids) >= 60
    mirror.restart()
    mirror.wait_until_equal(mail_server, user)
    assert mirror.ids().items() >= ids.items()
    assert len(mirror.ids()) == 120
    mirror.supervisor.stop()


def test_cuts_at_any_byte_lose_nothing(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mailbox_appliance.sync.mailbox.FIRST_RETRY", 0.001)
    monkeypatch.setattr("mailbox_appliance.sync.mailbox.LONGEST_RETRY", 0.01)
    mail_server.deliver(user, *(source(f"m{number}", "text " * 400) for number in range(80)))
    mail_server.deliver(user, source("big", "the text", size=300_000), folder="Archive")
    for _ in range(12):
        proxy.cut_after(random.randrange(500, 60_000))
        mirror.supervisor.start()
        mirror.wait_for_status("ready")
    mirror.supervisor.start()
    mirror.wait_until_equal(mail_server, user)
    assert len(mirror.messages()) == 81
    mirror.supervisor.stop()
