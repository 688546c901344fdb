"""Bodies that are too large to hold say the same as small ones."""

import base64
import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from mailbox_appliance.errors import Invalid, InvalidJson
from mailbox_appliance.model.content import LARGE, Content
from mailbox_appliance.operations.decoding import LargeText, canonical_json, convert_body, decode_json
from mailbox_appliance.operations.message_input import InlineMessage
from mailbox_appliance.system.spool import Spool

FILE = random.Random(7).randbytes(700_001)
TEXT = base64.b64encode(FILE).decode()


Spooled = Callable[[bytes], Content]


@pytest.fixture
def spooled() -> Iterator[Spooled]:
    """Puts a body into an encrypted temporary file."""
    with ExitStack() as stack:

        def put(body: bytes) -> Content:
            spool = stack.enter_context(closing(Spool()))
            spool.append(body)
            return spool.content()

        yield put


def message(**more: Any) -> dict[str, Any]:
    file = {"filename": "a", "mimeType": "application/octet-stream", "content": TEXT}
    return {"body": {"text": "Hello"}, "to": [{"email": "b@example.test"}], "attachments": [file], **more}


def plain(value: Any) -> Any:
    """The value with every text in it."""
    if isinstance(value, LargeText):
        return value.text.read().decode()
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


BODIES: dict[str, Any] = {
    "one file": message(),
    "two files": message(attachments=message()["attachments"] * 2),
    "a long text beside": message(subject="A" * 5000),
    "a long text after a quote": message(subject='"' + "A" * 5000),
    "a long text before a quote": message(subject="A" * 5000 + '"x'),
    "a long text with an umlaut": message(subject="A" * 5000 + "ä"),
    "a long text somewhere": message(body={"text": TEXT}),
    "a long name": {**message(), "A" * 5000: 1},
    "a file elsewhere": {"attachments": TEXT, "content": [TEXT]},
    "a short file": message(attachments=[{"filename": "a", "mimeType": "text/plain", "content": "AAAA"}]),
    "a list": [TEXT, {"a": TEXT}],
    "nothing long": {"a": 1},
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("pad", [0, 1, 3999, 4000, 4001, 262_143])
def test_a_large_body_says_what_it_says(spooled: Spooled, body: Any, pad: int) -> None:
    text = b" " * pad + json.dumps(body).encode()
    found = decode_json(spooled(text))
    assert plain(found) == body
    assert b"".join(canonical_json(found)) == b"".join(canonical_json(body))


def test_files_stay_where_they_are(spooled: Spooled) -> None:
    found: Any = decode_json(spooled(json.dumps(message()).encode()))
    assert isinstance(found["attachments"][0]["content"], LargeText)
    (file,) = convert_body(found, InlineMessage).attachments
    assert len(file.content) == len(FILE)
    assert file.content.read() == FILE


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (TEXT[:-1], "This must be base64 text (RFC 4648 4), with its padding."),
        (TEXT[:5000] + "=" + TEXT[5001:], "This must be base64 text (RFC 4648 4), with its padding."),
        ("!", "This must be base64 text (RFC 4648 4), with its padding."),
        (5, "This must be base64 text, not a number."),
        (None, "This must be base64 text, not null."),
    ],
)
def test_what_is_no_file_is_refused_with_its_place(spooled: Spooled, content: object, says: str) -> None:
    body = json.dumps(message(attachments=[{"filename": "a", "mimeType": "text/plain", "content": content}])).encode()
    for form in (body, spooled(body)):
        with pytest.raises(Invalid) as raised:
            convert_body(decode_json(form), InlineMessage)
        assert [(one.path, one.message) for one in raised.value.details] == [("/attachments/0/content", says)]


@pytest.mark.parametrize("cut", [-1, -2, 1000, 400_000])
def test_broken_json_is_told_as_of_a_small_body(spooled: Spooled, cut: int) -> None:
    text = json.dumps(message()).encode()[:cut]
    said = []
    for form in (text, spooled(text)):
        with pytest.raises(InvalidJson) as raised:
            decode_json(form)
        said.append(raised.value.message)
    assert said[0] == said[1]


def test_a_name_given_twice_is_refused(spooled: Spooled) -> None:
    text = b'{"subject": "a", "subject": "b", "text": "' + TEXT.encode() + b'"}'
    assert len(text) > LARGE // 2
    with pytest.raises(InvalidJson, match="twice"):
        decode_json(spooled(text))
