"""Uploads: files that members send before the messages that they attach them to.

    linked ---.                         a link was given, and the file has not come yet
              |--> writing --> complete --> used by a delivery
    (none) ---'       `--> linked or (none), if it fails

A file is stored in chunks, each written in a transaction of its own, so that other writers hardly wait. An upload ends
with its row: an hour after it came, or when an answer shows the delivery that uses it. If that delivery is withdrawn,
which frees its idempotency key, the upload is free again as well. The chunks of ended uploads are deleted in the
background.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from mailbox_appliance.clock import Clock, from_millis, to_millis, to_timestamp
from mailbox_appliance.errors import NotFound, UploadLinkOver, UploadsFull
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.messages import Upload
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.attachment_cache import in_chunks
from mailbox_appliance.store.database import Database, Row

#: The time for which an upload is kept, and for which a link takes a file.
UPLOAD_KEPT, LINK_KEPT = timedelta(hours=1), timedelta(minutes=10)
#: Bytes and number of all uploads of a member.
MOST_BYTES, MOST_UPLOADS = 200 << 20, 500
_CHUNKS_AT_ONCE = 2
# Seconds after each chunk, which limits uploads to 16 MB/s together: without a pause, writing, receiving and deleting
# keep two processors busy, and other requests take four times as long.
_PAUSE = 0.008

_SELECT = "SELECT id, filename, mime_type, size, sha256, expires_at, number FROM uploads WHERE "
_CURRENT = "expires_at > :now AND used_by IS NULL"
# An API key has no access to what other keys of its member have uploaded.
_OWN = """
id = :id AND member_id = :member AND state <> 'writing'
  AND (credential_kind = 'session' OR :kind = 'session' OR credential_id = :credential)"""
_USE = """
UPDATE uploads SET used_by = :operation WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'complete'
  AND used_by IS NULL AND expires_at > :now"""
_LEFT_CHUNKS = "upload_chunks WHERE upload NOT IN (SELECT number FROM uploads) LIMIT"
_DELETE_CHUNKS = f"DELETE FROM upload_chunks WHERE rowid IN (SELECT rowid FROM {_LEFT_CHUNKS} {_CHUNKS_AT_ONCE})"


@dataclass(frozen=True)
class Uploader:
    """The credential that uploads or uses a file, and its member."""

    member_id: str
    kind: Literal["session", "api_key"]
    credential_id: str


@dataclass(frozen=True)
class StoredUpload:
    """A complete upload and its content, which is read from the store piece by piece."""

    upload: Upload
    content: Content


@dataclass(frozen=True)
class LinkedUpload:
    """A link for a file that has not come yet: who was given it, and the name of the file."""

    number: int
    uploader: Uploader
    filename: str


class Uploads:
    """The uploads in the store. Any thread may use it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def add(self, uploader: Uploader, filename: str, mime_type: str, content: Content) -> Upload:
        """Store a file; it is on the disk when this returns. If that fails, nothing is left of it.

        Raises UploadsFull if the member has too many uploads.
        """
        with self._database.transaction():
            self._require_room(uploader.member_id, len(content))
            number = self._insert(new_id("upl"), uploader, filename, mime_type, "writing", size=len(content))
        try:
            return self._write(number, content)
        except BaseException:
            self._delete_chunks(number, "DELETE FROM uploads WHERE number = ?")
            raise

    def add_link(self, uploader: Uploader, filename: str, mime_type: str, token_hash: str) -> Upload:
        """Store a link to which a file may be sent, and return the upload that it becomes.

        `token_hash`: of the secret in the link. Raises UploadsFull if the member has too many uploads.
        """
        with self._database.transaction(durable=True):
            self._require_room(uploader.member_id, 0)
            upload_id = new_id("upl")
            number = self._insert(upload_id, uploader, filename, mime_type, "linked", token_hash=token_hash)
        return _to_upload(self._database.rows(_SELECT + "number = ?", (number,))[0])

    def get_link(self, token_hash: str) -> LinkedUpload:
        """Return a link that takes a file now. Raises UploadLinkOver if it was used, or has expired."""
        row = self._database.row(
            "SELECT number, member_id, credential_kind, credential_id, filename FROM uploads"
            " WHERE token_hash = ? AND state = 'linked' AND expires_at > ?",
            (token_hash, self._now()),
        )
        if row is None:
            raise UploadLinkOver
        return LinkedUpload(row[0], Uploader(*row[1:4]), row[4])

    def fill_link(self, linked: LinkedUpload, content: Content) -> Upload:
        """Store the file that was sent to a link. If that fails, nothing is left of it, and the link can be used again.

        Raises UploadLinkOver if another request was quicker, and UploadsFull if the member has too many uploads.
        """
        with self._database.transaction():
            self._require_room(linked.uploader.member_id, len(content), is_counted=True)
            sql = "UPDATE uploads SET state = 'writing', size = ? WHERE number = ? AND state = 'linked'"
            if not self._database.change(sql, (len(content), linked.number)):
                raise UploadLinkOver
        try:
            return self._write(linked.number, content)
        except BaseException:
            self._delete_chunks(linked.number, "UPDATE uploads SET state = 'linked', size = 0 WHERE number = ?")
            raise

    def get(self, uploader: Uploader, upload_id: str) -> StoredUpload:
        """Return a complete upload that this credential has access to. Raises NotFound."""
        row = self._database.row(
            f"{_SELECT} state = 'complete' AND {_CURRENT} AND {_OWN}", self._values(uploader, upload_id)
        )
        if row is None:
            raise NotFound(what="upload")
        return StoredUpload(_to_upload(row), _StoredContent(self._database, row[6], row[3]))

    def delete(self, uploader: Uploader, upload_id: str) -> None:
        """Delete an upload, or a link whose file has not come yet. Raises NotFound."""
        with self._database.transaction():
            deleted = self._database.change(
                f"DELETE FROM uploads WHERE {_CURRENT} AND {_OWN}", self._values(uploader, upload_id)
            )
        if not deleted:
            raise NotFound(what="upload")

    def delete_used(self, upload_ids: Sequence[str]) -> None:
        """Delete the uploads that a saved draft contains."""
        if upload_ids:
            with self._database.transaction():
                sql = "DELETE FROM uploads WHERE id IN (SELECT value FROM json_each(?))"
                self._database.change(sql, (json.dumps(upload_ids),))

    def delete_interrupted(self) -> None:
        """Delete uploads that were being stored when the process ended. Call it before any upload begins."""
        if self._database.value("SELECT 1 FROM uploads WHERE state = 'writing'"):
            with self._database.transaction():
                self._database.change("DELETE FROM uploads WHERE state = 'writing'")

    def delete_some(self) -> bool:
        """Delete expired uploads, and 256 KiB of the content of ended ones. Returns False if nothing is left."""
        expired, values = "uploads WHERE expires_at <= ? AND state <> 'writing'", (self._now(),)
        if self._database.value(f"SELECT 1 FROM {expired}", values):
            with self._database.transaction():
                self._database.change(f"DELETE FROM {expired}", values)
        if not self._database.value(f"SELECT 1 FROM {_LEFT_CHUNKS} 1"):
            return False
        with self._database.transaction():
            return bool(self._database.change(_DELETE_CHUNKS))

    def _insert(
        self,
        upload_id: str,
        uploader: Uploader,
        filename: str,
        mime_type: str,
        state: str,
        *,
        size: int = 0,
        token_hash: str | None = None,
    ) -> int:
        kept = LINK_KEPT if state == "linked" else UPLOAD_KEPT
        sql = (
            "INSERT INTO uploads (id, member_id, credential_kind, credential_id, state, token_hash, filename,"
            " mime_type, size, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING number"
        )
        expires = to_millis(self._clock.now() + kept)
        who = (uploader.member_id, uploader.kind, uploader.credential_id)
        found = self._database.value(sql, (upload_id, *who, state, token_hash, filename, mime_type, size, expires))
        return int(found)

    def _write(self, number: int, content: Content) -> Upload:
        digest = hashlib.sha256()
        for position, chunk in enumerate(in_chunks(content.pieces())):
            digest.update(chunk)
            with self._database.transaction():
                self._require_row(number)
                self._database.change("INSERT INTO upload_chunks VALUES (?, ?, ?)", (number, position, chunk))
            self._database.release_memory()
            time.sleep(_PAUSE)
        with self._database.transaction(durable=True):
            self._require_row(number)
            self._database.change(
                "UPDATE uploads SET state = 'complete', sha256 = ?, expires_at = ? WHERE number = ?",
                (digest.hexdigest(), to_millis(self._clock.now() + UPLOAD_KEPT), number),
            )
        return _to_upload(self._database.rows(_SELECT + "number = ?", (number,))[0])

    def _require_row(self, number: int) -> None:
        """Raise NotFound if the member was deleted."""
        if self._database.value("SELECT 1 FROM uploads WHERE number = ?", (number,)) is None:
            raise NotFound(what="member")

    def _delete_chunks(self, number: int, sql: str) -> None:
        with self._database.transaction():
            self._database.change("DELETE FROM upload_chunks WHERE upload = ?", (number,))
            self._database.change(sql, (number,))

    def _require_room(self, member_id: str, size: int, *, is_counted: bool = False) -> None:
        """`is_counted`: it is one of the uploads already, as a link whose file comes."""
        sql = f"SELECT count(*), total(size) FROM uploads WHERE member_id = :member AND {_CURRENT}"
        ((count, taken),) = self._database.rows(sql, {"member": member_id, "now": self._now()})
        if taken + size > MOST_BYTES:
            raise UploadsFull(limit=f"{MOST_BYTES >> 20} MiB")
        if count >= MOST_UPLOADS + is_counted:
            raise UploadsFull(limit=f"{MOST_UPLOADS} files")

    def _values(self, uploader: Uploader, upload_id: str) -> dict[str, object]:
        who = {"member": uploader.member_id, "kind": uploader.kind, "credential": uploader.credential_id}
        return {"id": upload_id, "now": self._now(), **who}

    def _now(self) -> int:
        return to_millis(self._clock.now())


