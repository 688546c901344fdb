"""A mailbox with labels is followed: each message once, in the folder where it lies, with its labels."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from mailbox_appliance.remote.imap.client import ImapMailbox
from mailbox_appliance.store import moves
from mailbox_appliance.store.store import Store
from mailbox_appliance.sync import follower
from tests.servers.gmail import BYE, OVERQUOTA, Gmail
from tests.servers.gmail_mailbox import GERMAN, GmailMailbox
from tests.sync.labeled import LabeledMirror, endpoint_of
from tests.sync.mirrored import source

USER = "ada@gmail.test"
ALL = "[Gmail]/All Mail"


@pytest.fixture
def box(gmail: Gmail) -> GmailMailbox:
    return gmail.add(USER)


def test_one_message_in_five_labels_is_one_message(store: Store, gmail: Gmail, box: GmailMailbox) -> None:
    box.deliver(source("one"), "\\Inbox", "Work", "Work/2024", "Über uns", "a (b)", flags=["\\Seen"])
    box.deliver(source("archived"), "Work")
    box.deliver(source("junk"), place="spam")
    box.deliver(source("old"), place="trash")
    with LabeledMirror(store, gmail, box).running() as mirror:
        mirror.wait_until_same()
        assert set(mirror.messages()) == {"one", "archived", "junk", "old"}
        assert mirror.messages()["one"].path == "[Gmail]/All Mail"
        assert mirror.store.accounts.get(mirror.account_id).capabilities.labels
        asked = [command for command in gmail.commands if command.startswith("UID FETCH") and "HEADER" in command]
        assert len(asked) == 3, "labels and ids are asked for together with the header"
        opened = [command for command in gmail.commands if command.startswith(("SELECT", "EXAMINE"))]
        assert not any("INBOX" in command or "Work" in command for command in opened), "nothing looks in there"


@pytest.mark.parametrize("names", [None, GERMAN])
def test_what_others_do_to_labels_follows(store: Store, gmail: Gmail, names: dict[str, str] | None) -> None:
    box = gmail.add("eva@gmail.test", names=names, prefix="[Google Mail]" if names else "[Gmail]")
    numbers = {name: box.deliver(source(name)) for name in "abcdefg"}
    with LabeledMirror(store, gmail, box).running() as mirror:
        mirror.wait_until_same()
        ids, fetched = mirror.ids(), len(gmail.commands)
        box.label(numbers["a"], "New/Läbel", "\\Starred")
        box.unlabel(numbers["b"], "\\Inbox")
        box.trash(numbers["c"])
        box.junk(numbers["d"])
        box.flag(numbers["e"], "\\Seen", "\\Answered")
        box.label(numbers["f"], "\\Important", "New/Läbel")
        mirror.wait_until_same()
        box.unlabel(numbers["a"], "\\Starred", "New/Läbel", "\\Inbox")
        box.restore(numbers["c"])
        box.restore(numbers["d"], "New/Läbel")
        box.delete(numbers["g"])
        mirror.wait_until_same()
        assert mirror.ids() == {name: identity for name, identity in ids.items() if name != "g"}, "ids stay"
        assert not any("BODY.PEEK[]" in command for command in gmail.commands[fetched:]), "what moved is not read again"


def test_labels_get_other_names_and_go(store: Store, gmail: Gmail, box: GmailMailbox) -> None:
    for number in range(3):
        box.deliver(source(f"m{number}"), "Work", "Work/2024", "Home")
    with LabeledMirror(store, gmail, box).running() as mirror:
        mirror.wait_until_same()
        ids = mirror.ids()
        box.rename_label("Work", "Jobs")
        mirror.wait_until_same()
        box.remove_label("Home")
        box.make_label("Empty")
        mirror.wait_until_same()
        assert mirror.ids() == ids

        def changed() -> bool:
            paths = {folder.path for folder in store.folders.list(mirror.account_id)}
            return paths >= {"Jobs", "Jobs/2024", "Empty"} and not paths & {"Work", "Work/2024", "Home"}

        mirror.wait_for(changed, "the folders")


@pytest.mark.parametrize("renamed", [True, False])
def test_labels_that_change_without_a_trace_are_found_by_their_count(
    store: Store, gmail: Gmail, box: GmailMailbox, renamed: bool
) -> None:
    box.counts_renames = False
    for number in range(3):
        box.deliver(source(f"m{number}"), "\\Inbox", "Work")
    with LabeledMirror(store, gmail, box).running() as mirror:
        mirror.wait_until_same()
        if renamed:
            box.rename_label("Work", "Jobs")
        else:
            box.remove_label("Work")
        box.make_label("Work")  # so that it is listed as before

        def is_found() -> bool:
            mirror.wake()
            return mirror.is_same()

        mirror.wait_for(is_found, "the other labels")
        all_labels = [command for command in gmail.commands if command == "UID FETCH 1:* (UID FLAGS X-GM-LABELS)"]
        assert len(all_labels) <= 4, "once for each folder with messages in the beginning, and once for the difference"


def test_a_count_that_never_agrees_is_not_asked_about_again_and_again(
    store: Store, gmail: Gmail, box: GmailMailbox
) -> None:
    box.deliver(source("one"), "Work")
    with LabeledMirror(store, gmail, box).running() as mirror:
        mirror.wait_until_same()
        with store.database.transaction():
            store.database.change("DELETE FROM message_labels")
        for _ in range(12):
            is_over = partial(_idles_since, gmail, len(gmail.commands))
            mirror.wake()
            mirror.wait_for(is_over, "a round")
        assert sum(command.startswith('STATUS "Work"') for command in gmail.commands) == 2
        all_labels = [command for command in gmail.commands if command == "UID FETCH 1:* (UID FLAGS X-GM-LABELS)"]
        assert len(all_labels) == 2, "once in the beginning, once for the difference"


def _idles_since(gmail: Gmail, asked: int) -> bool:
    return "IDLE" in gmail.commands[asked:]


def test_new_mail_is_told_in_the_folder_of_all_mail(store: Store, gmail: Gmail, box: GmailMailbox) -> None:
    with LabeledMirror(store, gmail, box, sync__poll_interval=3600).running() as mirror:
        box.deliver(source("filtered"), "Lists")
        box.deliver(source("inbox"))
        mirror.wait_for(lambda: set(mirror.messages()) == {"filtered", "inbox"}, "it is told")
        assert not gmail.commands.count("SELECT")


def test_a_label_folder_that_is_written_to_wakes_the_folder_of_all_mail(
    store: Store, gmail: Gmail, box: GmailMailbox
) -> None:
    number = box.deliver(source("one"))
    with LabeledMirror(store, gmail, box, sync__poll_interval=3600).running() as mirror:
        mirror.wait_until_same()
        box.label(number, "Work")
        mirror.supervisor.wake(mirror.account_id, "INBOX")
        mirror.wait_for(lambda: any("Work" in flags for flags in mirror.known()["[Gmail]/All Mail"].values()), "label")
        mirror.supervisor.wake(mirror.account_id, "Work")  # a folder that is not known yet
        mirror.wait_for(mirror.is_same, "the folder")


def test_the_folder_of_a_label_that_is_new_elsewhere_is_looked_for_at_once(
    store: Store, gmail: Gmail, box: GmailMailbox
) -> None:
    number = box.deliver(source("one"))
    box.make_label("Hidden")
    box.hide("Hidden")
    with LabeledMirror(store, gmail, box, sync__poll_interval=3600).running() as mirror:
        box.label(number, "New", "Hidden")
        box.deliver(source("two"), "Newer")  # which has us look
        mirror.wait_for(lambda: {"New", "Newer"} <= {each.path for each in store.folders.list(mirror.account_id)}, "it")
        mirror.wait_for(lambda: gmail.commands[-1] == "IDLE", "rest")
        listed = sum(command.startswith("LIST") for command in gmail.commands)
        box.deliver(source("three"), "Hidden")
        mirror.wait_for(lambda: "three" in mirror.messages(), "three")
        mirror.wait_for(lambda: gmail.commands[-1] == "IDLE", "rest")
        assert sum(command.startswith("LIST") for command in gmail.commands) == listed, "asked about once"


def test_labels_are_compared_every_minute(store: Store, gmail: Gmail, box: GmailMailbox) -> None:
    number = box.deliver(source("one"), "\\Inbox")
    with LabeledMirror(store, gmail, box, sync__poll_interval=1).running() as mirror:
        box.unlabel(number, "\\Inbox")  # which nothing tells in IDLE
        mirror.wait_for(mirror.is_same, "the archived message")


def test_hidden_mail_is_told_with_its_fix_and_gone_on_with(store: Store, gmail: Gmail, box: GmailMailbox) -> None:
    box.deliver(source("one"))
    box.hide_all_mail()
    mirror = LabeledMirror(store, gmail, box)
    with mirror.running(is_ready=False):
        error = mirror.wait_for_error()
        assert error.fault == "all_mail_hidden"
        assert "Show in IMAP" in error.message
        box.show("[Gmail]/All Mail")
        mirror.wait_until_same()
        ids = mirror.ids()
        box.hide_all_mail()
        mirror.wake()
        mirror.wait_for_status("error")
        assert mirror.ids() == ids, "nothing is forgotten meanwhile"


#: How many steps of the upgrade were done when it was broken off, and whether the positions were known to be void.
BROKEN_OFF = [(0, True), (3, True), (2, False), (5, False)]


@pytest.mark.parametrize(("steps", "is_noted"), [(None, True), *BROKEN_OFF])
def test_a_mirror_that_knew_folders_becomes_one_that_knows_labels(
    store: Store, gmail: Gmail, box: GmailMailbox, monkeypatch: pytest.MonkeyPatch, steps: int | None, is_noted: bool
) -> None:
    box.deliver(source("one"), "\\Inbox", "Work", "\\Starred", flags=["\\Seen"])
    box.deliver(source("two"), "\\Starred")
    box.deliver(source("three"), place="trash")
    mirror = LabeledMirror(store, gmail, box)
    with monkeypatch.context() as patch:
        _without_extension(patch.setattr)
        with mirror.running():
            assert len(mirror.messages("INBOX")) == len(mirror.messages("Work")) == 1
            before = {row[0] for row in store.database.rows("SELECT id FROM messages")}
            fetched, trashed = len(gmail.commands), mirror.ids("[Gmail]/Trash")["three"]
    if steps is not None:
        _break_off(mirror, gmail, monkeypatch, steps, is_noted=is_noted)
    mirror.supervisor = mirror._supervisor()
    with mirror.running():
        mirror.wait_until_same()
        known = {row[0] for row in store.database.rows("SELECT id FROM messages")}
        assert known == set(mirror.ids().values()) <= before
        assert mirror.ids()["three"] == trashed
        assert not any("BODY.PEEK[]" in command for command in gmail.commands[fetched:])


class _Stopped(Exception):
    """The process ends here."""


def _break_off(
    mirror: LabeledMirror, gmail: Gmail, monkeypatch: pytest.MonkeyPatch, steps: int, *, is_noted: bool
) -> None:
    """Begin with the upgrade, and stop after so many folders."""
    left = [None] * steps
    endpoint = endpoint_of(gmail, mirror.box)
    with ImapMailbox.open(endpoint, ca_file="", timeout=5) as mailbox, monkeypatch.context() as patch:
        for name in ("evacuate_folder", "detach_without_provider_id"):
            patch.setattr(moves, name, partial(_if_any_left, left, getattr(moves, name)))
        if not is_noted:
            patch.setattr(mirror.store.folders, "forget_positions", lambda _: None)
        with suppress(_Stopped):
            follower.update_folders(
                mirror.store.folders, mirror.account_id, mailbox.list_folders_with_states()[0], ALL, is_first=True
            )


def _if_any_left(left: list[None], step: Callable[..., None], *given: object) -> None:
    if not left:
        raise _Stopped
    left.pop()
    step(*given)


def _without_extension(replace: Callable[[str, object], None]) -> None:
    replace("mailbox_appliance.remote.imap.values.GMAIL_EXTENSION", "X-NONE")


def test_mail_is_the_same_after_a_restart_and_changes_meanwhile(store: Store, gmail: Gmail, box: GmailMailbox) -> None:
    numbers = [box.deliver(source(f"m{number}"), "\\Inbox", "Work") for number in range(60)]
    with LabeledMirror(store, gmail, box).running() as mirror:
        mirror.wait_until_same()
        ids = mirror.ids()

        def meanwhile() -> None:
            box.rename_label("Work", "Jobs")
            for number in numbers[:20]:
                box.trash(number)
            for number in numbers[20:40]:
                box.unlabel(number, "\\Inbox")

        mirror.restart(within=meanwhile)
        mirror.wait_until_same()
        assert mirror.ids() == ids


@pytest.mark.parametrize(("reply", "code"), [(OVERQUOTA, "provider_rate_limited"), (BYE, "provider_unavailable")])
def test_what_a_limit_breaks_off_is_taken_up_again(
    store: Store, gmail: Gmail, box: GmailMailbox, reply: str, code: str
) -> None:
    for number in range(60):
        box.deliver(source(f"m{number}"), "\\Inbox", "Work")
    gmail.refuse("UID FETCH 60", reply)
    gmail.refuse("UID FETCH 11:60 (UID RFC822.SIZE)", reply)
    mirror = LabeledMirror(store, gmail, box)
    with mirror.running(is_ready=False):
        assert mirror.wait_for_error().code == code
        gmail.forget()
        mirror.wait_until_same()
