"""Reading a store of format 3 or 4, checked and attached to a SQLite connection read-only as `old`.

Not a byte of the old store changes, and no file is created beside it: its write-ahead log is read, but not written into
the database. While it is attached, the store is locked, also against a process of the old release. The process must not
open and close the file in another way, since that would release the lock.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import apsw
import msgspec

from mailbox_appliance.errors import KeyWrong, StoreDamaged, StoreInUse
from mailbox_appliance.model.backups import Progress
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.store.database import Database, Row
from mailbox_appliance.store.formats import format_4
from mailbox_appliance.store.open_file import require_complete, require_plain_format, wal_path
from mailbox_appliance.system.files import lock_bytes

# --- The encrypted columns of formats 3 and 4: single secrets, each encrypted for its place ---
#
# 0x01 || 12-byte nonce || AES-256-GCM ciphertext and tag associated data: `table:id:column`


_SEAL_VERSION, _SEAL_NONCE_SIZE, _SEAL_TAG_SIZE = b"\x01", 12, 16


def unseal_secret(master: bytes, sealed: bytes, *, table: str, row: str, column: str) -> str | None:
    """Return a decrypted secret of an old store, such as a mailbox password.

    `master`: the store's key. `table`, `row`, `column`: the place of the secret, for which it was encrypted. Returns
    None for another key or place, or if the secret was altered.
    """
    if not sealed.startswith(_SEAL_VERSION) or len(sealed) < 1 + _SEAL_NONCE_SIZE + _SEAL_TAG_SIZE:
        return None
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce, ciphertext = sealed[1 : 1 + _SEAL_NONCE_SIZE], sealed[1 + _SEAL_NONCE_SIZE :]
    try:
        return AESGCM(master).decrypt(nonce, ciphertext, f"{table}:{row}:{column}".encode()).decode()
    except (InvalidTag, UnicodeDecodeError):
        return None


# --- The attached store ---


OLD_SCHEMA = "old"
_BLOB_CONDITIONS = (
    format_4.BYTES,
    format_4.or_null(format_4.BYTES),
)  # Values that are certainly bytes, without reading them.
_ROWS_AT_ONCE = 5_000  # rows that are checked together
_NAME_COLUMNS = {"meta": "name", "settings": "name", "oauth_apps": "provider"}
_TABLES_WITHOUT_NAMES = ("account_grants", "rest_idempotency", "legacy_idempotency")
#: The encrypted columns: table, name column of the row, column.
SEALED_COLUMNS = (("accounts", "id", "sealed_secret"), ("oauth_apps", "provider", "sealed_client_secret"))


class _OldServer(msgspec.Struct):
    host: str
    port: int
    security: Literal["tls", "starttls", "none"]
    username: str


class _OldServers(msgspec.Struct):
    imap: _OldServer
    smtp: _OldServer


class _OldPasswords(msgspec.Struct, rename="camel"):
    imap_password: str
    smtp_password: str


@dataclass(frozen=True)
class OldStore:
    """An attached old store: its file, its format (`number`), and the connection that reads it."""

    file: Path
    number: int
    database: Database

    def count_rows(self) -> Mapping[str, int]:
        """Return the number of rows by table."""
        promised = format_4.COLUMNS_BY_FORMAT[self.number]
        return {table: self.database.value(f"SELECT count(*) FROM {OLD_SCHEMA}.{table}") for table in promised}

    def require_sound(self, tell: Progress) -> None:
        """Check every page, reference and value of the old store. Raises StoreDamaged. `tell`: reports progress."""
        total = len(format_4.COLUMNS_BY_FORMAT[self.number]) + 1
        tell("checking the old store", 0, total)
        with self._failures_as_damage():
            self._require_structure()
            for done, (table, columns) in enumerate(format_4.COLUMNS_BY_FORMAT[self.number].items(), 1):
                tell("checking the old store", done, total)
                self._require_values(table, columns)
            self._require_connections()

    def load_secrets(self, master: bytes, key_file: Path) -> dict[tuple[str, str], str]:
        """Return all secrets, decrypted, by table and the ID of the row.

        `key_file`: named in an error. Raises KeyWrong if no secret can be decrypted, StoreDamaged if only some can, or
        if one is not valid.
        """
        opened: dict[tuple[str, str], str] = {}
        locked: list[tuple[str, str]] = []
        for table, name, column in SEALED_COLUMNS:
            sql = f"SELECT {name}, {column} FROM {OLD_SCHEMA}.{table} WHERE {column} IS NOT NULL"
            for row, sealed in self.database.rows(sql):
                found = unseal_secret(master, bytes(sealed), table=table, row=row, column=column)
                if found is None:
                    locked.append((table, row))
                else:
                    opened[table, row] = found
        if locked and not opened:
            raise KeyWrong(file=key_file, store=self.file)
        if locked:
            raise self._damage_error("the secret of {} {} cannot be decrypted", *locked[0])
        self._require_passwords(opened)
        return opened

    def _require_structure(self) -> None:
        if (told := self.database.value(f"PRAGMA {OLD_SCHEMA}.quick_check(1)")) != "ok":
            raise self._damage_error("SQLite reports: {}", told)
        for table, columns in format_4.COLUMNS_BY_FORMAT[self.number].items():
            there = {row[1] for row in self.database.rows(f"PRAGMA {OLD_SCHEMA}.table_info({table})")}
            if not there:
                raise self._damage_error("its table {} is missing", table)
            if gone := next((column for column in columns if column not in there), None):
                raise self._damage_error("column {} of its table {} is missing", gone, table)
        if found := self.database.row(f"PRAGMA {OLD_SCHEMA}.foreign_key_check"):
            raise self._damage_error("row {1} of its table {0} refers to a missing row of {2}", *found[:3])

    def _require_values(self, table: str, columns: Mapping[str, str]) -> None:
        conditions = ((column, condition.format(column)) for column, condition in columns.items())
        wrong = " ".join(f"WHEN NOT coalesce(({condition}), 0) THEN '{name}'" for name, condition in conditions)
        read = (column for column, condition in columns.items() if condition not in _BLOB_CONDITIONS)
        name = "rowid" if table in _TABLES_WITHOUT_NAMES else _NAME_COLUMNS.get(table, "id")
        sql = (
            f"SELECT rowid, {name}, CASE {wrong} END, {', '.join(read)} FROM {OLD_SCHEMA}.{table} WHERE rowid > ?"
            " ORDER BY rowid LIMIT ?"
        )
        after = -(1 << 62)
        while batch := self._read_rows(table, sql, (after, _ROWS_AT_ONCE)):
            after = batch[-1][0]
            for row in batch:
                if row[2] is not None:
                    raise self._damage_error("{} of {} in its table {} is not valid", row[2], row[1], table)

    def _read_rows(self, table: str, sql: str, values: tuple[int, ...]) -> list[Row]:
        try:
            return self.database.rows(sql, values)
        except UnicodeDecodeError as error:
            raise self._damage_error("a text in its table {} is not valid UTF-8", table) from error

    def _require_connections(self) -> None:
        sql = f"SELECT id, connection FROM {OLD_SCHEMA}.accounts WHERE provider = 'imap'"
        for row, connection in self.database.rows(sql):
            self._require_shape("connection", row, connection, _OldServers)

    def _require_passwords(self, opened: Mapping[tuple[str, str], str]) -> None:
        for row, provider in self.database.rows(f"SELECT id, provider FROM {OLD_SCHEMA}.accounts"):
            shape = _OldPasswords if provider == "imap" else dict[str, str]
            self._require_shape("secret", row, opened["accounts", row], shape)

    def _require_shape(self, what: str, row: str, text: str, shape: Any) -> None:
        try:
            decode_json(text, shape)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            raise self._damage_error("the {} of {} in its table accounts is not valid", what, row) from error

    @contextmanager
    def _failures_as_damage(self) -> Iterator[None]:
        try:
            yield
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise StoreDamaged(file=self.file, reason="one of its pages cannot be read") from error
        except (apsw.SQLError, UnicodeDecodeError) as error:  # a schema that cannot be queried
            raise StoreDamaged(file=self.file, reason="its tables do not match its format") from error

    def _damage_error(self, reason: str, *named: object) -> StoreDamaged:
        return StoreDamaged(file=self.file, reason=reason.format(*named))


@contextmanager
def attach_old_store(database: Database, file: Path, place: str | None = None) -> Iterator[OldStore]:
    """Yield the old store in `file`, attached to this connection and locked. When the block ends, the connection is
    closed.

    `place`: a URI for SQLite to use instead of the path. Raises StoreInUse if another process has the store open,
    StoreDamaged, StoreNewer and StoreUnusable.
    """
    had_log = wal_path(file).exists()
    try:
        yield _attach_old(database, file, place or os.fspath(file))
    finally:
        # SQLite has created an empty one; it is removed before another process may open the file.
        if not had_log and place is None:
            wal_path(file).unlink(missing_ok=True)
        database.close_without_checkpoint()


def _attach_old(database: Database, file: Path, place: str) -> OldStore:
    if (left := file.with_name(file.name + "-journal")).exists():
        raise StoreDamaged(file=file, reason=f"{left.name} is beside it, and no release leaves such a file")
    require_complete(file)
    # Without the name of a database, this applies to those attached from now on: their log is read without an index
    # file, and no other process may have them open.
    database.rows("PRAGMA locking_mode = exclusive")
    database.disable_checkpoints()  # SQLite at once closes a file that it cannot attach.
    try:
        database.rows(f"ATTACH DATABASE ? AS {OLD_SCHEMA} KEY ''", (place,))
        number = int(database.value(f"PRAGMA {OLD_SCHEMA}.user_version"))
    except apsw.BusyError as error:
        raise StoreInUse(holder="", folder=file.parent) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise StoreDamaged(file=file, reason="its first pages cannot be read") from error
    require_plain_format(file, number)
    for name, query in format_4.format_4_views(number).items():
        database.rows(f"CREATE TEMP VIEW {name} AS {query}")
    return OldStore(file, number, database)


def require_not_in_use(file: Path) -> None:
    """Raise StoreInUse if another process has the database open with SQLite. This process must not have it open."""
    pending = 0x40000000  # the bytes that SQLite locks: https://sqlite.org/src/file/src/os.h
    with file.open("r+b") as handle:
        if not lock_bytes(handle.fileno(), pending, 512):
            raise StoreInUse(holder="", folder=file.parent)


def file_state(file: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return a value that changes when a database or its log is written. An empty log is the same as none."""
    return tuple(
        (found.st_size, found.st_mtime_ns) if (found := _stat(path)) is not None and found.st_size else None
        for path in (file, wal_path(file))
    )


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None
