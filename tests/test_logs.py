"""Log lines are JSON with ids, and tell nothing that a server or a message said."""

import ast
import json
import logging
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mailbox_appliance import logs
from mailbox_appliance.log_events import EVENTS
from mailbox_appliance.model.base import OwnText

_LOG_CALL = re.compile(r"(log|logging\.getLogger\(__name__\))\.(debug|info|warning|error|exception|log)")


@pytest.fixture
def _restored() -> Iterator[None]:
    """The logging of the test run, put back after `configure` has replaced it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    # configure() closes what it finds; these belong to pytest.
    root.handlers[:] = []
    yield
    for handler in root.handlers[:]:
        root.removeHandler(handler)
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)


def formatted(message: str, *values: object, **extra: object) -> dict[str, object]:
    """One line as it is written."""
    record = logging.LogRecord("room.part", logging.WARNING, __file__, 1, message, values, None)
    vars(record).update(extra)
    line = logs.JsonLines().format(record)
    assert "\n" not in line
    fields: dict[str, object] = json.loads(line)
    return fields


def test_a_line() -> None:
    line = formatted("folder %s is new", "fld_1", accountId="acc_1", seconds=0.5)
    assert str(line.pop("at")).endswith("Z")
    expected = {
        "level": "warning",
        "logger": "room.part",
        "event": "library_message",
        "message": "folder fld_1 is new",
        "accountId": "acc_1",
        "seconds": 0.5,
    }
    assert line == expected


def test_a_line_of_an_event_has_its_sentence() -> None:
    line = formatted("service_stopped", seconds=0.5)
    assert (line["event"], line["message"], line["seconds"]) == ("service_stopped", "The service has stopped.", 0.5)


def logged_names() -> Iterator[str]:
    """The first argument of each log call of the package, as written."""
    for file in sorted((Path(__file__).parent.parent / "mailbox_appliance").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and _LOG_CALL.fullmatch(ast.unparse(node.func)):
                yield ast.unparse(node.args[node.func.attr == "log"]).strip("'")  # type: ignore[attr-defined]


def test_every_log_call_names_an_event_of_the_catalog() -> None:
    assert set(logged_names()) == EVENTS.keys()
    assert [name for name in EVENTS if not re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", name)] == []
    assert [sentence for sentence in EVENTS.values() if not re.fullmatch(r"[A-Z].*\.", sentence)] == []
    assert len(set(EVENTS.values())) == len(EVENTS)


def test_a_marked_text_is_logged_as_a_text() -> None:
    assert formatted("disk_space_low", why=OwnText("The disk is full."))["why"] == "The disk is full."


def test_what_is_no_json_and_line_breaks_are_told_apart() -> None:
    assert formatted("two\nlines", path=Path("a"))["path"] == repr(Path("a"))


def test_the_request_id_of_this_thread() -> None:
    token = logs.request_id.set("req_1")
    try:
        assert formatted("done")["requestId"] == "req_1"
    finally:
        logs.request_id.reset(token)
    assert "requestId" not in formatted("done")


def test_a_traceback_without_its_words() -> None:
    record = logging.LogRecord("room", logging.ERROR, __file__, 1, "failed", (), None)
    try:
        raise ValueError("secret words of a server")
    except ValueError:
        record.exc_info = sys.exc_info()
    line = logs.JsonLines().format(record)
    fields = json.loads(line)
    assert "secret" not in line
    assert fields["error"] == "ValueError"
    assert fields["frames"][-1].startswith("test_logs.py:")


@pytest.mark.usefixtures("_restored")
def test_the_file_is_private_and_rotated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "logs"
    logs.configure(folder, "info", max_bytes=10_000, keep=2)
    for number in range(400):
        logging.getLogger("room").info("something ordinary", extra={"number": number})
    logging.getLogger("room").debug("too detailed")
    logging.getLogger("room").warning("look here")
    assert sorted(file.name for file in folder.iterdir()) == ["appliance.log", "appliance.log.1", "appliance.log.2"]
    assert all(file.stat().st_size <= 10_000 for file in folder.iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert json.loads((folder / "appliance.log").read_text().splitlines()[-1])["message"] == "look here"
    [shown] = capsys.readouterr().err.splitlines()
    assert json.loads(shown)["message"] == "look here"


@pytest.mark.usefixtures("_restored")
def test_a_file_that_was_renamed_is_left_and_a_new_one_begun(tmp_path: Path) -> None:
    """As logrotate does, which renames it and then tells us."""
    logs.configure(tmp_path, "info", max_bytes=10_000)
    logging.getLogger("room").info("before")
    (tmp_path / "appliance.log").rename(tmp_path / "rotated")
    logging.getLogger("room").info("meanwhile")
    logs.reopen()
    logging.getLogger("room").info("after")
    written = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert [[word in text for word in ("before", "meanwhile", "after")] for _, text in sorted(written.items())] == [
        [False, False, True],
        [True, True, False],
    ]
    assert stat.S_IMODE((tmp_path / "appliance.log").stat().st_mode) == 0o600


@pytest.mark.usefixtures("_restored")
def test_what_stands_in_a_file_that_was_put_there_counts_as_its_size(tmp_path: Path) -> None:
    logs.configure(tmp_path, "info", max_bytes=1000)
    logging.getLogger("room").info("before")
    (tmp_path / "appliance.log").unlink()
    (tmp_path / "appliance.log").write_text("x" * 950 + "\n")
    logs.reopen()
    logging.getLogger("room").info("after")
    assert (tmp_path / "appliance.log.1").read_text().startswith("xxx")
    assert "after" in (tmp_path / "appliance.log").read_text()


@pytest.mark.usefixtures("_restored")
def test_a_folder_that_is_gone_is_made_again(tmp_path: Path) -> None:
    logs.configure(tmp_path / "logs", "info")
    shutil.rmtree(tmp_path / "logs")
    logs.reopen()
    logging.getLogger("room").info("after")
    assert "after" in (tmp_path / "logs" / "appliance.log").read_text()
    assert stat.S_IMODE((tmp_path / "logs").stat().st_mode) == 0o700


@pytest.mark.usefixtures("_restored")
def test_where_no_new_file_can_be_made_the_old_one_goes_on(tmp_path: Path) -> None:
    logs.configure(tmp_path / "logs", "info")
    (tmp_path / "logs").rename(tmp_path / "gone")
    (tmp_path / "logs").touch()
    logs.reopen()
    logging.getLogger("room").info("after")
    assert "after" in (tmp_path / "gone" / "appliance.log").read_text()


@pytest.mark.usefixtures("_restored")
def test_configured_twice_writes_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(tmp_path, "info")
    logs.configure(tmp_path, "error")
    logging.getLogger("room").warning("not at this level")
    logging.getLogger("room").error("once")
    assert len((tmp_path / "appliance.log").read_text().splitlines()) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize(("name", "is_small"), [("tray-serve.log", True), ("errors.log", False)])
def test_what_it_says_to_a_tray_that_has_gone_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, is_small: bool
) -> None:
    """Any other file of standard error is the business of whoever named it."""
    file = tmp_path / name
    with file.open("a") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        logs.configure(tmp_path, "info")
        file.write_text("x" * logs.LARGEST_LAST_WORDS)
        for word in ("the last straw", "the next"):
            logging.getLogger("room").warning(word)
    assert (file.stat().st_size < 1000) is is_small
    assert "the next" in file.read_text()


@pytest.mark.usefixtures("_restored")
def test_libraries_that_write_what_they_send_are_kept_quiet(tmp_path: Path) -> None:
    logs.configure(tmp_path, "debug")
    logging.getLogger("imapclient").debug("LOGIN alice secret")
    logging.getLogger("imapclient.imaplib").info("LOGIN alice secret")
    logging.getLogger("waitress.queue").warning("Task queue depth is 1")
    assert (tmp_path / "appliance.log").read_text() == ""


def test_a_lone_surrogate_is_written_too() -> None:
    assert formatted("told", odd="\udc80")["odd"] == "\udc80"
