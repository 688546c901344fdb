"""Folders: replaced by those that the server lists, found by the names that people use."""

import pytest

from mailbox_appliance.errors import NotFound
from mailbox_appliance.model.sync import FolderState, ListedFolder, MirroredFolder
from mailbox_appliance.store.store import Store
from tests.store.mail import ROLES, Mailbox, execute, fetched, parsed


def listed(*paths: str) -> list[ListedFolder]:
    return [ListedFolder(path, "/", frozenset()) for path in paths]


def test_a_path_that_stays_keeps_its_id_and_its_messages(store: Store, mailbox: Mailbox) -> None:
    other = Mailbox(store)
    mailbox.add(1), mailbox.add(2, path="Sent"), other.add(1, path="Sent")
    before = {folder.path: folder for folder in store.folders.list(mailbox.id)}
    after = store.folders.replace(mailbox.id, listed("INBOX", "Work/Täglich"), {"Work/Täglich": ("archive", "user")})
    assert [folder.path for folder in after] == ["INBOX", "Work/Täglich"]
    assert (after[0].id, after[0].number) == (before["INBOX"].id, before["INBOX"].number)
    assert (after[0].role, after[1].role, after[1].role_source) == (None, "archive", "user")
    # The messages of `Sent` may be found in another folder, until every folder has been checked.
    assert len(store.mailbox_writer.list_gone(mailbox.id)) == 1
    store.mailbox_writer.purge_gone(mailbox.id)
    assert (mailbox.subjects(), mailbox.subjects(None)) == (["Subject"], ["Subject"])
    assert other.subjects("Sent") == ["Subject"]
    again = store.folders.replace(mailbox.id, listed("INBOX", "Sent"), ROLES)
    assert again[1].id != before["Sent"].id
    assert again[1].state is None
    with pytest.raises(NotFound):
        store.folders.replace("acc_gone", listed("INBOX"), {})


def test_no_number_is_given_twice(store: Store, mailbox: Mailbox) -> None:
    before = {folder.number for folder in store.folders.replace(mailbox.id, listed("INBOX", "Work"), {})}
    store.folders.replace(mailbox.id, listed("INBOX"), {})
    after = store.folders.replace(mailbox.id, listed("INBOX", "Work"), {})
    assert len(before & {folder.number for folder in after}) == 1


def test_the_position_is_kept(store: Store, mailbox: Mailbox) -> None:
    folder = mailbox.folder("Sent")
    assert folder.state is None
    state = FolderState(uidvalidity=1, uidnext=9, exists=3, highestmodseq=1 << 62)
    store.folders.set_state(folder.number, state)
    assert mailbox.folder("Sent").state == state
    moved = FolderState(2, 1, 0)
    store.folders.set_state(folder.number, moved)
    assert mailbox.folder("Sent").state == moved


def found(mailbox: Mailbox, name: str) -> str | None:
    folder: MirroredFolder | None = mailbox.store.folders.find(mailbox.id, name)
    ids = [Mailbox(mailbox.store).id, mailbox.id]
    each = [mailbox.store.folders.find(one, name) for one in ids]
    assert mailbox.store.folders.find_numbers(ids, name) == tuple(one.number for one in each if one)
    return None if folder is None else folder.path


def test_what_a_person_means_by_a_name(store: Store, mailbox: Mailbox) -> None:
    roles = {"INBOX": ROLES["INBOX"], "Gesendet": ROLES["Sent"]}
    store.folders.replace(
        mailbox.id, listed("INBOX", "Gesendet", "sent", "Sent", "Work/Old", "Old/Work", "Work"), roles
    )
    for name, path in (
        (mailbox.folder("Work/Old").id, "Work/Old"),
        ("sent", "Gesendet"),  # the role takes precedence over the path
        ("Sent", "Sent"),  # and the exact path over a role in another case
        ("SENT", "Gesendet"),
        ("Work/Old", "Work/Old"),
        ("Old", "Work/Old"),
        ("Work", "Work"),  # the path takes precedence over the name
        ("inbox", "INBOX"),
        ("nowhere", None),
        ("", None),
        ("%", None),
    ):
        assert found(mailbox, name) == path, name
    assert found(Mailbox(store), mailbox.folder("Work/Old").id) is None
    sent = store.folders.find_by_role(mailbox.id, "sent")
    assert sent is not None
    assert sent.path == "Gesendet"
    assert store.folders.find_by_role(mailbox.id, "trash") is None


def test_roles_are_by_default_what_a_person_and_the_server_say(store: Store, mailbox: Mailbox) -> None:
    store.folders.set_user_mapping(mailbox.id, {"archive": "Done"})
    store.folders.replace(mailbox.id, listed("INBOX", "Done", "Sent"))
    roles = {folder.path: (folder.role, folder.role_source) for folder in store.folders.list(mailbox.id)}
    assert roles == {"INBOX": ("inbox", "extension"), "Done": ("archive", "user"), "Sent": ("sent", "name")}


def test_clients_see_counts_and_roles_first(store: Store, mailbox: Mailbox) -> None:
    store.folders.replace(mailbox.id, listed("Junk", "A", "INBOX", "Work/Old"), ROLES)
    batch = [(fetched(uid, ["\\Seen"] if uid < 3 else []), parsed()) for uid in (1, 2, 3)]
    store.mailbox_writer.add(mailbox.folder(), batch)
    shown = store.folders.list_with_counts(mailbox.id)
    assert [(folder.path, folder.name) for folder in shown] == [
        ("INBOX", "INBOX"),
        ("Junk", "Junk"),
        ("A", "A"),
        ("Work/Old", "Old"),
    ]
    assert (shown[0].total_count, shown[0].unread_count, shown[0].role) == (3, 1, "inbox")
    assert (shown[2].total_count, shown[2].unread_count) == (0, 0)


def test_the_folders_that_a_person_gave_a_role(store: Store, mailbox: Mailbox) -> None:
    execute(store, 'UPDATE accounts SET mapped_folders = \'{"archive": "Old \\"mail\\""}\'')
    assert store.folders.get_user_mapping(mailbox.id) == {"archive": 'Old "mail"'}


def test_a_mapping_is_merged_and_cleared(store: Store, mailbox: Mailbox) -> None:
    store.folders.set_user_mapping(mailbox.id, {"archive": 'Old "mail"', "sent": "Été"})
    store.folders.set_user_mapping(mailbox.id, {"sent": None, "trash": "Bin", "spam": None})
    assert store.folders.get_user_mapping(mailbox.id) == {"archive": 'Old "mail"', "trash": "Bin"}
    store.folders.set_user_mapping(Mailbox(store).id, {"sent": "Other"})
    assert store.folders.get_user_mapping(mailbox.id) == {"archive": 'Old "mail"', "trash": "Bin"}