def use_uploads(database: Database, upload_ids: Sequence[str], operation_id: str, now: int) -> None:
    """Record that a delivery uses these uploads. Call it inside the transaction that accepts the delivery.

    `now`: milliseconds since 1970. Raises NotFound if one of them was used or deleted before.
    """
    values = {"operation": operation_id, "ids": json.dumps(upload_ids), "now": now}
    if database.change(_USE, values) < len(set(upload_ids)):
        raise NotFound(what="upload")


class _StoredContent(Content):
    """The content of an upload. Reading it raises NotFound after the upload was deleted."""

    def __init__(self, database: Database, number: int, size: int) -> None:
        super().__init__()
        self._database, self._number, self._size = database, number, size

    def pieces(self) -> Iterator[bytes]:
        sql, given, position = "SELECT content FROM upload_chunks WHERE upload = ? AND position = ?", 0, 0
        while given < self._size:
            chunk: bytes | None = self._database.value(sql, (self._number, position))
            if chunk is None:
                raise NotFound(what="upload")
            self._database.release_memory()  # otherwise each connection keeps pages that are not read again
            position, given = position + 1, given + len(chunk)
            yield chunk


def _to_upload(row: Row) -> Upload:
    return Upload(
        upload_id=row[0],
        filename=row[1],
        mime_type=row[2],
        size_bytes=row[3],
        sha256=row[4] or "",
        expires_at=to_timestamp(from_millis(row[5])),
    )
