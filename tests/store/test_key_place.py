"""The locations of the key and its passphrase."""

import os
from pathlib import Path

import pytest

from mailbox_appliance.errors import KeyElsewhere, KeyUnusable
from mailbox_appliance.store.key import (
    find_key_file,
    is_credential,
    load_passphrase,
    read_key_note,
    require_no_credential,
    write_key_note,
)
from mailbox_appliance.store.open_file import load_store_key
from mailbox_appliance.store.store import Store


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    """A folder as systemd passes it to a service."""
    folder = tmp_path / "credentials"
    folder.mkdir()
    return folder


def test_the_key_lies_in_the_data_directory_unless_something_else_is_said(tmp_path: Path, credentials: Path) -> None:
    data, of_systemd = tmp_path / "data", {"CREDENTIALS_DIRECTORY": str(credentials)}
    assert find_key_file(data, {}) == data / "encryption.key"
    assert find_key_file(data, of_systemd) == data / "encryption.key"
    (credentials / "db-key").touch()
    assert find_key_file(data, of_systemd) == credentials / "db-key"
    named = {**of_systemd, "MAILBOX_APPLIANCE_KEY_FILE": str(tmp_path / "stick" / "key")}
    assert find_key_file(data, named) == tmp_path / "stick" / "key"  # A missing file is reported when it is opened.
    assert find_key_file(data, {**named, "MAILBOX_APPLIANCE_KEY_FILE": ""}) == credentials / "db-key"


# fmt: off
#: what the credential holds, and the passphrase that it is
CREDENTIALS: list[tuple[bytes | None, str | None]] = [
    (None,                       None),
    (b"",                        None),
    (b"\n",                      None),
    (b"twelve geese fly",        "twelve geese fly"),
    (b"twelve geese fly\n",      "twelve geese fly"),
    (b"twelve geese fly\r\n",    "twelve geese fly"),
    (b" with its spaces \n",     " with its spaces "),
    ("größer\n".encode(),        "größer"),
]
# fmt: on


@pytest.mark.parametrize(("content", "passphrase"), CREDENTIALS)
def test_a_credential_holds_the_passphrase(credentials: Path, content: bytes | None, passphrase: str | None) -> None:
    if content is not None:
        (credentials / "passphrase").write_bytes(content)
    environment = {"CREDENTIALS_DIRECTORY": str(credentials), "MAILBOX_APPLIANCE_PASSPHRASE": ""}
    assert load_passphrase(environment) == passphrase
    assert load_passphrase({**environment, "MAILBOX_APPLIANCE_PASSPHRASE": "nearer"}) == "nearer"


def test_a_credential_that_is_none_is_told(credentials: Path) -> None:
    environment = {"CREDENTIALS_DIRECTORY": str(credentials)}
    (credentials / "passphrase").write_bytes(b"\xff\xfe")
    with pytest.raises(KeyUnusable, match="not valid UTF-8"):
        load_passphrase(environment)
    (credentials / "passphrase").unlink()
    (credentials / "passphrase").mkdir()
    with pytest.raises(KeyUnusable, match="cannot be read"):
        load_passphrase(environment)


def test_a_key_that_came_as_a_credential_is_lent_however_it_is_named(tmp_path: Path, credentials: Path) -> None:
    environment = {"CREDENTIALS_DIRECTORY": str(credentials)}
    (credentials / "db-key").touch()
    (tmp_path / "link").symlink_to(credentials / "db-key")
    for lent in (find_key_file(tmp_path, environment), tmp_path / "link", credentials / "other"):
        assert is_credential(lent, environment)
        with pytest.raises(KeyUnusable, match=r"MAILBOX_APPLIANCE_KEY_FILE.*Nothing was changed"):
            require_no_credential(lent, environment)
    assert not is_credential(tmp_path / "encryption.key", environment)
    assert not is_credential(credentials / "db-key", {})
    require_no_credential(tmp_path / "encryption.key", environment)


@pytest.mark.parametrize("what", ["key", "passphrase"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, credentials: Path, what: str) -> None:
    os.mkfifo(credentials / "passphrase")
    if what == "passphrase":
        with pytest.raises(KeyUnusable, match="Not a regular file"):
            load_passphrase({"CREDENTIALS_DIRECTORY": str(credentials)})
    else:
        with pytest.raises(KeyUnusable, match="Not a regular file"):
            load_store_key(credentials / "passphrase", tmp_path / "mailbox.db")


def test_where_a_key_is_kept_elsewhere_is_noted(tmp_path: Path) -> None:
    folder, key = tmp_path / "data", tmp_path / "key"
    Store.open(folder).close()
    assert read_key_note(folder) is None
    (folder / "encryption.key").rename(key)
    Store.open(folder, key_file=key).close()
    assert read_key_note(folder) == str(key)
    with pytest.raises(KeyElsewhere, match=f"last read from {key}"):
        Store.open(folder)
    key.rename(folder / "encryption.key")
    Store.open(folder).close()
    assert read_key_note(folder) is None


def test_a_lent_key_is_noted_by_its_name(tmp_path: Path, credentials: Path) -> None:
    write_key_note(tmp_path, credentials / "db-key", {"CREDENTIALS_DIRECTORY": str(credentials)})
    assert read_key_note(tmp_path) == "the systemd credential db-key"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"\n"])
def test_a_note_that_says_nothing_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key-place").write_bytes(content)
    assert read_key_note(tmp_path) is None
