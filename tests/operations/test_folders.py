"""Which folder is for what: as its owner says, at once and until it is cleared."""

from typing import Any

import pytest

from tests.checked_client import CheckedClient
from tests.operations.connected import ConnectedMailbox
from tests.operations.filled import FilledMailbox, add_key, add_member, letter
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until

USUAL = {"sent": "Sent", "drafts": "Drafts", "trash": "Trash", "archive": "Archive", "spam": "Junk"}


@pytest.fixture
def mailbox(checked_client: CheckedClient, mail_server: MailServer) -> ConnectedMailbox:
    made = ConnectedMailbox(checked_client, mail_server)
    for path in ("Done", "Bücher/Büro"):
        mail_server.make_folder(made.user, path)
    return made


def roles(mailbox: ConnectedMailbox) -> dict[str, tuple[str, str]]:
    folders = mailbox.ask("GET", "/folders").data
    return {one["path"]: (one["role"], one["roleSource"]) for one in folders if "role" in one}


def test_a_mapping_holds_at_once_and_is_cleared_again(mailbox: ConnectedMailbox) -> None:
    synced = mailbox.ask("GET", "").data["lastSyncAt"]
    answer = mailbox.ask("PATCH", "/imap/folders", {"archive": "Done", "sent": "Bücher/Büro"})
    mapped = USUAL | {"archive": "Done", "sent": "Bücher/Büro"}
    assert (answer.status, answer.data) == (200, mapped)
    assert mailbox.ask("GET", "").data["folders"] == mapped
    found = roles(mailbox)
    assert (found["Done"], found["Bücher/Büro"]) == (("archive", "user"), ("sent", "user"))
    assert not {"Archive", "Sent"} & found.keys()

    (one,) = mailbox.deliver(letter("one"))
    assert mailbox.act("archive", one).data["succeededIds"] == [one]
    assert len(mailbox.server.messages(mailbox.user, "Done")) == 1

    wait_until(lambda: bool(mailbox.ask("GET", "").data["lastSyncAt"] > synced), lambda: "sync was not woken", 10)
    assert mailbox.ask("PATCH", "/imap/folders", {}).data == mapped
    assert mailbox.ask("PATCH", "/imap/folders", {"archive": None}).data == mapped | {"archive": "Archive"}
    assert roles(mailbox)["Archive"] == ("archive", "extension")
    assert mailbox.ask("PATCH", "/imap/folders", dict.fromkeys(USUAL)).data == USUAL


def test_a_folder_may_be_named_by_its_id(mailbox: ConnectedMailbox) -> None:
    folders = {one["path"]: one["id"] for one in mailbox.ask("GET", "/folders").data}
    answer = mailbox.ask("PATCH", "/imap/folders", {"spam": folders["Archive"], "archive": folders["Junk"]})
    assert answer.data == USUAL | {"spam": "Archive", "archive": "Junk"}


def test_a_role_that_loses_its_folder_is_named(mailbox: ConnectedMailbox) -> None:
    answer = mailbox.ask("PATCH", "/imap/folders", {"archive": "Trash"})
    assert answer.data == USUAL | {"archive": "Trash", "trash": None}
    assert answer.warnings == ["No folder has the role trash any longer: Trash is for archive now. Assign one."]
    assert mailbox.ask("PATCH", "/imap/folders", {"sent": "Done"}).warnings == []
    answer = mailbox.ask("PATCH", "/imap/folders", {"archive": None, "trash": "Archive"})
    assert answer.data == USUAL | {"sent": "Done", "trash": "Archive", "archive": None}
    assert answer.warnings == ["No folder has the role archive any longer. Assign one."]


# the body, what is refused and where
REFUSED: tuple[tuple[dict[str, Any], tuple[int, str], str], ...] = (
    ({"sent": "Nowhere"}, (404, "not_found"), "/sent"),
    ({"sent": "sent"}, (404, "not_found"), "/sent"),  # a role is no path
    ({"sent": "fld_01jd0000000000000000000000"}, (404, "not_found"), "/sent"),
    ({"sent": ""}, (400, "invalid_request"), "/sent"),
    ({"sent": "x" * 1025}, (400, "invalid_request"), "/sent"),
    ({"sent": 1}, (400, "invalid_request"), "/sent"),
    ({"inbox": "Done"}, (400, "invalid_request"), "/inbox"),
    ({"sent": "INBOX"}, (400, "invalid_request"), "/sent"),
    ({"sent": "Done", "trash": "Done"}, (400, "invalid_request"), "/trash"),
)


def test_what_cannot_be_mapped(mailbox: ConnectedMailbox) -> None:
    for body, refusal, place in REFUSED:
        answer = mailbox.ask("PATCH", "/imap/folders", body)
        assert (answer.refusal, answer.places) == (refusal, [place]), body
    assert mailbox.ask("PATCH", "/imap/folders", {"sent": "Done"}).status == 200
    assert mailbox.ask("PATCH", "/imap/folders", {"trash": "Done"}).refusal == (409, "conflict")
    assert mailbox.ask("PATCH", "/imap/folders", {"trash": "Done", "sent": None}).data == USUAL | {"trash": "Done"}


def test_who_may(checked_client: CheckedClient) -> None:
    appliance, ada = checked_client.appliance, checked_client.member["id"]
    filled = FilledMailbox(appliance, ada)
    path = f"/accounts/{filled.id}/imap/folders"
    _, key = add_key(appliance, ada, "mail.read", "mail.organize")
    assert checked_client.ask("PATCH", path, {}, token=key).refusal == (403, "session_required")
    filled.grant(add_member(appliance, "bob"))
    assert checked_client.log_in("bob@example.org").ask("PATCH", path, {}).refusal == (403, "permission_denied")
    assert checked_client.ask("PATCH", path, {"sent": "Sent"}).refusal == (503, "provider_unavailable")
    with appliance.store.database.transaction():
        appliance.store.database.change("UPDATE accounts SET provider = 'google'")
    assert checked_client.ask("PATCH", path, {"sent": "Sent"}).refusal == (422, "unsupported_capability")
