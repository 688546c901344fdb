from collections.abc import Mapping

import pytest

from mailbox_appliance.mail.folder_roles import assign_roles
from mailbox_appliance.model.accounts import FolderRole
from mailbox_appliance.model.sync import ListedFolder

NAMES = {
    "sent": "Sent; SENT ITEMS; Gesendet; Gesendete Elemente; Envoyés; Enviados; Posta inviata; Verzonden "
    "items; Wysłane; Skickat; Itens enviados",
    "drafts": "Drafts; Entwürfe; Entwu\u0308rfe; Brouillons; Borradores; Bozze; Concepten; Wersje robocze; "
    "Rascunhos; Utkast",
    "trash": "Trash; Deleted Items; Papierkorb; Corbeille; Papelera; Cestino; Prullenbak; Kosz; Lixeira; Papperskorgen",
    "spam": "Junk; spam; Junk E-mail; Indésirables; Correo no deseado; Skräppost",
    "archive": "Archive; Archiv; Archivio; Archief; Arkiv; Arquivo",
    "all": "All Mail",
    "starred": "Starred",
}


def roles(
    *folders: str | tuple[str, str], mapped: Mapping[FolderRole, str] | None = None, delimiter: str = "/"
) -> dict[str, str]:
    """Return `path: role source` for folders given as a path, or as (path, attributes)."""
    pairs = [(each, "") if isinstance(each, str) else each for each in folders]
    listed = [ListedFolder(path, delimiter, frozenset(attributes.split())) for path, attributes in pairs]
    return {path: f"{role} {source}" for path, (role, source) in assign_roles(listed, mapped).items()}


def test_special_use() -> None:
    found = roles(
        "INBOX", ("S", "\\sent"), ("D", "\\drafts \\hasnochildren"), ("T", "\\trash"), ("J", "\\junk"),
        ("A", "\\archive"), ("All", "\\all"), ("F", "\\flagged"), "Other",
    )  # fmt: skip
    assert found == {
        "INBOX": "inbox extension", "S": "sent extension", "D": "drafts extension", "T": "trash extension",
        "J": "spam extension", "A": "archive extension", "All": "all extension", "F": "starred extension",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "role"), [(name, role) for role in NAMES for name in NAMES[role].split("; ")])
@pytest.mark.parametrize("prefix", ["", "INBOX/", "[Gmail]/", "Inbox/"])
def test_well_known_names(prefix: str, name: str, role: str) -> None:
    assert roles(prefix + name) == {prefix + name: f"{role} name"}


@pytest.mark.parametrize("path", ["Work/Sent", "INBOX/Work/Sent", "Sent/2025", "Sentinel", "INBOX/", "", "[Gmail]"])
def test_other_names_play_no_role(path: str) -> None:
    assert roles(path) == {}


def test_the_delimiter_is_the_servers() -> None:
    assert roles("INBOX.Sent", "Work.Sent", "inbox", delimiter=".") == {
        "inbox": "inbox extension",
        "INBOX.Sent": "sent name",
    }
    assert assign_roles([ListedFolder("Sent", None, frozenset())]) == {"Sent": ("sent", "name")}


def test_people_come_before_the_server_and_the_server_before_names() -> None:
    folders = ("INBOX", "Mine", ("Server", "\\sent"), "Sent", "Drafts", ("Bin", "\\trash"))
    assert roles(*folders, mapped={"sent": "Mine", "trash": "gone"}) == {
        "INBOX": "inbox extension", "Mine": "sent user", "Bin": "trash extension", "Drafts": "drafts name",
    }  # fmt: skip


def test_no_role_and_no_folder_is_used_twice() -> None:
    assert roles("Gesendet", "Sent", "Sent Items") == {"Sent": "sent name"}
    assert roles(("A", "\\sent"), ("B", "\\sent")) == {"A": "sent extension"}
    assert roles(("A", "\\sent \\archive")) == {"A": "sent extension"}
    assert roles("Mine", mapped={"sent": "Mine", "trash": "Mine"}) == {"Mine": "sent user"}
    assert roles("INBOX", mapped={"archive": "INBOX"}) == {"INBOX": "inbox extension"}


def test_a_folder_without_mail_plays_no_role() -> None:
    assert roles(("Sent", "\\noselect"), ("Trash", "\\nonexistent"), ("X", "\\sent \\noselect")) == {}


def test_a_mapping_finds_its_folder_in_either_form_of_unicode() -> None:
    assert roles("Entwu\u0308rfe 2", mapped={"drafts": "Entwürfe 2"}) == {"Entwu\u0308rfe 2": "drafts user"}
