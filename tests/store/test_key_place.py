"""Where the key and its passphrase are looked for."""

from pathlib import Path

import pytest

from mailbox_appliance.errors import KeyUnusable
from mailbox_appliance.store.key_place import passphrase_from, place_of_key


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    """A folder as systemd hands it to a service."""
    folder = tmp_path / "credentials"
    folder.mkdir()
    return folder


def test_the_key_lies_in_the_data_directory_unless_something_else_is_said(tmp_path: Path, credentials: Path) -> None:
    data, of_systemd = tmp_path / "data", {"CREDENTIALS_DIRECTORY": str(credentials)}
    assert place_of_key(data, {}) == data / "encryption.key"
    assert place_of_key(data, of_systemd) == data / "encryption.key"
    (credentials / "db-key").touch()
    assert place_of_key(data, of_systemd) == credentials / "db-key"
    named = {**of_systemd, "MAILBOX_APPLIANCE_KEY_FILE": str(tmp_path / "stick" / "key")}
    assert place_of_key(data, named) == tmp_path / "stick" / "key"  # that it is not there is told when it is opened
    assert place_of_key(data, {**named, "MAILBOX_APPLIANCE_KEY_FILE": ""}) == credentials / "db-key"


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
    assert passphrase_from(environment) == passphrase
    assert passphrase_from({**environment, "MAILBOX_APPLIANCE_PASSPHRASE": "nearer"}) == "nearer"


def test_a_credential_that_is_none_is_told(credentials: Path) -> None:
    environment = {"CREDENTIALS_DIRECTORY": str(credentials)}
    (credentials / "passphrase").write_bytes(b"\xff\xfe")
    with pytest.raises(KeyUnusable, match="not valid UTF-8"):
        passphrase_from(environment)
    (credentials / "passphrase").unlink()
    (credentials / "passphrase").mkdir()
    with pytest.raises(KeyUnusable, match="cannot be read"):
        passphrase_from(environment)
