"""Where the key of a store lies, and where its passphrase comes from, when the operator keeps them elsewhere.

    MAILBOX_APPLIANCE_KEY_FILE, else the systemd credential `db-key`, else DIR/encryption.key
    MAILBOX_APPLIANCE_PASSPHRASE, else the systemd credential `passphrase`
    DIR/key-place                 where the key was when the store was last opened, if elsewhere

systemd hands credentials to a service as files of a folder that only the service can read, and nobody can write
(systemd.exec(5), LoadCredential=): it names the folder in CREDENTIALS_DIRECTORY.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mailbox_appliance.errors import KeyUnusable
from mailbox_appliance.store.files import KEY, write_private
from mailbox_appliance.system import files, ownership

NOTE = "key-place"
KEY_FILE_VARIABLE = "MAILBOX_APPLIANCE_KEY_FILE"
PASSPHRASE_VARIABLE = "MAILBOX_APPLIANCE_PASSPHRASE"  # noqa: S105 - a name
_FOLDER_VARIABLE, _KEY, _PASSPHRASE = "CREDENTIALS_DIRECTORY", "db-key", "passphrase"
_LONGEST = 64 * 1024


def place_of_key(data_dir: Path, environment: Mapping[str, str]) -> Path:
    """The key file of the store in a data directory, whether it is there or not.

    Raises StoreUnusable for one elsewhere that neither the effective user nor root owns, unless it is a credential.
    """
    if named := environment.get(KEY_FILE_VARIABLE):
        file = Path(named).expanduser().absolute()
        if not is_lent(file, environment):
            ownership.require_own_key(file)
        return file
    return _credential(_KEY, environment) or data_dir / KEY


def note_place(data_dir: Path, key_file: Path, environment: Mapping[str, str]) -> None:
    """Note in a data directory that the key of its store lies elsewhere, for who looks there without it; best effort.

    A shell does not have what a unit file gives a service, and a store whose key lies there is no lost one.
    """
    note, place = data_dir / NOTE, str(key_file)
    if is_lent(key_file, environment):
        place = f"the systemd credential {key_file.name}"
    with suppress(OSError, UnicodeEncodeError):
        if key_file.absolute() == (data_dir / KEY).absolute():
            note.unlink(missing_ok=True)
        elif noted_place(data_dir) != place:
            write_private(note, place.encode() + b"\n")


def noted_place(data_dir: Path) -> str | None:
    """Where the key of a store was, as it was last opened, if not beside it."""
    try:
        return files.read_regular(data_dir / NOTE, _LONGEST).decode("utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def is_lent(key_file: Path, environment: Mapping[str, str]) -> bool:
    """Whether a key file came as a credential: it is gone when the service stops, and the next start gets what the
    source of the credential holds. So it is never written, also where the folder would allow it.
    """
    folder = environment.get(_FOLDER_VARIABLE)
    return bool(folder) and key_file.resolve().is_relative_to(Path(str(folder)).resolve())


def require_own(key_file: Path, environment: Mapping[str, str]) -> None:
    """Raise KeyUnusable for a key file that came as a credential, where it would have to change."""
    if is_lent(key_file, environment):
        reason = (
            f"{key_file} came as a credential of systemd, and what is written there is gone at the next start. Copy the"
            " key to a file that stays, name that in MAILBOX_APPLIANCE_KEY_FILE and repeat the command; then make the"
            " credential anew from it. Nothing was changed."
        )
        raise KeyUnusable(reason=reason)


def passphrase_from(environment: Mapping[str, str]) -> str | None:
    """The passphrase that the environment or systemd gives, without a line end; None where neither does.

    Raises KeyUnusable for a credential that cannot be read as one line of UTF-8.
    """
    if given := environment.get(PASSPHRASE_VARIABLE):
        return given
    file = _credential(_PASSPHRASE, environment)
    if file is None:
        return None
    try:
        return files.read_regular(file, _LONGEST).rstrip(b"\r\n").decode("utf-8") or None
    except OSError as error:
        raise KeyUnusable(reason=f"{file} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise KeyUnusable(reason=f"{file} is not valid UTF-8.") from error


def _credential(name: str, environment: Mapping[str, str]) -> Path | None:
    folder = environment.get(_FOLDER_VARIABLE)
    file = Path(folder) / name if folder else None
    return file if file is not None and file.exists() else None
