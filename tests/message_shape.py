"""The Draft record of the specification as a table, written down apart from the product's own types."""

from collections.abc import Callable
from typing import Any

Check = Callable[[Any], None]

ROLES = {"inbox", "sent", "drafts", "trash", "spam", "archive", "starred", "all"}


def text(value: Any) -> None:
    assert type(value) is str


def some_text(value: Any) -> None:
    """A string that is not empty."""
    assert type(value) is str
    assert value


def count(value: Any) -> None:
    """A whole number from 0 on."""
    assert type(value) is int
    assert value >= 0


def yes_or_no(value: Any) -> None:
    assert type(value) is bool


def one_of(*choices: str) -> Check:

    def check(value: Any) -> None:
        assert value in choices

    return check


def list_of(item: Check) -> Check:

    def check(value: Any) -> None:
        assert type(value) is list
        for each in value:
            item(each)

    return check


def record(required: dict[str, Check], optional: dict[str, Check]) -> Check:
    """An object with these fields and no other."""

    def check(value: Any) -> None:
        assert type(value) is dict
        assert required.keys() <= value.keys(), f"missing: {required.keys() - value.keys()}"
        for name, field in value.items():
            assert name in required or name in optional, f"{name} is not in the table"
            (required.get(name) or optional[name])(field)

    return check


def texts_by_name(value: Any) -> None:
    """A map of string to string."""
    assert all(type(part) is str for pair in value.items() for part in pair)


def search_context(value: Any) -> None:
    """`matched` with an excerpt, or another status and nothing else."""
    if value["status"] == "matched":
        record({"status": text, "excerpt": text}, {})(value)
    else:
        record({"status": one_of("no_literal_match", "scan_limit", "unavailable")}, {})(value)


ADDRESS = record({"email": some_text}, {"name": some_text})
FOLDER = record(
    {"id": text, "name": text},
    {"role": one_of(*ROLES), "roleSource": one_of("user", "extension", "name"), "unreadCount": count},
)
ATTACHMENT = record(
    {"id": text, "filename": text, "mimeType": text, "sizeBytes": count},
    {"contentId": text, "disposition": one_of("inline", "attachment")},
)
MESSAGE = record(
    {
        "id": some_text,
        "threadId": some_text,
        "accountId": some_text,
        "to": list_of(ADDRESS),
        "subject": text,
        "date": some_text,
        "flags": record({"read": yes_or_no, "starred": yes_or_no, "draft": yes_or_no}, {}),
    },
    {
        "draftId": some_text,
        "folder": FOLDER,
        "labels": list_of(text),
        "from": ADDRESS,
        "cc": list_of(ADDRESS),
        "bcc": list_of(ADDRESS),
        "replyTo": list_of(ADDRESS),
        "snippet": text,
        "searchContext": search_context,
        "body": record({}, {"text": text, "html": text}),
        "attachments": list_of(ATTACHMENT),
        "headers": texts_by_name,
    },
)


def check_messages(value: Any) -> int:
    """Check everything in an answer that looks like a message; answers how many there were."""
    if isinstance(value, list):
        return sum(map(check_messages, value))
    if not isinstance(value, dict):
        return 0
    if {"threadId", "flags"} & value.keys() and "accountId" in value:
        MESSAGE(value)
        return 1
    return sum(map(check_messages, value.values()))
