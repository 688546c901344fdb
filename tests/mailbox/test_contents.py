"""Bodies and parts that are fetched on request, from unusual servers and of unusual messages."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from mailbox_appliance.errors import Unavailable, Unsupported
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mailbox import attachments as parts_module
from mailbox_appliance.mailbox.attachments import AttachmentFetcher, BodyFetcher
from mailbox_appliance.model.messages import Attachment, MessageFilter, SearchTerm
from mailbox_appliance.sync.html_readers import HtmlReaders
from tests.mailbox.rig import Rig, letter
from tests.servers.dovecot import MailServer

TEXT = b"The text that matters\r\n"
#: Without the boundary that it declares.
BROKEN = b"Subject: big\r\nContent-Type: multipart/mixed; boundary=never\r\n\r\n" + TEXT * 20_000


class Mirrored:
    """A mailbox of which only the headers are mirrored."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.parts = AttachmentFetcher(rig.store, rig.connections, rig.settings, rig.events)
        self.bodies = BodyFetcher(rig.store, rig.connections, self.parts)

    def deliver(self, source: bytes) -> str:
        """Put a message with a unique subject into the inbox; return its ID."""
        rig = self.rig
        rig.mirror()
        rig.server.deliver(rig.user, source)
        inbox = rig.store.folders.find(rig.account_id, "INBOX")
        assert inbox is not None
        rig.store.folders.set_state(inbox.number, rig.direct.examine("INBOX"))
        headers = [
            (one, parse_message(one.source)) for one in rig.direct.fetch_headers(sorted(rig.direct.fetch_flags()))
        ]
        rig.store.mailbox_writer.add_headers(inbox, headers)
        return rig.id(parse_message(source).subject)

    def fill(self, message_id: str) -> str | None:
        """Fetch the body; return its text."""
        self.bodies.ensure_body(self.rig.account_id, message_id)
        return self.rig.store.messages.get_body(self.rig.account_id, message_id).text

    def read(self, message_id: str) -> bytes:
        """Fetch the raw message."""
        return b"".join(self.parts.fetch(self.parts.request_source(self.rig.account_id, message_id)).chunks)


@pytest.fixture
def mirrored(tmp_path: Path, mail_server: MailServer) -> Iterator[Mirrored]:
    rig = Rig(tmp_path / "rig", mail_server)
    yield Mirrored(rig)
    rig.close()


def test_a_large_message_without_its_boundary_shows_what_there_is(mirrored: Mirrored) -> None:
    text = mirrored.fill(mirrored.deliver(BROKEN))
    assert text is not None
    assert text.startswith("The text that matters")


def odd(subject: str) -> bytes:
    """Return a large message with two files whose ends do not reveal their sizes."""
    head = b"Subject: %b\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n\r\nText\r\n" % subject.encode()
    part = b"--B\r\nContent-Type: a/b\r\nContent-Disposition: attachment\r\nContent-Transfer-Encoding: %b\r\n\r\n%b\r\n"
    return head + part % (b"base64", b"QUJD\r\n" * 50_000) + part % (b"quoted-printable", b"=41" * 25) + b"--B--\r\n"


def files(mirrored: Mirrored, message_id: str) -> tuple[Attachment, ...]:
    message, _ = mirrored.rig.store.messages.get(mirrored.rig.account_id, message_id)
    return message.attachments or ()


def sizes(mirrored: Mirrored, message_id: str) -> list[int]:
    return [one.size_bytes for one in files(mirrored, message_id)]


def test_what_is_fetched_corrects_the_size_that_is_listed(mirrored: Mirrored) -> None:
    message_id = mirrored.deliver(odd("files"))
    assert mirrored.fill(message_id) == "Text"
    estimated = sizes(mirrored, message_id)
    assert estimated != [150_000, 25]
    first = files(mirrored, message_id)[0]
    wanted = mirrored.parts.request_attachment(mirrored.rig.account_id, message_id, first.id)
    assert len(b"".join(mirrored.parts.fetch(wanted).chunks)) == 150_000
    assert sizes(mirrored, message_id) == [150_000, estimated[1]]
    mirrored.read(message_id)
    assert sizes(mirrored, message_id) == [150_000, 25]


