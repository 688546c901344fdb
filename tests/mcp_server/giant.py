"""A mailbox that is too large for any result, written straight into a store without a mail server.

Its texts are as unwieldy as mail allows: long, with many bytes per character, and with characters that JSON escapes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.model.messages import Address, ParsedAttachment, ParsedMessage
from mailbox_appliance.model.sync import FetchedMessage, ListedFolder
from tests.store.mail import connection, fetched, parsed

_BATCH = 1000
_FOLDER = '\u00e4"' * 60
_AWKWARD = '"\\\u00e9\U0001f4e8<\t'
_THREAD = "<conversation@example.test>"


@dataclass(frozen=True)
class Size:
    """The size of the mailbox."""

    messages: int = 20_000
    folders: int = 3_000
    labels: int = 2_000
    accounts: int = 150
    conversation: int = 2_000
    scheduled: int = 60
    #: Characters of the largest bodies; the store keeps no more.
    body: int = 4 * 1024 * 1024


@dataclass(frozen=True)
class Giant:
    """The mailbox, and the IDs of its largest messages."""

    account: str
    size: Size
    #: IDs of all messages, oldest first.
    ids: tuple[str, ...]
    #: One with 500 recipients and 100 attachments.
    crowded: str
    #: With a text of the largest size, and with HTML of it.
    large_text: str
    large_html: str


def long(number: int, length: int) -> str:
    """Return a distinguishable text of so many characters that begins with a number."""
    return f"{number} {_AWKWARD * (length // len(_AWKWARD) + 1)}"[:length].strip()


def filled(appliance: Appliance, size: Size) -> Giant:
    """Fill the store of an appliance that is set up."""
    store = appliance.store
    (owner,) = store.members.list()
    folders = [ListedFolder("INBOX", "/", frozenset())]
    folders += [ListedFolder(_path(number), "/", frozenset()) for number in range(1, size.folders)]
    with store.database.transaction():
        account = store.accounts.add(owner.id, 'The "giant"', connection("giant@example.test"))
        for number in range(1, size.accounts):
            store.accounts.add(owner.id, long(number, 200), connection(f"box{number}@example.test"))
        store.folders.replace(account, tuple(folders), folder_roles.assign_roles(tuple(folders), {}))
    inbox = store.folders.find(account, "INBOX")
    assert inbox is not None
    ids: list[str] = []
    coming = _messages(size)
    while batch := list(islice(coming, _BATCH)):
        ids += store.mailbox_writer.add(inbox, batch)
    return Giant(account, size, tuple(ids), ids[0], ids[1], ids[2])


def _path(number: int) -> str:
    return f"Clients/{number // 50}/Folder {number}{_FOLDER if number % 50 == 0 else ''}"


def _messages(size: Size) -> Iterator[tuple[FetchedMessage, ParsedMessage]]:
    labels = [f"label-{number}-{'x' * (number % 40)}" for number in range(size.labels)]
    for number in range(size.messages):
        flags = labels if number == 0 else labels[number * 3 % size.labels :][:3]
        yield fetched(number + 1, flags, after=number * 60), _message(number, size)


def _message(number: int, size: Size) -> ParsedMessage:
    """Each 500th has 500 recipients and 100 attachments, each 30th many of all; 1 has a long text, 2 long HTML."""
    is_crowded, is_awkward = number % 500 == 0, number % 30 == 0
    people = tuple(_person(each) for each in range(500 if is_crowded else 9))
    files = tuple(_file(each) for each in range(100 if is_crowded else 3))
    in_thread = number >= size.messages - size.conversation
    made = parsed(
        f"<{number}@example.test>",
        subject=long(number, 3000) if is_awkward else f"Report {number} of the week",
        references=[_THREAD] if in_thread else [],
        attachments=files if is_awkward else [],
        text=f"needle{number} " + long(number, 1500 if is_awkward else 80),
    )
    more: dict[str, Any] = {"snippet": f"needle{number} and so on"}
    if is_awkward:
        more = {"to": people, "cc": people[:100], "reply_to": people[:2], "snippet": long(number, 200)}
    if number == 1:
        more["text"] = large_text(size.body)
    if number == 2:
        more |= {"text": None, "html": "<p>" + large_text(size.body - 7) + "</p>"}
    return msgspec.structs.replace(made, **more)


def large_text(length: int) -> str:
    """Return a text whose lines all differ."""
    lines = "\n".join(f'{number}: "Grüße" \\ 📨 and so on, for quite a while' for number in range(length // 40))
    return lines[:length]


def _person(number: int) -> Address:
    return Address(email=f"person{number}.{'x' * 50}@{'long.' * 20}example.org", name=long(number, 120))


def _file(number: int) -> ParsedAttachment:
    return ParsedAttachment(f"2.{number + 1}", long(number, 250), "application/x-" + "y" * 100, 1000, "c" * 200, None)
