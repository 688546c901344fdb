"""An IMAP server that tells the same of made-up messages with labels (X-GM-EXT-1) and without, as a process of its own.

It makes its answers as it goes and checks nothing, so that it costs both sides little, and about the same.
"""

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_WORDS = "IMAP4rev1 AUTH=PLAIN IDLE CONDSTORE ENABLE ESEARCH UIDPLUS MOVE LIST-EXTENDED LIST-STATUS SPECIAL-USE"
_OTHERS = ("[Gmail]/Spam:\\Junk", "[Gmail]/Trash:\\Trash", "[Gmail]/Sent Mail:\\Sent", "[Gmail]/Drafts:\\Drafts")
_LABELS = 30
_HOME = "[Gmail]/All Mail"
_PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')


@contextmanager
def canned(count: int, *, has_labels: bool) -> Iterator[int]:
    """The port of a server whose mailbox has so many messages."""
    command = [sys.executable, "-m", "benchmarks.canned", str(count), str(int(has_labels))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


class _Client:
    """One connection."""

    def __init__(self, connection: socket.socket, count: int, has_labels: bool) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._out, self._in = connection, connection.makefile("rb")
        self._count, self._has_labels = count, has_labels
        self._home = _HOME if has_labels else "INBOX"

    def run(self) -> None:
        """Until it hangs up."""
        self._say(b"* OK ready\r\n")
        while line := self._in.readline().decode():
            tag, _, command = line.rstrip().partition(" ")
            self._say(b"".join(self._answers(command)) + f"{tag} OK done\r\n".encode())

    def _say(self, data: bytes) -> None:
        self._out.sendall(data)

    def _answers(self, command: str) -> Iterator[bytes]:
        word = command.split(" ")[0]
        if word == "CAPABILITY":
            yield f"* CAPABILITY {_WORDS}{' X-GM-EXT-1' if self._has_labels else ''}\r\n".encode()
        elif word in ("AUTHENTICATE", "IDLE"):
            self._say(b"+ \r\n")
            self._in.readline()
        elif word == "LIST":
            yield from self._folders(with_status="STATUS" in command)
        elif word == "STATUS":
            yield self._status(_path(command))
        elif word in ("EXAMINE", "SELECT"):
            yield self._position(_path(command) == self._home)
        elif command.startswith("UID FETCH"):
            yield from self._fetched(command)

    def _folders(self, *, with_status: bool) -> Iterator[bytes]:
        paths = ["INBOX:"]
        if self._has_labels:
            paths += [f"{_HOME}:\\All", *_OTHERS, *(f"Label {number}:" for number in range(_LABELS))]
        for path, attribute in (each.split(":") for each in paths):
            yield f'* LIST ({attribute}) "/" "{path}"\r\n'.encode()
            if with_status:
                yield self._status(path)

    def _status(self, path: str) -> bytes:
        count = self._count if path == self._home else 0
        numbers = f"MESSAGES {count} UIDNEXT {count + 1} UIDVALIDITY 7 HIGHESTMODSEQ 9"
        return f'* STATUS "{path}" ({numbers})\r\n'.encode()

    def _position(self, is_home: bool) -> bytes:
        count = self._count if is_home else 0
        codes = ("UIDVALIDITY 7] so", f"UIDNEXT {count + 1}] so", "HIGHESTMODSEQ 9] so", "PERMANENTFLAGS (\\*)] so")
        return f"* {count} EXISTS\r\n".encode() + b"".join(f"* OK [{code}\r\n".encode() for code in codes)

    def _fetched(self, command: str) -> Iterator[bytes]:
        _, _, numbers, asked = command.split(" ", 3)
        if "CHANGEDSINCE" in asked:
            return
        section = re.search(r"BODY\.PEEK(\[.*\])(<0)?", asked)
        for uid in self._uids(numbers):
            told = [f"UID {uid}"]
            told += ["FLAGS (\\Seen)" if uid % 7 else "FLAGS ()"] if "FLAGS" in asked else []
            told += ['INTERNALDATE "22-Nov-2026 05:00:00 +0000"'] if "INTERNALDATE" in asked else []
            told += [f"RFC822.SIZE {len(_source(uid))}"] if "SIZE" in asked else []
            if "X-GM-MSGID" in asked:
                told.insert(0, f"X-GM-THRID {9_000_000_000 + uid // 3} X-GM-MSGID {9_000_000_000 + uid}")
            if "X-GM-LABELS" in asked:
                told.insert(0, f'X-GM-LABELS ("\\\\Inbox" "\\\\Important" "Label {uid % _LABELS}")')
            text = f"* {uid} FETCH ({' '.join(told)}".encode()
            if section is None:
                yield text + b")\r\n"
                continue
            source = _source(uid) if section[1] == "[]" else _source(uid).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
            name = f" BODY{section[1]}{'<0>' if section[2] else ''} {{{len(source)}}}\r\n"
            yield b"".join((text, name.encode(), source, b")\r\n"))

    def _uids(self, numbers: str) -> Iterator[int]:
        for part in numbers.split(","):
            first, _, last = part.partition(":")
            yield from range(int(first), (self._count if last == "*" else int(last or first)) + 1)


def _path(command: str) -> str:
    found = _PATH.search(command)
    return found[1] if found else ""


def _source(uid: int) -> bytes:
    head = (
        f"From: Ada <ada{uid % 100}@example.org>\r\nTo: <me@example.test>\r\nSubject: Note {uid}\r\n"
        f"Date: Sun, 22 Nov 2026 05:00:00 +0000\r\nMessage-ID: <{uid}@example.org>\r\n\r\n"
    )
    return (head + f"The text of note {uid}.\r\n" * 40).encode()


def main(count: int, has_labels: bool) -> None:
    """Serve until killed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_Client(connection, count, has_labels).run, daemon=True).start()


if __name__ == "__main__":
    main(int(sys.argv[1]), bool(int(sys.argv[2])))
