"""Labels as a server with X-GM-EXT-1 tells them and takes them. Lines are as transcripts of Gmail have them."""

import pytest

from mailbox_appliance.mail.folder_roles import assign_roles
from mailbox_appliance.model.sync import ListedFolder
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap import values
from mailbox_appliance.remote.imap.values import FetchCollector, LabelCollector, read_fetch
from mailbox_appliance.remote.imap.wire import Pieces

FOLDERS = {
    "INBOX": "",
    "Work/2024": "\\hasnochildren",
    "Archive": "\\hasnochildren",
    "[Gmail]/Alle Nachrichten": "\\all",
    "[Gmail]/Entw&APw-rfe": "\\drafts",
    "[Gmail]/Gesendet": "\\sent",
    "[Gmail]/Markiert": "\\flagged",
    "[Gmail]/Wichtig": "\\important",
    "[Gmail]/Spam": "\\junk",
    "[Gmail]/Papierkorb": "\\trash",
}


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        (
            b'* 9 FETCH (X-GM-LABELS ("\\\\Important" rob@example.test) UID 5 FLAGS ())',
            {"\\Important", "rob@example.test"},
        ),
        (
            b"* 1 FETCH (X-GM-LABELS (\\Inbox \\Sent Important) FLAGS (\\Seen) UID 5)",
            {"\\Inbox", "\\Sent", "Important", "\\Seen"},
        ),
        (
            b'* 1 FETCH (X-GM-LABELS ("Muy Importante" "a(b" "q\\"\\\\") UID 5 FLAGS ())',
            {"Muy Importante", "a(b", 'q"\\'},
        ),
        (b'* 1 FETCH (X-GM-LABELS ("\\\\Starred" "\\\\Draft") UID 5 FLAGS ())', {"\\Flagged", "\\Draft"}),
        (b"* 1 FETCH (X-GM-LABELS () UID 5 FLAGS (\\SEEN $forwarded $Phishing NonJunk))", {"\\Seen", "$Forwarded"}),
        (b"* 1 FETCH (X-GM-LABELS (NIL INLAY) UID 5 MODSEQ (7) FLAGS ())", {"NIL", "INLAY"}),
        (b"* 1 FETCH (X-GM-LABELS (&AOk-t&AOk- R&D) UID 5 FLAGS ())", {"été"}),  # R&D would be written R&-D
    ],
)
def test_labels_are_kept_among_flags(line: bytes, flags: set[str]) -> None:
    answers = LabelCollector()
    assert answers.collect([line])
    assert answers.found == {5: flags}
    answers = LabelCollector([4])
    assert not answers.collect([line])
    assert not answers.found


def test_a_label_in_a_literal() -> None:
    pieces: Pieces = [b"* 1 FETCH (X-GM-LABELS (one ", b'"(', b") UID 5 FLAGS ())"]
    answers = LabelCollector()
    assert answers.collect(pieces)
    assert answers.found == {5: {"one", '"('}}


def test_flags_that_change_without_labels_take_none_away() -> None:
    answers = LabelCollector()
    assert not answers.collect([b"* 1 FETCH (UID 5 FLAGS (\\Seen))"])
    assert not answers.found, "an answer without labels was told unasked: it must not look as if there were none"
    assert answers.collect([b'* 1 FETCH (X-GM-LABELS ("\\\\Inbox" a) UID 5 FLAGS (\\Flagged))'])
    assert not answers.collect([b"* 1 FETCH (UID 5 FLAGS (\\Seen))"])
    assert answers.found == {5: {"\\Inbox", "a", "\\Seen"}}


def test_a_whole_message() -> None:
    answers = FetchCollector([5])
    head = b'* 4 FETCH (X-GM-THRID 1423005031746205660 X-GM-MSGID 18446744073709551615 X-GM-LABELS (1-info "\\\\Inbox")'
    rest = b' UID 5 RFC822.SIZE 99 MODSEQ (1005137) INTERNALDATE "01-Jan-2013 23:36:00 +0000" FLAGS (\\Seen $X) BODY[] '
    assert answers.collect([head + rest, b"howdy", b")"])
    assert answers.collect([b"* 4 FETCH (UID 5 FLAGS (\\Answered $X))"])
    message = answers.found[5].to_message()
    assert message is not None
    assert message.flags == {"1-info", "\\Inbox", "\\Answered"}
    assert (message.provider_id, message.provider_thread_id) == ("18446744073709551615", "1423005031746205660")
    assert (message.size, message.source, message.internal_date.year) == (99, b"howdy", 2013)


def test_of_very_many_labels_those_of_the_system_are_kept() -> None:
    many = b" ".join(b"l%04d" % number for number in range(values.MAX_LABELS + 5))
    found = values.parse_labels(b"(" + many + b' "\\\\Sent" "\\\\Inbox")')
    assert len(found) == values.MAX_LABELS
    assert found >= {"\\Sent", "\\Inbox", "l0000"}


@pytest.mark.parametrize("labels", [b"NIL", b"(a", b"((a))", b'("a)'])
def test_no_labels(labels: bytes) -> None:
    with pytest.raises(ValueError):
        read_fetch([b"* 1 FETCH (X-GM-LABELS " + labels + b" UID 5)"])


def test_labels_are_written_as_they_are_told() -> None:
    names = {"\\Inbox", 'a "b"\\', "été", "(x)", "R&D"}
    written = values.format_labels(names)
    assert written == '("(x)" "R&-D" \\Inbox "a \\"b\\"\\\\" "&AOk-t&AOk-")'
    assert values.parse_labels(written.encode()) == names
    assert values.labels_in({"\\Seen", "$Forwarded", "\\Draft", "\\Inbox", "a"}) == {"\\Inbox", "a"}


@pytest.mark.parametrize("label", ["\\Mine", "\\", "\\Inbox) (x"])
def test_no_label_of_ours_looks_like_one_of_the_system(label: str) -> None:
    with pytest.raises(RemoteFault) as caught:
        values.format_labels({label})
    assert caught.value.kind == "unsupported"


def test_which_folders_show_a_label_and_who_plays_a_role() -> None:
    listed = [values.with_label(ListedFolder(path, "/", frozenset(given.split()))) for path, given in FOLDERS.items()]
    assert {folder.path: folder.label for folder in listed if folder.label != folder.path} == {
        "INBOX": "\\Inbox",
        "[Gmail]/Alle Nachrichten": None,
        "[Gmail]/Entw&APw-rfe": "\\Draft",
        "[Gmail]/Gesendet": "\\Sent",
        "[Gmail]/Markiert": "\\Flagged",
        "[Gmail]/Wichtig": "\\Important",
        "[Gmail]/Spam": None,
        "[Gmail]/Papierkorb": None,
    }
    roles = assign_roles(listed)
    assert {role for role, _ in roles.values()} == {"inbox", "all", "drafts", "sent", "starred", "spam", "trash"}
    assert {source for _, source in roles.values()} == {"extension"}, "a label that people named plays no role"
    assert "Archive" in assign_roles([ListedFolder(path, "/", frozenset()) for path in FOLDERS])
