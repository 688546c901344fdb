"""Links to attachments: for whoever has them, for 5 minutes, as far as the one who asked for them still may."""

import logging
from base64 import urlsafe_b64decode
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.settings import Value
from tests.checked_client import HOST, Answer, CheckedClient
from tests.operations.filled import FilledMailbox, add_key, add_member, everything_stored, suspend
from tests.operations.test_contents import with_file
from tests.servers.fake_clock import FakeClock

CONTENT = bytes(range(256)) * 40
ROOT = "/api/v1"


@dataclass
class File:
    """An attachment that is here, of a mailbox of Ada's."""

    client: CheckedClient
    box: FilledMailbox
    path: str

    def link(self, token: str | None = None) -> str:
        """A new link, as a path below `/api/v1`."""
        url = str(self.client.ask("POST", f"{self.path}/download-link", token=token).data["url"])
        return url.partition(ROOT)[2]


@pytest.fixture
def file(ada: CheckedClient, timed: Appliance) -> File:
    box = FilledMailbox(timed, ada.member["id"])
    (message,) = box.deliver(with_file(CONTENT, "Rechnung März.bin"))
    (listed,) = ada.ask("GET", f"/accounts/{box.id}/messages/{message}").data["attachments"]
    wanted = timed.attachment_fetcher.request_attachment(box.id, message, listed["id"])
    timed.store.part_cache.put(wanted.message.number, wanted.part, iter([CONTENT]), limit=1 << 20).close()
    return File(ada, box, f"/accounts/{box.id}/messages/{message}/attachments/{listed['id']}")


def follow(client: CheckedClient, link: str, method: str = "GET") -> Answer:
    return client.ask(method, link, token="")


def test_a_link_gives_the_file_to_whoever_has_it(file: File, timed: Appliance) -> None:
    made = file.client.ask("POST", f"{file.path}/download-link", {})
    facts = {"filename": "Rechnung März.bin", "mimeType": "application/octet-stream", "sizeBytes": len(CONTENT)}
    assert made.status == 201
    assert made.data == facts | {"url": made.data["url"], "expiresAt": "2026-01-02T03:09:05.678Z"}
    assert made.data["url"].startswith(f"{timed.local_url}/api/v1/downloads/")
    assert len(made.data["url"]) < 400
    link = made.data["url"].partition(ROOT)[2]
    for _ in range(2):  # as often as one likes
        answer = follow(file.client, link)
        assert (answer.content, answer.headers["content-type"]) == (CONTENT, "application/octet-stream")
        assert answer.headers["content-disposition"].startswith('attachment; filename="Rechnung M_rz.bin"')
    assert follow(file.client, link, "HEAD").headers["content-length"] == str(len(CONTENT))
    assert link.rpartition("/")[2] not in everything_stored(timed)


def test_a_link_is_good_for_five_minutes(file: File, clock: FakeClock) -> None:
    link = file.link()
    clock.advance(299.999)
    assert follow(file.client, link).status == 200
    clock.advance(0.001)
    assert follow(file.client, link).refusal == (404, "not_found")


def test_what_was_not_made_here_is_not_found(file: File, tmp_path: Path, clock: FakeClock) -> None:
    link = file.link()
    base, _, token = link.rpartition("/")
    changed = [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in range(len(token))]
    # A signature of 16 bytes is not found by trying, and what it is of stands behind it.
    assert msgspec.msgpack.decode(urlsafe_b64decode(token + "==")[16:])[3] in file.path
    odd = [
        *changed,
        f"{token}=",
        f"{token}==",
        token[:5] + "." + token[5:],
        token[:-1],
        token + "A",
        "A" * 24,
        "x",
        "%00",
        "%C3%A4",
        "=",
        token * 20,
        "../me",
        "A" * 4097,
    ]
    # The last character of base64 may have bits that say nothing.
    found = {each for each in odd if follow(file.client, f"{base}/{each}").status == 200}
    assert found <= {changed[-1]}
    assert {follow(file.client, f"{base}/{each}").refusal for each in odd if each not in found} == {(404, "not_found")}
    other = Appliance(tmp_path / "other", clock=clock)
    try:
        assert follow(CheckedClient(other), link).refusal == (404, "not_found")
    finally:
        other.stop()