def test_a_source_that_is_huge_is_not_looked_through(mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = mirrored.deliver(odd("huge"))
    mirrored.fill(message_id)
    estimated = sizes(mirrored, message_id)
    assert parts_module.MAX_SIZED_BYTES == 32 << 20, "so much is in memory, and is parsed while somebody waits"
    monkeypatch.setattr(parts_module, "MAX_SIZED_BYTES", 100_000)
    mirrored.read(message_id)
    assert sizes(mirrored, message_id) == estimated


def test_what_was_read_whole_is_not_looked_through_again(mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: bytes) -> None:
        raise AssertionError

    monkeypatch.setattr(parts_module, "part_sizes", never)
    message_id = mirrored.deliver(letter("small"))
    assert mirrored.fill(message_id) == "Hello"
    assert b"Hello" in mirrored.read(message_id)


def test_a_message_that_is_not_given_is_the_servers_fault(mirrored: Mirrored) -> None:
    message_id = mirrored.deliver(letter("one"))
    mirrored.rig.proxy.refuse(r"FETCH .*BODY\.PEEK\[\]", answer="NO cannot read")
    with pytest.raises(Unavailable, match="did not return this message"):
        mirrored.fill(message_id)
    mirrored.rig.proxy.heal()
    assert mirrored.fill(message_id) == "Hello"


def test_what_is_said_to_be_huge_is_not_fetched(mirrored: Mirrored) -> None:
    message_id = mirrored.deliver(letter("one"))
    set_size(mirrored, message_id, 300 << 20)
    with pytest.raises(Unsupported, match="256 MiB"):
        mirrored.read(message_id)
    assert mirrored.rig.proxy.count("UID FETCH") == 0


def test_what_turns_out_to_be_huge_is_not_fetched_on(mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = mirrored.deliver(BROKEN)
    monkeypatch.setattr(parts_module, "MAX_FETCHED_BYTES", 100_000)
    monkeypatch.setattr(parts_module, "PIECE", 5_000)
    wanted = replace(mirrored.parts.request_source(mirrored.rig.account_id, message_id), size=90_000)
    with pytest.raises(Unsupported, match="larger than"):
        mirrored.parts.fetch(wanted)
    assert mirrored.rig.store.database.value("SELECT count(*) FROM cached_parts") == 0


def test_no_part_is_taken_out_of_a_huge_source(mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = mirrored.deliver(b"Subject: two\r\nContent-Type: application/pdf\r\n\r\nxy\r\n")
    mirrored.fill(message_id)
    account_id, store = mirrored.rig.account_id, mirrored.rig.store
    part = store.database.value("SELECT json_extract(attachments, '$[0].id') FROM messages")
    with monkeypatch.context() as patched:
        patched.setattr(parts_module, "MAX_PARSED_BYTES", 10)
        with pytest.raises(Unsupported, match="larger than"):
            mirrored.parts.fetch(mirrored.parts.request_attachment(account_id, message_id, part))
    wanted = mirrored.parts.request_attachment(account_id, message_id, part)
    assert b"".join(mirrored.parts.fetch(wanted).chunks) == b"xy\r\n"


def set_size(mirrored: Mirrored, message_id: str, size: int) -> None:
    """Set the size as if the server had reported it."""
    database = mirrored.rig.store.database
    with database.transaction():
        database.change("UPDATE messages SET size = ? WHERE id = ?", (size, message_id))


def test_html_that_cannot_be_analyzed_is_searched_to_its_end(mirrored: Mirrored) -> None:
    readers = HtmlReaders(4)
    readers.close()  # as in a flood of hostile mail
    rig = mirrored.rig
    mirrored.bodies = BodyFetcher(rig.store, rig.connections, mirrored.parts, readers.for_request)
    html = b"<p>word</p>\r\n" * 5_000 + b"<p>Rhinoceros</p>"
    message_id = mirrored.deliver(b"Subject: long\r\nContent-Type: text/html\r\n\r\n" + html)
    mirrored.fill(message_id)
    found, _ = rig.store.messages.list(
        [rig.account_id], MessageFilter(terms=(SearchTerm("rhinoceros"),)), folders=None, before=None, limit=10
    )
    assert [one.id for one in found] == [message_id]
