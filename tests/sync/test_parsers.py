"""The real child process; only its faults are made, by killing it, or by starting something else in its place."""

import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import msgspec
import psutil
import pytest

from mailbox_appliance.mail.html.analysis import UNANALYZED_PREVIEW
from mailbox_appliance.mail.parse import parse_unreadable
from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.sync import parsers as sync_parsers
from mailbox_appliance.sync.parse_child import MOST_MEMORY, WholeMessage, encode
from mailbox_appliance.sync.parsers import FEW, Parsers, read
from mailbox_appliance.system import processes


def sources(count: int, size: int = 500, name: str = "x") -> list[bytes]:
    return [
        f"Subject: {name} {n}\r\nTo: Ann <a@b>, c@d\r\nDate: 1 Mar 2026 12:30:05 +0000\r\n\r\n".encode() + b"y " * size
        for n in range(count)
    ]


def children() -> set[int]:
    return {
        each.pid for each in psutil.Process().children() if "mailbox_appliance.sync.parse_child" in _command_of(each)
    }


def _command_of(process: psutil.Process) -> str:
    """How it was started; nothing for one that has ended and is still to be reaped."""
    try:
        return " ".join(process.cmdline())
    except (psutil.ZombieProcess, psutil.NoSuchProcess):
        return ""


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def parsers() -> Iterator[Parsers]:
    made = Parsers()
    yield made
    made.close()
    assert not children()


def test_a_few_messages_need_no_child(parsers: Parsers) -> None:
    few = sources(FEW)
    assert parsers.begin(few).result() == [read(each) for each in few]
    assert parsers.begin([]).result() == []
    assert not children()


def test_a_backlog_is_parsed_by_one_child_in_order(parsers: Parsers) -> None:
    batches = [sources(100, name=str(number)) for number in range(10)]
    pending = [parsers.begin(batch) for batch in batches]
    assert len(children()) == 1
    assert [each.result() for each in pending] == [[read(source) for source in batch] for batch in batches]


HOSTILE = "<style>td{color:#111}</style><p hidden>hidden</p><table>" + "<tr><td>x<td>y" * 140_000


def with_html(html: str, subject: str = "x") -> bytes:
    return f"Subject: {subject}\r\nContent-Type: text/html\r\n\r\n{html}".encode()


def test_a_message_with_html_is_parsed_by_a_child(parsers: Parsers) -> None:
    source = with_html("<p>seen</p><p hidden>not seen</p>")
    (found,) = parsers.begin([source]).result()
    assert (found.snippet, found.searched, found.warnings) == ("seen", "seen", ())
    assert len(children()) == 1
    # Without a child, what a style sheet hides is not known.
    assert (read(source).snippet, read(source).warnings) == ("", (UNANALYZED_PREVIEW,))


def test_html_that_is_too_expensive_keeps_no_other_message_from_being_read(parsers: Parsers) -> None:
    plain = with_html("<p>seen</p><p hidden>not seen</p>")
    first, *hostile, last = parsers.begin([plain, *(with_html(HOSTILE, str(n)) for n in range(3)), plain]).result()
    assert [each.subject for each in hostile] == ["0", "1", "2"]
    assert all(each.warnings == () or each.warnings == (UNANALYZED_PREVIEW,) for each in hostile)
    assert all(each.searched and "x" in each.searched for each in hostile)
    assert first.snippet == last.snippet == "seen"
    assert len(children()) == 1  # it has not died of it


def test_a_message_that_kills_the_child_costs_no_other_one_its_analysis(parsers: Parsers) -> None:
    html = with_html("<p>seen</p><p hidden>not seen</p>")
    expensive = with_html(HOSTILE)
    begun = parsers.begin([html, expensive, html])
    wait_until(lambda: len(children()) == 1)
    (child,) = children()
    wait_until(lambda: psutil.Process(child).cpu_times().user > 0.6)  # it is at the expensive one
    behind = parsers.begin([html])
    os.kill(child, signal.SIGKILL)
    first, second, third = begun.result()
    assert (first.snippet, third.snippet) == ("seen", "seen")
    assert second.warnings == (UNANALYZED_PREVIEW,)
    assert behind.result()[0].snippet == "seen"


def test_new_mail_does_not_wait_for_a_backlog(parsers: Parsers) -> None:
    backlog = parsers.begin([with_html(HOSTILE)] * (FEW + 1))
    assert parsers.begin([with_html("<p>seen</p><p hidden>not seen</p>")]).result()[0].snippet == "seen"
    assert not backlog._batch.ended.is_set()  # type: ignore[union-attr]
    os.kill(max(children(), key=lambda pid: psutil.Process(pid).cpu_times().user), signal.SIGKILL)


def test_a_child_is_bounded(parsers: Parsers) -> None:
    parsers.begin([with_html("<p>x")]).result()
    (child,) = map(psutil.Process, children())
    assert child.nice() > psutil.Process().nice()
    assert not any(file.path for file in child.open_files())
    assert child.num_fds() == 3
    assert child.rlimit(psutil.RLIMIT_AS)[0] == MOST_MEMORY


def test_large_batches_of_several_threads_do_not_wait_for_each_other(parsers: Parsers) -> None:
    found: dict[int, bool] = {}

    def work(number: int) -> None:
        batch = sources(60, 20_000, str(number))  # more than a pipe holds
        pending = [parsers.begin(batch) for _ in range(3)]
        found[number] = all(each.result() == [read(source) for source in batch] for each in pending)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert found == dict.fromkeys(range(6), True)
    assert len(children()) <= 1


