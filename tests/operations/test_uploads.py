"""Uploads: who may use them and how often, their limits, links to upload to, and the messages that contain them."""

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email import message_from_bytes, policy
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.content import Content
from mailbox_appliance.store import uploads
from mailbox_appliance.store.attachment_cache import CHUNK
from mailbox_appliance.store.uploads import Uploader
from tests.checked_client import Answer, CheckedClient
from tests.operations.connected import ConnectedMailbox
from tests.operations.filled import FilledMailbox, add_key, add_member, everything_stored, suspend
from tests.servers.dovecot import MailServer
from tests.servers.fake_clock import FakeClock

MIB = 1 << 20
FILE = bytes(range(256)) * 2000
SEND, DRAFTS = "mail.send", "mail.drafts"


def upload(client: CheckedClient, content: bytes = FILE, query: str = "?filename=plan.pdf", **more: Any) -> Answer:
    return client.ask("POST", f"/uploads{query}", content, **more)


def upload_id(client: CheckedClient, content: bytes = FILE, **more: Any) -> str:
    return str(upload(client, content, **more).data["uploadId"])


def link(client: CheckedClient, body: object = None, **more: Any) -> tuple[str, str]:
    """The path of a new link below `/api/v1`, and the ID that its upload gets."""
    made = client.ask("POST", "/uploads/links", body or {}, **more).data
    return made["url"].partition("/api/v1")[2], made["uploadId"]


def put(client: CheckedClient, path: str, content: bytes = FILE) -> Answer:
    return client.ask("PUT", path, content, token="")


def chunks_left(appliance: Appliance) -> int:
    return int(appliance.store.database.value("SELECT count(*) FROM upload_chunks"))


# --- the upload itself ---


def test_an_upload_is_told_and_kept_for_an_hour(ada: CheckedClient, timed: Appliance, clock: FakeClock) -> None:
    made = upload(ada, headers={"Content-Type": "text/plain"})
    assert (made.status, made.data) == (
        201,
        {
            "uploadId": made.data["uploadId"],
            "filename": "plan.pdf",
            "mimeType": "application/pdf",
            "sizeBytes": len(FILE),
            "sha256": hashlib.sha256(FILE).hexdigest(),
            "expiresAt": "2026-01-02T04:04:05.678Z",
        },
    )
    assert made.data["uploadId"].startswith("upl_")
    path = f"/uploads/{made.data['uploadId']}"
    clock.advance(3599.999)
    assert ada.ask("GET", path).data == made.data
    clock.advance(0.001)
    assert ada.ask("GET", path).refusal == (404, "not_found")
    assert chunks_left(timed) == -(-len(FILE) // CHUNK)
    timed.store.cleaner.delete_uploads()
    assert (chunks_left(timed), timed.store.database.rows("SELECT * FROM uploads")) == (0, [])


NAMES = [
    ("?filename=a.bin&mimeType=image/png", "a.bin", "image/png"),
    ("?filename=a.unknown", "a.unknown", "application/octet-stream"),
    ("?filename=a.tar.gz", "a.tar.gz", "application/octet-stream"),
    ("?filename=Rechnung%20M%C3%A4rz.pdf", "Rechnung März.pdf", "application/pdf"),
]


@pytest.mark.parametrize(("query", "filename", "mime_type"), NAMES)
def test_name_and_type_are_given_or_derived(ada: CheckedClient, query: str, filename: str, mime_type: str) -> None:
    made = upload(ada, b"", query).data
    assert (made["filename"], made["mimeType"], made["sizeBytes"]) == (filename, mime_type, 0)


WRONG = [
    ("", "query:filename"),
    ("?filename=", "query:filename"),
    ("?filename=a%0D%0Ab", "query:filename"),
    ("?filename=a&mimeType=nonsense", "query:mimeType"),
    ("?filename=a&mimeType=multipart/mixed", "query:mimeType"),
    ("?filename=a&name=b", "query:name"),
]


@pytest.mark.parametrize(("query", "place"), WRONG)
def test_what_is_wrong_is_named_and_nothing_is_kept(ada: CheckedClient, query: str, place: str) -> None:
    answer = upload(ada, FILE, query)
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place])
    assert ada.appliance.store.database.rows("SELECT * FROM uploads") == []


