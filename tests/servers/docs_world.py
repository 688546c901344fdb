"""The world in which a page of the documentation runs: a network namespace with the documented names and ports.

`World` starts this module as a program inside. There it serves the demo's mail servers over TLS at
imap.example.org and smtp.example.org, and runs the blocks that it is given in one shell, under a terminal of its own.
"""

import asyncio
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fcntl import ioctl
from pathlib import Path
from typing import Any

from mailbox_appliance.demo import imap_server, mail, maildir, smtp_server
from tests.servers.certificates import make_certificates, server_context

#: The home directory inside; the page's folder is bound there, so that a copy of a home works everywhere.
HOME = "/media"
DOMAIN, PASSWORD, MAIL_PASSWORD = "example.org", "correct horse", "mailbox-password"
USERS = [f"{name}@{DOMAIN}" for name in ("ada", "bob", "eve", "mira")]
_NAMES = f"127.0.0.1 localhost imap.{DOMAIN} smtp.{DOMAIN} mail.{DOMAIN}\n::1 localhost\n"
_NAMESPACE = f"""
ip link set lo up || exit 1
mount --bind "$0/hosts" /etc/hosts && mount --bind "$0/home" {HOME} || exit 1
exec "$@"
"""
_PORTS = {993: "imap", 465: "smtp"}
_ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Outcome:
    """What a block did: its exit code and what it printed."""

    code: int
    stdout: str
    stderr: str


class World:
    """A running world. `folder` holds `home` and `mail`, both made here unless they are there already."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "home").mkdir(exist_ok=True)
        (folder / "blocks").mkdir()
        (folder / "hosts").write_text(_NAMES)
        if not (folder / "mail").exists():
            make_certificates(folder / "tls", [f"{name}.{DOMAIN}" for name in ("imap", "smtp", "mail")])
            _fill(folder / "mail")
        as_root = () if os.geteuid() == 0 else ("--map-root-user",)
        command = ("unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child", *as_root)
        inside = (sys.executable, "-m", "tests.servers.docs_world", str(folder))
        self._process = subprocess.Popen(
            (*command, "sh", "-c", _NAMESPACE, str(folder), *inside),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(folder),
            cwd=_ROOT,
        )
        assert self._read() == "ready"

    def run(self, block: str, *, may_fail: bool = False, answers: Sequence[str] = (), seconds: float = 60) -> Outcome:
        """Run shell commands; unless it may fail, the first command that fails ends the shell with its code.

        `answers` are typed at the prompts of the terminal, one each.
        """
        order = {"block": block, "may_fail": may_fail, "answers": list(answers), "seconds": seconds}
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Outcome(**self._read())

    def close(self) -> None:
        """End it with all that was started inside."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _read(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, f"the world in {self._folder} has ended"
        return json.loads(line)


def copy_world(template: Path, folder: Path) -> None:
    """Copy home and mail of a world that is closed, so that a new one continues there."""
    folder.mkdir()
    for name in ("home", "mail", "tls"):
        shutil.copytree(template / name, folder / name, symlinks=True)


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LANG", "PATH", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PATH": f"{_ROOT / '.venv' / 'bin'}:{os.path.dirname(sys.executable)}:{kept['PATH']}",
        "HOME": HOME,
        "USER": "ada",
        "LANG": "C.UTF-8",
        "SSL_CERT_FILE": str(folder / "tls" / "ca.pem"),
        "MAILBOX_APPLIANCE_KEYCHAIN": "off",
        "PYTHONPATH": "",
        "NO_PROXY": "*",
    }


def _fill(folder: Path) -> None:
    """Put the demo's sample mail into the mailbox of Ada, with the names of the documentation."""
    names = {mail.OWNER_EMAIL: USERS[0], mail.COLLEAGUE_EMAIL: USERS[3], "Robin Vale": "Ada Byron"}
    for user in USERS:
        maildir.make_mailbox(folder / user)
    now = datetime.now(UTC)
    for letter in mail.list_letters():
        content = letter.content(now)
        for old, new in names.items():
            content = content.replace(old.encode(), new.encode())
        maildir.add_message(folder / USERS[0], letter.folder, content, letter.flags, letter.sent_at(now))