def test_a_child_that_dies_loses_nothing_and_another_follows(parsers: Parsers) -> None:
    batch = sources(50, 50_000)
    expected = [read(source) for source in batch]
    assert parsers.begin(batch).result() == expected
    (first,) = children()
    os.kill(first, signal.SIGSTOP)
    pending = parsers.begin(sources(FEW + 1))
    os.kill(first, signal.SIGKILL)
    assert len(pending.result()) == FEW + 1
    assert parsers.begin(batch).result() == expected
    assert len(children() - {first}) == 1


def test_a_child_that_hangs_is_killed() -> None:
    parsers = Parsers(patience=0.5)
    assert len(parsers.begin(sources(50)).result()) == 50
    (child,) = children()
    os.kill(child, signal.SIGSTOP)
    batch = sources(50, 50_000)  # does not even fit into the pipe
    assert parsers.begin(batch).result() == [read(source) for source in batch]
    wait_until(lambda: child not in children())
    parsers.close()


def test_an_idle_child_ends_and_comes_back_when_needed() -> None:
    parsers = Parsers(idle=0.2)
    for _ in range(2):
        assert len(parsers.begin(sources(50)).result()) == 50
        wait_until(lambda: not children())
    parsers.close()


def test_after_closing_messages_are_parsed_here(parsers: Parsers) -> None:
    pending = [parsers.begin(sources(50)) for _ in range(3)]
    parsers.close()
    assert [len(each.result()) for each in (*pending, parsers.begin(sources(50)))] == [50] * 4


@pytest.mark.parametrize("code", ["pass", "import os; os.write(1, b'x' * 9999)", "print('\\0' * 400, flush=True)", ""])
def test_a_child_that_does_not_work_at_all_is_given_up(
    parsers: Parsers, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    def command() -> list[str]:
        started.append(code)
        return [sys.executable, "-c", code] if code else ["/nonexistent"]

    monkeypatch.setattr(sync_parsers, "command", command)
    batch = sources(50)
    for _ in range(6):
        assert parsers.begin(batch).result() == [read(source) for source in batch]
    if "400" in code:  # it begins as a child that works; one or two are started for a batch, as its end is seen or not
        assert 6 <= len(started) <= 12
    else:
        assert len(started) == 3


def test_the_child_knows_no_secrets_and_ends_with_its_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILBOX_APPLIANCE_TOKEN", "mbxs_secret")
    assert not any("mbxs" in value for value in sync_parsers.environment().values())
    child = subprocess.run(
        sync_parsers.command(), env=sync_parsers.environment(), input=b"\0\0\0\1\0", capture_output=True, check=True
    )
    assert (child.stdout, child.stderr) == (b"\0" * 4, b"")


def test_a_bundle_parses_by_a_hidden_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bundle has no modules to name. Its child uses what is unpacked already, and the libraries of a bundle."""
    ours = [*processes.own_command(), "parse-mail"]
    sought = encode(WholeMessage(b"Subject: found\r\n\r\nwords"))
    request = struct.pack(">II", 1, len(sought)) + sought
    child = subprocess.run(ours, env=sync_parsers.environment(), input=request, capture_output=True, check=True)
    assert msgspec.msgpack.decode(child.stdout[8:], type=ParsedMessage).subject == "found"
    assert child.stderr == b""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setenv("MAILBOX_APPLIANCE_TOKEN", "mbxs_secret")
    for name, value in {
        "_PYI_APPLICATION_HOME_DIR": "/m",
        "LD_LIBRARY_PATH": "/m",
        "LD_LIBRARY_PATH_ORIG": "/own",
    }.items():
        monkeypatch.setenv(name, value)
    environment = sync_parsers.environment()
    assert sync_parsers.command() == [sys.executable, "parse-mail"]
    assert (environment["_PYI_APPLICATION_HOME_DIR"], environment["LD_LIBRARY_PATH"]) == ("/m", "/own")
    assert not {"LD_LIBRARY_PATH_ORIG", "PYTHONPATH", "MAILBOX_APPLIANCE_TOKEN"} & set(environment)


def test_the_hidden_command_loads_no_more() -> None:
    code = "import sys; sys.argv[1:] = ['parse-mail']; import mailbox_appliance.__main__ as m; import os;"
    code += " os._exit = lambda code: (print(*sys.modules), sys.exit()); m.main()"
    loaded = subprocess.run((sys.executable, "-c", code), input=b"", capture_output=True, check=True).stderr.decode()
    assert "mailbox_appliance.sync.parse_child" in loaded
    assert not {"click", "mailbox_appliance.cli.main", "ssl", "apsw"} & set(loaded.split())


def test_the_child_loads_little() -> None:
    code = "import sys, mailbox_appliance.sync.parse_child; print(*sys.modules)"
    loaded = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True).stdout.split()
    heavy = {"apsw", "peewee", "imapclient", "imaplib", "ssl", "mailbox_appliance.store.store", "cryptography"}
    assert not heavy & set(loaded)


def test_what_cannot_be_read_is_shown_as_it_is() -> None:
    read = parse_unreadable(b"Subject: x\r\n\r\n\xff\0")
    assert (read.text, read.subject) == ("Subject: x\r\n\r\n\ufffd", "")
    assert read.warnings == ("This message could not be read; the raw message is shown.",)
