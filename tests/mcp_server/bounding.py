"""Proves that no result exceeds its bound, whatever a mailbox holds, and that all of it can be read piece by piece.

`scripts/prove-bounds` uses 20,000 messages, the test suite fewer.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.mcp_server.tools import TOOLS
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.enrolment import CreateFirstAdminRequest, add_first_admin
from mailbox_appliance.store.audit import Actor
from tests.mcp_server.called import Called
from tests.mcp_server.giant import Giant, Size, filled, large_text
from tests.mcp_server.sceptic import BOUND, Answer
from tests.servers.desk import ADMIN, a_key

FORMS = ("text", "markdown", "html")
_OF_NO_MAILBOX = ("list_accounts", "list_approvals", "get_status")


@dataclass
class Reader:
    """A client with access to the giant mailbox; `longest` is the longest result of each tool."""

    called: Called
    giant: Giant
    longest: Counter[str]
    #: The number of results so far.
    count: int = 0

    def ask(self, tool: str, **arguments: Any) -> Answer:
        """Return any result, after checking how it is shown."""
        answer = self._answer(tool, arguments)
        assert answer.faults() == [], (arguments, answer.text[:2000])
        return answer

    def good(self, tool: str, **arguments: Any) -> Answer:
        answer = self.ask(tool, **arguments)
        assert answer.structure is not None, answer.text
        return answer

    def quickly(self, tool: str, **arguments: Any) -> Answer:
        """Return a successful result, after checking only its length."""
        answer = self._answer(tool, arguments)
        assert answer.structure is not None, answer.text
        assert len(answer.whole) <= BOUND
        return answer

    def entries(self, tool: str, **arguments: Any) -> Iterator[Any]:
        """Yield all entries of a list, following its cursors."""
        cursor: dict[str, str] = {}
        while True:
            answer = self.quickly(tool, **arguments, **cursor)
            found, following = _page(answer)
            assert found, "a page without anything"
            yield from found
            if following is None:
                return
            assert following in answer.text, "the text does not show how to continue"
            cursor = {"cursor": following}

    def _answer(self, tool: str, arguments: dict[str, Any]) -> Answer:
        whose = {} if tool in _OF_NO_MAILBOX else {"accountId": self.giant.account}
        answer = Answer.of(tool, self.called.call(tool, **whose | arguments))
        self.longest[tool] = max(self.longest[tool], len(answer.whole))
        self.count += 1
        return answer


def _page(answer: Answer) -> tuple[list[Any], str | None]:
    """Return the entries of a result, and the cursor of the next page."""
    data = answer.data
    if isinstance(data, list):
        return data, answer.structure.get("nextCursor")
    page = data.get("messages", data)
    return page["items"], page["nextCursor"]


@contextmanager
def reading(folder: Path, size: Size) -> Iterator[Reader]:
    """Yield a client of a resting appliance with the mailbox."""
    appliance = Appliance(folder)
    token = add_first_admin(appliance, convert_body(ADMIN, CreateFirstAdminRequest), Actor("local")).token
    yield Reader(Called(appliance, token), filled(appliance, size), Counter())
    appliance.stop()


# --- Checks ---


def all_pages(reader: Reader) -> None:
    """Following the cursors returns every message once."""
    size, giant = reader.giant.size, reader.giant
    newest_first = [item["id"] for item in reader.entries("list_emails", limit=100)]
    assert newest_first == list(reversed(giant.ids))
    for tool, count in (("list_folders", size.folders), ("list_labels", size.labels), ("list_accounts", size.accounts)):
        _once_each([one["id"] for one in reader.entries(tool)], count)
    _once_each([one["id"] for one in reader.entries("list_accounts", limit=7)], size.accounts)
    thread = reader.good("get_email", messageId=giant.ids[-1]).data["threadId"]
    for form in ("none", "text"):
        found = [item["id"] for item in reader.entries("get_thread", threadId=thread, bodyFormat=form, limit=100)]
        assert found == list(giant.ids[-size.conversation :])


def all_changes(reader: Reader) -> None:
    """From position to position, every message is listed once, as new."""
    position, created = reader.called.appliance.store.changes.to_position(0), list[str]()
    while items := (answer := reader.quickly("list_changes", after=position, limit=100)).data["items"]:
        created += [one["data"]["id"] for one in items if one["type"] == "message.created"]
        position = answer.data["nextPosition"]
        assert position in answer.text, "the text does not show how to continue"
    assert sorted(created) == sorted(reader.giant.ids)
    reader.good("list_changes")


def lists_of_any_limit(reader: Reader) -> None:
    """Lists with any limit, and entries of any kind."""
    for limit in (1, 2, 20, 100):
        for sought in ({"text": "needle1"}, {"q": "needle3 OR so"}, {"text": "so on", "q": "needle6"}):
            reader.good("search_emails", **sought, limit=limit)
        for tool in ("list_emails", "list_folders", "list_labels", "list_accounts", "list_scheduled_emails"):
            reader.good(tool, limit=limit)
        reader.good("list_approvals", limit=limit)
        assert reader.good("search_emails", q="subject:0", limit=limit).data["items"]
    reader.good("get_status")


def all_that_is_found(reader: Reader) -> None:
    """A search, page by page."""
    found = [item["id"] for item in reader.entries("search_emails", text="week", limit=100)]
    _once_each(found, sum(number % 30 != 0 for number in range(reader.giant.size.messages)))


def every_form(reader: Reader) -> None:
    """Messages of every kind, in each format, at any offset."""
    for message in (*reader.giant.ids[:6], reader.giant.ids[30], reader.giant.ids[-1]):
        is_large = message in (reader.giant.large_html, reader.giant.large_text)
        for form in (*FORMS, "none"):
            for offset in (0, 480) if is_large else (0, 19, 480, 1_000_000):
                reader.good("get_email", messageId=message, bodyFormat=form, listOffset=offset)
        for form in FORMS:
            for offset in (0, 4_000_000, 2**31):
                reader.good("get_email_body", messageId=message, bodyFormat=form, offset=offset, limit=1_000_000)
        for limit in () if is_large else (1, 9_000):
            reader.good("get_email_body", messageId=message, limit=limit)


def all_recipients_and_files(reader: Reader) -> None:
    """One message: its 500 recipients, 100 copies and 100 files, each once."""
    found: dict[str, list[str]] = {"to": [], "cc": [], "attachments": []}
    offset, step = 0, 1
    while step:
        answer = reader.good("get_email", messageId=reader.giant.crowded, bodyFormat="none", listOffset=offset)
        some = {name: [one.get("email", one.get("id")) for one in answer.data.get(name, ())] for name in found}
        found = {name: found[name] + some[name] for name in found}
        step = max(map(len, some.values()))
        offset += step
        assert not step or f"`listOffset` {offset}" in answer.text or offset >= 500, answer.text
    for entries, count in zip(found.values(), (500, 100, 100), strict=True):
        _once_each(entries, count)


def a_whole_body(reader: Reader) -> None:
    """The largest body, page by page."""
    pieces, offset = list[str](), 0
    while True:
        answer = reader.quickly("get_email_body", messageId=reader.giant.large_text, offset=offset)
        assert answer.data["offset"] == offset
        pieces.append(answer.data["content"])
        if answer.data["nextOffset"] is None:
            break
        offset = answer.data["nextOffset"]
        assert str(offset) in answer.text, "the text does not show how to continue"
    assert "".join(pieces) == large_text(reader.giant.size.body)


def what_is_written(reader: Reader) -> None:
    """A preview of the largest message, and scheduled messages."""
    to = [{"email": f"person{n}.{'x' * 40}@example.org", "name": 'Some"body ' * 9} for n in range(500)]
    files = [{"filename": f"{'f' * 200}{n}.bin", "mimeType": "a/b", "content": "eA=="} for n in range(100)]
    message = {"to": to, "subject": '"\\' * 400, "body": {"text": "x" * 100_000}}
    reader.good("preview_send", **message, attachments=files)
    message |= {"to": to[:60]}
    later = (datetime.now(UTC) + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = [
        reader.good("send_email", **message, sendAt=later, idempotencyKey=a_key()).data["scheduleId"]
        for _ in range(reader.giant.size.scheduled)
    ]
    waiting = [one["id"] for one in reader.entries("list_scheduled_emails", limit=100)]
    assert sorted(waiting) == sorted(made)


def what_is_wrong(reader: Reader) -> None:
    """Faults of any number and length are reported briefly."""
    to = [{"email": f'nobody{number} " at {"x" * 90}'} for number in range(500)]
    unknown = {f"unknown{number}{'y' * 200}": 1 for number in range(300)}
    ids = [f"msg_{'x' * 200}{number}" for number in range(100)]
    for answer in (
        reader.ask("preview_send", to=to, subject="x", body={"text": "x"}),
        reader.ask("list_emails", **unknown),
        reader.ask("get_email", messageId="x" * 100_000),
        reader.ask("list_folders", cursor="z" * 50_000),
    ):
        assert answer.structure is None
        assert len(answer.whole) < 10_000
    reader.ask("modify_emails", messageIds=ids, action="star")
    reader.ask("search_emails", q="(" * 20_000)


def _once_each(found: list[str], expected: int) -> None:
    assert len(found) == len(set(found)) == expected, (len(found), len(set(found)), expected)


CHECKS: tuple[Callable[[Reader], None], ...] = (
    all_pages,
    all_changes,
    lists_of_any_limit,
    all_that_is_found,
    every_form,
    all_recipients_and_files,
    a_whole_body,
    what_is_written,
    what_is_wrong,
)
#: Needed to read a mailbox, but without files or deliveries here: see `test_injections`.
ELSEWHERE = {"download_attachment", "get_draft", "get_delivery_operation"}


def not_asked(reader: Reader) -> set[str]:
    """Return tools that read and that no check has used."""
    return {tool.name for tool in TOOLS if tool.reads_only} - ELSEWHERE - set(reader.longest)


def main() -> int:
    """The command line of `scripts/prove-bounds`."""
    parser = argparse.ArgumentParser(prog="scripts/prove-bounds", description="Look at every answer of a huge mailbox.")
    parser.add_argument("--messages", type=int, default=Size.messages)
    given = parser.parse_args()
    failures = 0
    with tempfile.TemporaryDirectory() as folder, reading(Path(folder) / "data", Size(given.messages)) as reader:
        for check in CHECKS:
            began, before = time.monotonic(), reader.count
            try:
                check(reader)
            except AssertionError as error:
                failures += 1
                print(f"{check.__name__}: FAILED {error}"[:2000], file=sys.stderr)
            else:
                took = time.monotonic() - began
                print(f"{check.__name__}: {reader.count - before} answers, {took:.0f} s", flush=True)
        print("longest:", ", ".join(f"{tool} {length}" for tool, length in sorted(reader.longest.items())))
        print("not asked:", not_asked(reader) or "none")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
