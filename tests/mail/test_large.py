import base64
from dataclasses import replace

import pytest

from mailbox_appliance.mail.large import PartEnd, parse_large, part_ends, size_by_end, text_sections
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.model.messages import ParsedAttachment
from mailbox_appliance.model.sync import ListedPart

CUT = "The text of this message is very long; its end is not shown."


def leaf(number: str, mime_type: str, octets: int = 10, **more: object) -> ListedPart:
    return ListedPart(number, mime_type, more.pop("parameters", {}), "7BIT", octets, **more)  # type: ignore[arg-type]


def multipart(number: str, subtype: str, *children: ListedPart) -> ListedPart:
    return ListedPart(number, f"multipart/{subtype}", {}, "7bit", 0, children=children)


PDF = ListedPart(
    "2",
    "APPLICATION/PDF",
    {"NAME*": "utf-8''%C3%BC.pdf"},
    "BASE64",
    78 * 1000,
    content_id="<ç@d>",
    disposition="ATTACHMENT",
)
ALTERNATIVE = multipart("1", "alternative", leaf("1.1", "text/plain", 3), leaf("1.2", "TEXT/HTML", 8))
HEADER = b"Subject: =?utf-8?Q?=C3=BC?=\r\nFrom: a@b\r\nDate: 1 Mar 2026 12:30:05 +0000\r\n\r\n"


def test_the_texts_are_fetched_and_nothing_else() -> None:
    assert text_sections(multipart("", "mixed", ALTERNATIVE, PDF, leaf("3", "text/plain"))) == ("1.1", "3", "1.2")
    assert text_sections(leaf("1", "text/plain")) == ("1",)
    assert text_sections(PDF) == ()
    assert text_sections(multipart("", "mixed", leaf("1", "text/plain", disposition="attachment"))) == ()
    forwarded = leaf("1", "message/rfc822", children=(leaf("1.1", "text/plain"),))
    assert text_sections(multipart("", "mixed", forwarded)) == ()


def test_texts_without_end_are_not_fetched() -> None:
    many = [leaf(str(number), "text/plain", 10 << 20) for number in range(1, 50)]
    assert text_sections(multipart("", "mixed", *many)) == ("1", "2", "3")


def test_a_large_message_reads_as_a_small_one() -> None:
    read = parse_large(HEADER, multipart("", "mixed", ALTERNATIVE, PDF), {"1.1": b"Hi\n", "1.2": b"<p>Hi</p"})
    assert (read.text, read.html, read.snippet, read.warnings) == ("Hi", "<p>Hi</p", "Hi", ())
    whole = parse_message(HEADER)
    assert (read.subject, read.sender, read.date, read.headers) == ("ü", whole.sender, whole.date, whole.headers)
    assert read.attachments == (ParsedAttachment("2", "ü.pdf", "application/pdf", 57_000, "ç@d", "attachment"),)


def test_the_end_of_what_is_encoded_is_asked_for() -> None:
    mixed = multipart("", "mixed", ALTERNATIVE, PDF, leaf("3", "image/png"), replace(PDF, number="4", octets=30))
    assert part_ends(mixed) == (PartEnd("2", 78 * 1000 - 200, 264), PartEnd("4", 0, 94))
    assert part_ends(replace(PDF, mime_type="text/plain", disposition=None)) == (), "it is the text"
    forwarded = leaf("1", "message/rfc822", children=(replace(PDF, number="1.2"),))
    assert part_ends(multipart("", "mixed", forwarded)) == ()
    assert part_ends(replace(PDF, octets=0)) == ()
    many = multipart("", "mixed", *(replace(PDF, number=str(number)) for number in range(1, 500)))
    assert len(part_ends(many)) == 100


@pytest.mark.parametrize("line", [48, 60, 64, 72, 76])
@pytest.mark.parametrize("behind", [b"", b"\r\n", b"\r\n\r\n"])
def test_the_end_tells_the_size(line: int, behind: bytes) -> None:
    for size in (*range(1, 300), *range(50_000, 50_300)):
        encoded = base64.b64encode(b"x" * size)
        whole = b"\r\n".join(encoded[start : start + line] for start in range(0, len(encoded), line)) + behind
        for wrong in (0, 30, -30, -64, -100):  # servers sometimes report wrong sizes
            told = max(1, len(whole) + wrong)
            (end,) = part_ends(replace(PDF, octets=told))
            assert size_by_end(end, whole[end.offset :][: end.count]) in (size, None if told != len(whole) else size)
    assert size_by_end(PartEnd("1", 1000, 264), b"x" * 264) is None


def test_an_end_that_says_nothing() -> None:
    lines = b"A" * 76 + b"\r\n" + b"A" * 76
    for tail in (
        b"",
        b"====",
        lines,
        b"\r\n" + lines,
        b"\r\n" + b"A" * 64 + b"\r\n" + b"A" * 76,
        b"\r\n" + lines + b"===",
    ):
        assert size_by_end(PartEnd("1", 7801, 264), tail) is None, tail
    assert size_by_end(PartEnd("1", 7798, 264), b"\r\n" + lines) == 102 * 57
    assert size_by_end(PartEnd("1", 7798, 264), b"\r\n" + lines[:-1]) is None, "no whole four"
    assert size_by_end(PartEnd("1", 0, 164), b"") is None, "the server does not give it"


def test_encodings_and_character_sets_are_heeded() -> None:
    text = ListedPart("1", "text/plain", {"charset": "iso-8859-1"}, "quoted-printable", 3)
    assert parse_large(b"", text, {"1": b"=FC"}).text == "ü"


def test_a_text_that_is_not_all_there_is_told() -> None:
    structure = leaf("1", "text/plain", 1000)
    assert parse_large(b"", structure, {"1": b"x" * 995}).warnings == ()
    assert parse_large(b"", structure, {"1": b"x" * 500}).warnings == (
        "The text of this message is very long; its end is not shown.",
    )
    read = parse_large(b"", structure, {})
    assert (read.text, read.warnings) == ("", (CUT,))


def test_parts_and_depth_are_bounded() -> None:
    wide = parse_large(b"", multipart("", "mixed", *(leaf(str(n), "a/b") for n in range(1, 3000))), {})
    assert (len(wide.attachments), wide.warnings) == (1000, ("This message has too many parts; some are not shown.",))
    deep = leaf("1", "text/plain")
    for _ in range(200):
        deep = multipart("1", "mixed", deep)
    assert (
        "This message is nested too deeply; its innermost parts are not shown." in parse_large(b"", deep, {}).warnings
    )


def test_a_multipart_without_parts_is_an_empty_text() -> None:
    read = parse_large(b"", multipart("", "mixed"), {})
    assert (read.text, read.attachments) == ("", ())