def test_a_link_is_signed_with_sixteen_bytes(file: File) -> None:
    token = file.link().rpartition("/")[2]
    told = msgspec.msgpack.decode(urlsafe_b64decode(token + "==")[16:])
    assert (len(told), told[2]) == (6, file.box.id)


def test_a_link_survives_a_restart(file: File, timed: Appliance, clock: FakeClock) -> None:
    link, folder = file.link(), timed.folder
    timed.stop()
    again = Appliance(folder, clock=clock)
    try:
        assert follow(CheckedClient(again), link).content == CONTENT
    finally:
        again.stop()


def test_a_link_ends_with_what_it_was_asked_for_with(file: File, timed: Appliance) -> None:
    laptop = file.client.log_in(device="laptop")
    key_id, key = add_key(timed, file.client.member["id"], "mail.read")
    of_laptop, of_key = file.link(laptop.token), file.link(key)
    assert (follow(laptop, of_laptop).status, follow(laptop, of_key).status) == (200, 200)
    assert laptop.ask("POST", "/auth/logout").status == 200
    assert file.client.ask("DELETE", f"/me/api-keys/{key_id}").status == 200
    for link in (of_laptop, of_key):
        assert follow(laptop, link).refusal == (404, "not_found")


def test_the_rights_are_looked_at_again(file: File, timed: Appliance) -> None:
    bob = add_member(timed, "bob")
    file.box.grant(bob)
    key_id, key = add_key(timed, bob, "mail.read", accounts=[file.box.id])
    link, database = file.link(key), timed.store.database
    with database.transaction():
        database.change("UPDATE api_keys SET capabilities = '[\"mail.send\"]' WHERE id = ?", (key_id,))
    assert follow(file.client, link).refusal == (403, "permission_denied")
    with database.transaction():
        database.change("UPDATE api_keys SET capabilities = '[\"mail.read\"]' WHERE id = ?", (key_id,))
    assert follow(file.client, link).status == 200
    with database.transaction():
        database.change("DELETE FROM account_grants")
    assert follow(file.client, link).refusal == (404, "not_found")
    suspend(timed, bob)
    assert follow(file.client, link).refusal == (403, "member_suspended")


def test_no_link_is_made_for_what_is_not_there(file: File) -> None:
    none = file.path.rpartition("/")[0] + "/att_none/download-link"
    assert file.client.ask("POST", none).refusal == (404, "not_found")


def test_a_link_leads_where_the_operator_says_and_is_in_no_log(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    flags: dict[str, Value] = {"server.public_url": "https://mail.example.org/box/", "log.requests": True}
    made = Appliance(tmp_path / "data", settings.load(None, {}, flags), clock)
    try:
        ada = CheckedClient(made, HOST).set_up()
        box = FilledMailbox(made, ada.member["id"])
        (message,) = box.deliver(with_file(CONTENT))
        (listed,) = ada.ask("GET", f"/accounts/{box.id}/messages/{message}").data["attachments"]
        caplog.set_level(logging.INFO)
        path = f"/accounts/{box.id}/messages/{message}/attachments/{listed['id']}/download-link"
        url = ada.ask("POST", path).data["url"]
        assert url.startswith("https://mail.example.org/box/api/v1/downloads/")
        token = url.rpartition("/")[2]
        # There is no mail server, and the file is not here.
        assert follow(ada, f"/downloads/{token}").refusal == (503, "provider_unavailable")
        said = [record.__dict__ for record in caplog.records]
        assert [one.get("route") for one in said][-1] == "GET /api/v1/downloads/{token}"
        assert token not in repr(said)
    finally:
        made.stop()