# --- Inside ---


class _Shell:
    """One bash for the whole page. Its terminal is ours; blocks are files that it reads."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        self._terminal, theirs = pty.openpty()
        done, self._done = os.pipe()
        self._reader = done

        def take_terminal() -> None:
            ioctl(theirs, termios.TIOCSCTTY, 0)

        self._process = subprocess.Popen(
            ("bash", "--noprofile", "--norc"),
            stdin=subprocess.PIPE,
            stdout=theirs,
            stderr=theirs,
            cwd=HOME,
            pass_fds=(self._done,),
            start_new_session=True,
            preexec_fn=take_terminal,
        )
        os.close(theirs)
        self._write("set -o pipefail")

    def run(self, block: str, may_fail: bool, answers: list[str], seconds: float) -> dict[str, Any]:
        self._number += 1
        files = {name: self._folder / f"{self._number}.{name}" for name in ("sh", "out", "err")}
        files["sh"].write_text(block)
        source = "/dev/tty" if answers else "/dev/null"
        self._write("set +e" if may_fail else "set -e")
        self._write(f". {files['sh']} <{source} >{files['out']} 2>{files['err']}")
        self._write(f"echo $? >&{self._done}\nset +e")
        code = self._wait(time.monotonic() + seconds, list(answers), files["err"])
        return {"code": code, **{key: files[name].read_text() for key, name in (("stdout", "out"), ("stderr", "err"))}}

    def _write(self, line: str) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write((line + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It has ended, and _wait says with which code.

    def _wait(self, end: float, answers: list[str], errors: Path) -> int:
        """Return the code of the block; type the answers, each at a prompt on the terminal or on stderr."""
        asked, seen = "", 0
        while time.monotonic() < end:
            ready = select.select([self._reader, self._terminal], [], [], 0.1)[0]
            if self._terminal in ready:
                asked += _read(self._terminal)
            if errors.exists() and len(said := errors.read_text()) > seen:
                asked, seen = asked + said[seen:], len(said)
            if answers and re.search(r"([:?]|\[y/N\]) ?$", asked):
                time.sleep(0.05)  # Reading a password throws away what was typed before it.
                os.write(self._terminal, (answers.pop(0) + "\n").encode())
                asked = ""
            if self._reader in ready:
                return int(os.read(self._reader, 100))
            if (code := self._process.poll()) is not None:
                return code
        return 124


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 65536).decode("utf-8", "replace")
    except OSError:
        time.sleep(0.1)
        return ""  # Nobody has it open.


async def _serve_mail(folder: Path) -> None:
    tempfile.tempdir = str(folder / "mail")
    passwords = dict.fromkeys(USERS, MAIL_PASSWORD)
    servers = {
        "imap": await imap_server.start_imap_server(folder / "mail", passwords),
        "smtp": await smtp_server.start_smtp_server(folder / "mail", passwords),
    }
    context = server_context(folder / "tls")
    for port, name in _PORTS.items():
        plain = servers[name].sockets[0].getsockname()[1]

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, plain: int = plain) -> None:
            there, away = await asyncio.open_connection("127.0.0.1", plain)
            await asyncio.gather(_copy(reader, away), _copy(there, writer), return_exceptions=True)

        await asyncio.start_server(answer, "127.0.0.1", port, ssl=context)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
    finally:
        writer.close()


def _main(folder: Path) -> None:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_serve_mail(folder))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    shell = _Shell(folder / "blocks")
    print('"ready"', flush=True)
    for line in sys.stdin:
        print(json.dumps(shell.run(**json.loads(line))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
