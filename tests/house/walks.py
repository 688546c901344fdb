"""The files of the package that one send, list, arrival and backup enter, recorded by a profile hook on every thread.

scripts/record-walks [-v]     prints how many, each with its bound, and with -v which; ends with 1 where one is passed
"""

import argparse
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import mailbox_appliance
from tests.servers.desk import Desk, a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until

ROOT = str(Path(mailbox_appliance.__file__).parent) + "/"
#: The most files that each may enter.
BOUNDS = {"send": 53, "list": 20, "arrival": 32, "backup": 28}
_LETTER = b"From: Bob <bob@example.test>\r\nTo: alice@example.test\r\nSubject: A letter\r\n\r\nHello Alice\r\n"


class Recorder:
    """Notes in which files of the package a function is entered, and by which thread: this one or one started later."""

    def __init__(self) -> None:
        self._entered: set[tuple[str, str]] | None = None

    def install(self) -> None:
        """Put the hook on this thread and on all that start from now on."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def remove(self) -> None:
        """Take the hook off again; threads that run keep theirs, which notes nothing."""
        threading.setprofile(None)
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        entered = self._entered
        if entered is not None and event == "call" and frame.f_code.co_filename.startswith(ROOT):
            entered.add((frame.f_code.co_filename[len(ROOT) :], threading.current_thread().name))

    @contextmanager
    def record(self) -> Iterator[set[tuple[str, str]]]:
        """The files that are entered meanwhile, each with the name of the thread."""
        entered: set[tuple[str, str]] = set()
        self._entered = entered
        try:
            yield entered
        finally:
            self._entered = None


@dataclass(frozen=True)
class Walks:
    """An appliance with one mailbox of a real mail server, and each walk recorded the second time it is gone."""

    desk: Desk
    mail: MailServer
    user: str
    account: str
    recorder: Recorder

    def send(self) -> set[str]:
        """A send over SMTP, from the request to its answer: in the thread of the request and in that of the delivery.

        The copy in Sent is filed afterwards, over IMAP, by a thread of its own; and the mirror hears of it.
        """
        body = a_message(
            "bob@example.test", attachments=[{"filename": "a.txt", "content": "aGVsbG8=", "mimeType": "text/plain"}]
        )
        self._send(body)
        with self.recorder.record() as entered:
            self._send(body)
        return {file for file, thread in entered if thread in ("MainThread", "sending")}

    def _send(self, body: dict[str, object]) -> None:
        before = len(self.mail.messages(self.user, "Sent"))
        sent = self.desk.send(self.account, body)
        assert (sent.status, sent.data["status"]) == (200, "succeeded"), sent
        self.mail.wait_for_messages(self.user, before + 1, "Sent")
        self.desk.wait_for(self.account, sent.data["operationId"], "succeeded")

    def list(self) -> set[str]:
        """The newest messages of the mailbox."""
        path = f"/accounts/{self.account}/messages?limit=5"
        self.desk.ask("GET", path)
        with self.recorder.record() as entered:
            assert self.desk.ask("GET", path).status == 200
        return {file for file, thread in entered if thread == "MainThread"}

    def arrive(self) -> set[str]:
        """A message that another server delivers, until it can be read in the mirror."""
        self._arrive()
        with self.recorder.record() as entered:
            self._arrive()
        return {file for file, thread in entered if thread.startswith("sync")}

    def _arrive(self) -> None:
        store = self.desk.appliance.store
        count = "SELECT count(*) FROM messages"
        before = store.database.value(count)
        self.mail.deliver(self.user, _LETTER)
        wait_until(lambda: store.database.value(count) > before, lambda: "no message came", 20)

    def back_up(self) -> set[str]:
        """A backup that is made and verified."""
        with self.recorder.record() as entered:
            assert self.desk.ask("POST", "/admin/backups", {}).status == 201
        return {file for file, thread in entered if thread == "MainThread"}

    def all(self) -> dict[str, set[str]]:
        """What each enters, by the names of `BOUNDS`."""
        return {"send": self.send(), "list": self.list(), "arrival": self.arrive(), "backup": self.back_up()}


@contextmanager
def prepare_walks(mail: MailServer, folder: Path) -> Iterator[Walks]:
    """An appliance on a new folder, and a mailbox of the server that nobody else uses."""
    recorder = Recorder()
    recorder.install()
    desk = Desk(folder, sending__answer_within=20)
    try:
        user = mail.fresh_user()
        account = desk.connect(user, imap_port=mail.imap_port, smtp_port=mail.submission_port)
        yield Walks(desk, mail, user, account, recorder)
    finally:
        desk.close()
        recorder.remove()


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/record-walks")
    parser.add_argument("-v", "--verbose", action="store_true")
    verbose = parser.parse_args().verbose
    with tempfile.TemporaryDirectory(prefix="walks-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o711)
        mail = MailServer().start(folder)
        try:
            with prepare_walks(mail, folder / "data") as walks:
                found = walks.all()
        finally:
            mail.stop()
    for walk, files in found.items():
        mark = " " if len(files) <= BOUNDS[walk] else "!"
        print(f"{mark} {walk}: {len(files)} files (at most {BOUNDS[walk]})")
        if verbose:
            print("".join(f"    {file}\n" for file in sorted(files)))
    sys.exit(any(len(files) > BOUNDS[walk] for walk, files in found.items()))


if __name__ == "__main__":
    main()
