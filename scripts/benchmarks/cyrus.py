"""Cyrus 3.6 as a peer: a private instance that answers JMAP (RFC 8620, RFC 8621) for one mailbox full of mail.

Its Debian packages cannot be installed beside Dovecot's; `scripts/setup --bench` unpacks them below `.venv/cyrus`.
"""

import base64
import http.client
import imaplib
import json
import os
import pwd
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.options import LeftOut
from tests.servers.corpus import CorpusMessage

ROOT = Path(__file__).parent.parent.parent / ".venv" / "cyrus"
_BIN = ROOT / "usr" / "lib" / "cyrus" / "bin"
_IMAPD = """
configdirectory: {folder}/config
partition-default: {folder}/spool
defaultpartition: default
cyrus_user: mail
admins: admin
servername: localhost
allowplaintext: yes
sasl_pwcheck_method: alwaystrue
sasl_mech_list: PLAIN
unixhierarchysep: yes
virtdomains: off
autocreate_quota: 0
httpmodules: jmap
httpallowcompress: no
conversations: yes
conversations_db: twoskip
idlesocket: {folder}/config/idle
lmtpsocket: {folder}/config/lmtp
master_pid_file: {folder}/config/master.pid
syslog_prefix: bench
"""
_CYRUS = """
START {{
  recover cmd="{bin}/ctl_cyrusdb -C {folder}/imapd.conf -r"
}}
SERVICES {{
  imap cmd="{bin}/imapd -C {folder}/imapd.conf" listen="127.0.0.1:{imap}" prefork=0
  http cmd="{bin}/httpd -C {folder}/imapd.conf" listen="127.0.0.1:{http}" prefork=1
}}
"""
_PROPERTIES = "id threadId mailboxIds keywords size receivedAt from to subject preview hasAttachment"


class Jmap:
    """One connection to the mailbox of one user."""

    def __init__(self, port: int, user: str) -> None:
        self._user = user
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        login = base64.b64encode(f"{user}:any".encode()).decode()
        self._fields = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        [mailbox] = [each for each in self._call(("Mailbox/get", {}))[0]["list"] if each.get("role") == "inbox"]
        self._inbox = mailbox["id"]

    def newest(self, count: int) -> list[Any]:
        """The newest messages of the inbox with what a list shows: a query and a get in one request."""
        order = [{"property": "receivedAt", "isAscending": False}]
        query = {"filter": {"inMailbox": self._inbox}, "sort": order, "limit": count}
        ids = {"resultOf": "0", "name": "Email/query", "path": "/ids"}
        found = self._call(("Email/query", query), ("Email/get", {"#ids": ids, "properties": _PROPERTIES.split()}))
        messages: list[Any] = found[1]["list"]
        return messages

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _call(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        numbered = [[name, {**given, "accountId": self._user}, str(n)] for n, (name, given) in enumerate(calls)]
        using = ["urn:ietf:params:jmap:core", "urn:ietf:params:jmap:mail"]
        self._connection.request("POST", "/jmap/", json.dumps({"using": using, "methodCalls": numbered}), self._fields)
        self._acknowledge_at_once()
        answer = self._connection.getresponse()
        content = b""
        while piece := answer.read1(65536):
            content += piece
            self._acknowledge_at_once()
        content += answer.read()  # nothing more, and the connection is free again
        assert answer.status == 200, (answer.status, content[:300])
        return [given for _, given, _ in json.loads(content)["methodResponses"]]

    def _acknowledge_at_once(self) -> None:
        """Its answers come in pieces, each after we acknowledged the one before, which Linux does 40 ms late.

        The kernel forgets what it was told, so it is told before each piece.
        """
        self._connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


@contextmanager
def cyrus(folder: Path, user: str, messages: Iterable[CorpusMessage]) -> Iterator[Jmap]:
    """A started Cyrus with these messages in the inbox. Raises LeftOut where it is not here."""
    if not (_BIN / "httpd").exists():
        raise LeftOut("Cyrus is not here: run scripts/setup --bench")
    imap, http_port = _free_ports()
    _configure(folder, imap, http_port)
    with (folder / "log").open("wb") as log:
        master = subprocess.Popen(
            [str(_BIN / "master"), "-C", f"{folder}/imapd.conf", "-M", f"{folder}/cyrus.conf", "-D"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=_environment(),
        )
    try:
        _make_inbox(imap, user)
        _fill(folder, user, messages)
        jmap = Jmap(http_port, user)
        yield jmap
        jmap.close()
    finally:
        master.terminate()
        master.wait(10)


def _configure(folder: Path, imap: int, http_port: int) -> None:
    folder.mkdir()
    values = {"folder": folder, "bin": _BIN, "imap": imap, "http": http_port}
    (folder / "imapd.conf").write_text(_IMAPD.format(**values).lstrip())
    (folder / "cyrus.conf").write_text(_CYRUS.format(**values))
    mail = pwd.getpwnam("mail")
    for name in ("config", "config/db", "config/socket", "config/proc", "config/log", "config/lock", "spool"):
        (folder / name).mkdir()
        os.chown(folder / name, mail.pw_uid, mail.pw_gid)


def _make_inbox(port: int, user: str) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            with imaplib.IMAP4("127.0.0.1", port, timeout=10) as client:
                client.login("admin", "any")
                assert client.create(f"user/{user}")[0] == "OK"
                return
        except OSError:
            assert time.monotonic() < end, "Cyrus does not answer"
            time.sleep(0.1)


def _fill(folder: Path, user: str, messages: Iterable[CorpusMessage]) -> None:
    """Put the messages where it keeps them, and have it look: much quicker than appending them."""
    mail = pwd.getpwnam("mail")
    [header] = (folder / "spool").rglob("cyrus.header")
    for number, message in enumerate(messages, 1):
        file = header.with_name(f"{number}.")
        file.write_bytes(message.source)
        os.chown(file, mail.pw_uid, mail.pw_gid)
        os.utime(file, (message.date, message.date))
    command = [str(_BIN / "reconstruct"), "-C", f"{folder}/imapd.conf", f"user/{user}"]
    done = subprocess.run(command, capture_output=True, text=True, env=_environment(), user="mail", group="mail")
    assert done.returncode == 0, done.stderr


def _environment() -> dict[str, str]:
    libraries = ":".join(str(ROOT / place) for place in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"))
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LD_LIBRARY_PATH": libraries}


def _free_ports() -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return one.getsockname()[1], other.getsockname()[1]