def test_a_file_has_at_most_25_mib(ada: CheckedClient) -> None:
    assert upload(ada, bytes(25 * MIB)).status == 201
    answer = upload(ada, bytes(25 * MIB + 1))
    assert (answer.refusal, answer.message) == (
        (413, "body_too_large"),
        "The file is larger than the limit of 25 MiB for this endpoint.",
    )


def test_the_uploads_of_a_member_have_200_mib_together(
    ada: CheckedClient, timed: Appliance, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_BYTES", 3 * len(FILE))
    monkeypatch.setattr(uploads, "MOST_UPLOADS", 4)
    made = [upload_id(ada) for _ in range(3)]
    full = upload(ada, b"1")
    assert full.refusal == (409, "conflict")
    assert full.message.endswith("Nothing was changed.")
    path, _ = link(ada)
    assert put(ada, path).refusal == (409, "conflict")
    assert ada.ask("POST", "/uploads/links", {}).refusal == (409, "conflict")  # five
    _, token = add_key(timed, add_member(timed, "bob"), SEND)
    assert upload(ada, token=token).status == 201  # of another member
    assert ada.ask("DELETE", f"/uploads/{made[0]}").data == {"id": made[0], "deleted": True}
    assert put(ada, path).status == 201
    clock.advance(3600)
    assert upload(ada).status == 201


def test_uploads_leave_the_disk_its_reserve(ada: CheckedClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailbox_appliance.store.files.free_bytes", lambda _: 64 * MIB)
    answer = upload(ada)
    assert answer.refusal == (409, "conflict")
    assert "disk" in answer.message
    assert ada.appliance.store.database.rows("SELECT * FROM uploads") == []


class _Broken(Content):
    """Content whose reading fails after some chunks, as on a disk that is full."""

    def __init__(self) -> None:
        super().__init__()
        self._size = 4 * CHUNK

    def pieces(self) -> Iterator[bytes]:
        yield bytes(3 * CHUNK)
        raise OSError("no space")


def test_what_cannot_be_stored_leaves_nothing(ada: CheckedClient, timed: Appliance) -> None:
    who = Uploader(ada.member["id"], "session", "ses_1")
    with pytest.raises(OSError, match="no space"):
        timed.store.uploads.add(who, "a", "b/c", _Broken())
    assert (chunks_left(timed), timed.store.database.rows("SELECT * FROM uploads")) == (0, [])
    path, _ = link(ada)
    linked = timed.store.uploads.get_link(hashlib.sha256(path.rpartition("/")[2].encode()).hexdigest())
    with pytest.raises(OSError, match="no space"):
        timed.store.uploads.fill_link(linked, _Broken())
    assert chunks_left(timed) == 0
    assert put(ada, path).status == 201  # a link whose file did not arrive can be used again


def test_what_a_killed_process_was_storing_is_deleted(ada: CheckedClient, timed: Appliance) -> None:
    database, kept = timed.store.database, upload_id(ada)
    gone = upload_id(ada)
    with database.transaction():
        database.change("UPDATE uploads SET state = 'writing', sha256 = NULL WHERE id = ?", (gone,))
    timed.store.uploads.delete_interrupted()  # as when a store is opened
    timed.store.cleaner.delete_uploads()
    assert [row[0] for row in database.rows("SELECT id FROM uploads")] == [kept]
    assert chunks_left(timed) == -(-len(FILE) // CHUNK)


def test_eight_at_once_are_stored_unmixed(ada: CheckedClient) -> None:
    files = [os.urandom(3 * CHUNK + number) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda file: upload(ada, file).data, files))
    assert [one["sha256"] for one in made] == [hashlib.sha256(file).hexdigest() for file in files]
    found = [ada.appliance.store.uploads.get(_session(ada), one["uploadId"]).content.read() for one in made]
    assert found == files


def _session(client: CheckedClient) -> Uploader:
    return Uploader(client.member["id"], "session", "any")


# --- rights ---


def test_only_its_member_and_its_key_have_access(ada: CheckedClient, timed: Appliance) -> None:
    keys = {name: add_key(timed, ada.member["id"], SEND)[1] for name in ("first", "second")}
    bob = add_key(timed, add_member(timed, "bob"), SEND, DRAFTS)[1]
    of_session, of_key = upload_id(ada), upload_id(ada, token=keys["first"])
    seen = {
        name: [ada.ask("GET", f"/uploads/{one}", token=token).status for one in (of_session, of_key)]
        for name, token in {"session": ada.token, **keys, "bob": bob}.items()
    }
    assert seen == {"session": [200, 200], "first": [200, 200], "second": [200, 404], "bob": [404, 404]}
    for token in (bob, keys["second"]):
        assert ada.ask("DELETE", f"/uploads/{of_key}", token=token).refusal == (404, "not_found")


@pytest.mark.parametrize(("capabilities", "status"), [((SEND,), 201), ((DRAFTS,), 201), (("mail.read",), 403)])
def test_uploads_need_drafts_or_send(
    ada: CheckedClient, timed: Appliance, capabilities: tuple[str, ...], status: int
) -> None:
    _, token = add_key(timed, ada.member["id"], *capabilities)
    assert upload(ada, token=token).status == status
    assert ada.ask("POST", "/uploads/links", {}, token=token).status == status


# --- links ---


def test_a_link_takes_one_file_without_a_credential(ada: CheckedClient, timed: Appliance) -> None:
    made = ada.ask("POST", "/uploads/links", {"filename": "plan.pdf"})
    assert (made.status, made.data["expiresAt"]) == (201, "2026-01-02T03:14:05.678Z")
    assert made.data["url"].startswith(f"{timed.local_url}/api/v1/uploads/links/")
    assert len(json.dumps(made.data)) < 400
    path, found = made.data["url"].partition("/api/v1")[2], f"/uploads/{made.data['uploadId']}"
    assert ada.ask("GET", found).refusal == (404, "not_found")  # no file has come yet
    assert path.rpartition("/")[2] not in everything_stored(timed)
    sent = put(ada, path)
    assert (sent.status, sent.data["uploadId"]) == (201, made.data["uploadId"])
    assert (sent.data["filename"], sent.data["mimeType"]) == ("plan.pdf", "application/pdf")
    assert sent.data["expiresAt"] == "2026-01-02T04:04:05.678Z"
    assert ada.ask("GET", found).data == sent.data
    assert put(ada, path).refusal == (404, "not_found")
    ada.ask("DELETE", found)
    assert put(ada, path).refusal == (404, "not_found")


def test_a_link_ends(ada: CheckedClient, timed: Appliance, clock: FakeClock) -> None:
    bob = add_member(timed, "bob")
    key, token = add_key(timed, bob, SEND)
    expired, deleted, revoked = (link(ada, token=token)[0] for _ in range(3))
    upload_of_deleted = timed.store.database.rows("SELECT id FROM uploads ORDER BY number")[1][0]
    assert ada.ask("DELETE", f"/uploads/{upload_of_deleted}", token=token).status == 200
    assert put(ada, deleted).refusal == (404, "not_found")
    clock.advance(599.999)
    narrowed, suspended = link(ada, token=token)[0], link(ada, token=token)[0]
    assert put(ada, expired).status == 201
    clock.advance(0.001)
    assert put(ada, revoked).refusal == (404, "not_found")
    with timed.store.database.transaction():
        timed.store.database.change("UPDATE api_keys SET capabilities = '[\"mail.read\"]' WHERE id = ?", (key,))
    assert put(ada, narrowed).refusal == (403, "permission_denied")
    suspend(timed, bob)
    assert put(ada, suspended).refusal == (403, "member_suspended")
    with timed.store.database.transaction():
        timed.store.database.change("UPDATE api_keys SET revoked_at = '2026' WHERE id = ?", (key,))
    assert put(ada, suspended).refusal == (404, "not_found")


def test_two_files_at_once_for_one_link(ada: CheckedClient) -> None:
    path, _ = link(ada)
    with ThreadPoolExecutor(4) as pool:
        statuses = sorted(pool.map(lambda _: put(ada, path, FILE * 4).status, range(4)))
    assert statuses == [201, 404, 404, 404]


@pytest.mark.parametrize("token", ["x", "A" * 43, "%00", "upl_1"])
def test_other_links_are_not_found(ada: CheckedClient, token: str) -> None:
    link(ada)
    assert put(ada, f"/uploads/links/{token}").refusal == (404, "not_found")


# --- messages that contain uploads ---


@pytest.fixture
def box(ada: CheckedClient, timed: Appliance) -> FilledMailbox:
    return FilledMailbox(timed, ada.member["id"])


def message(*attachments: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"body": {"text": "Hello"}, "to": [{"email": "bob@example.test"}], "subject": "Plans"}
    return {**body, "attachments": attachments, **more}


INVALID = [
    ({"content": b64encode(b"a").decode(), "uploadId": "upl_1", "filename": "a", "mimeType": "a/b"}, 400, "uploadId"),
    ({"filename": "a", "mimeType": "a/b"}, 400, "content"),
    ({"content": b64encode(b"a").decode(), "mimeType": "a/b"}, 400, "filename"),
    ({"content": b64encode(b"a").decode(), "filename": "a"}, 400, "mimeType"),
    ({}, 400, "filename"),
    ({"uploadId": "upl_1"}, 404, "uploadId"),
    ({"uploadId": ""}, 400, "uploadId"),
]


@pytest.mark.parametrize(("attachment", "status", "place"), INVALID)
@pytest.mark.parametrize("path", ["send", "send/preview", "drafts"])
def test_an_attachment_has_content_or_an_upload(
    ada: CheckedClient, box: FilledMailbox, path: str, attachment: dict[str, Any], status: int, place: str
) -> None:
    headers = {"Idempotency-Key": "k"} if path == "send" else {}
    answer = ada.ask("POST", f"/accounts/{box.id}/{path}", message(attachment), headers=headers)
    assert (answer.status, answer.places) == (status, [f"/attachments/0/{place}"])


def test_a_preview_shows_an_upload_and_does_not_use_it(ada: CheckedClient, box: FilledMailbox) -> None:
    found = upload_id(ada)
    asked = message({"uploadId": found}, {"uploadId": found, "filename": "other.txt", "mimeType": "text/plain"})
    for _ in range(2):
        shown = ada.ask("POST", f"/accounts/{box.id}/send/preview", asked).data["attachments"]
        assert [(one["filename"], one["mimeType"], one["sizeBytes"]) for one in shown] == [
            ("plan.pdf", "application/pdf", len(FILE)),
            ("other.txt", "text/plain", len(FILE)),
        ]


def test_uploads_count_toward_the_size_of_a_message(ada: CheckedClient, box: FilledMailbox) -> None:
    half = upload_id(ada, bytes(13 * MIB))
    asked = message({"uploadId": half}, {"uploadId": half})
    answer = ada.ask("POST", f"/accounts/{box.id}/send/preview", asked)
    assert (answer.refusal, answer.places) == ((400, "message_too_large"), ["/attachments"])


def test_keys_cannot_send_what_they_have_no_access_to(ada: CheckedClient, timed: Appliance, box: FilledMailbox) -> None:
    first, second = (add_key(timed, ada.member["id"], SEND)[1] for _ in range(2))
    asked = message({"uploadId": upload_id(ada, token=first)})
    for token, status in ((second, 404), (first, 200), (ada.token, 200)):
        assert ada.ask("POST", f"/accounts/{box.id}/send/preview", asked, token=token).status == status


def test_a_scheduled_send_uses_it_once_and_a_retry_shows_the_delivery(ada: CheckedClient, box: FilledMailbox) -> None:
    asked = message({"uploadId": upload_id(ada)}, sendAt="2026-01-03T00:00:00Z")
    path, headers = f"/accounts/{box.id}/send", {"Idempotency-Key": "first"}
    sent = ada.ask("POST", path, asked, headers=headers)
    assert (sent.status, sent.data["status"]) == (202, "queued")
    again = ada.ask("POST", path, asked, headers=headers)
    assert (again.status, again.data) == (202, sent.data)
    other = ada.ask("POST", path, asked, headers={"Idempotency-Key": "second"})
    assert (other.refusal, other.places) == ((404, "not_found"), ["/attachments/0/uploadId"])
    changed = message({"uploadId": "upl_other"}, sendAt="2026-01-03T00:00:00Z")
    assert ada.ask("POST", path, changed, headers=headers).refusal == (409, "idempotency_conflict")
    ada.appliance.store.cleaner.delete_uploads()
    assert chunks_left(ada.appliance) == 0


def test_a_send_that_reached_nobody_leaves_the_upload_for_its_retry(ada: CheckedClient, box: FilledMailbox) -> None:
    """The servers of this mailbox do not exist: the delivery is withdrawn, and its key is free again."""
    found = upload_id(ada)
    for _ in range(2):
        asked = message({"uploadId": found})
        answer = ada.ask("POST", f"/accounts/{box.id}/send", asked, headers={"Idempotency-Key": "k"})
        assert answer.refusal == (503, "provider_unavailable")
        assert ada.ask("GET", f"/uploads/{found}").status == 200


@pytest.fixture
def mailbox(checked_client: CheckedClient, mail_server: MailServer) -> ConnectedMailbox:
    return ConnectedMailbox(checked_client, mail_server)


def files_of(source: bytes) -> list[tuple[str | None, bytes]]:
    parsed = message_from_bytes(source, policy=policy.default)
    return [(part.get_filename(), part.get_content()) for part in parsed.iter_attachments()]


def test_what_arrives_is_what_was_uploaded(mailbox: ConnectedMailbox, mail_server: MailServer) -> None:
    client, bob = mailbox.client, mail_server.fresh_user()
    large = os.urandom(5 * MIB)
    asked = message({"uploadId": upload_id(client, large)}) | {"to": [{"email": bob}]}
    for _ in range(2):
        sent = mailbox.ask("POST", "/send", asked, headers={"Idempotency-Key": "k"})
        assert (sent.status, sent.data["status"]) == (200, "succeeded")
    (received,) = mail_server.wait_for_messages(bob, 1)
    assert files_of(received) == [("plan.pdf", large)]
    assert mailbox.ask("POST", "/send", asked, headers={"Idempotency-Key": "l"}).refusal == (404, "not_found")


def test_a_draft_uses_it_once(mailbox: ConnectedMailbox) -> None:
    client = mailbox.client
    asked = message({"uploadId": upload_id(client), "contentId": "logo@example.org"})
    made = mailbox.ask("POST", "/drafts", asked)
    assert made.status == 201
    assert mailbox.ask("POST", "/drafts", asked).refusal == (404, "not_found")
    assert mailbox.ask("PUT", f"/drafts/{made.data['id']}", asked).refusal == (404, "not_found")
    other = message({"uploadId": upload_id(client, b"other")})
    assert mailbox.ask("PUT", f"/drafts/{made.data['id']}", other).status == 200
    (source,) = mailbox.server.messages(mailbox.user, folder="Drafts")
    assert files_of(source) == [("plan.pdf", b"other")]
    assert client.appliance.store.database.rows("SELECT * FROM uploads") == []


def test_what_is_stored_cannot_be_read_without_the_key(ada: CheckedClient, timed: Appliance, tmp_path: Path) -> None:
    upload(ada, b"a rare phrase in a file" * 10_000)
    files = [file.read_bytes() for file in timed.folder.rglob("*") if file.is_file()]
    assert not any(b"a rare phrase" in content for content in files)
