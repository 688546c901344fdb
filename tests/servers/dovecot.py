"""Real Dovecot (IMAP, LMTP) and Postfix (SMTP, submission): a private instance on the loopback interface.

Both run as children and end when the test process dies, however it does. They change user, so root is needed; the
Debian packages are installed by `scripts/setup`.
"""

import grp
import imaplib
import os
import pwd
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from imapclient import imap_utf7

from tests.servers.certificates import make_certificates
from tests.servers.fault_proxy import FaultProxy

PASSWORD = "secret"
CONFIG = Path(__file__).parent / "config"
MASTER = "/usr/lib/postfix/sbin/master"
NEEDED = ("/usr/sbin/dovecot", "/usr/lib/dovecot/imap", "/usr/lib/dovecot/lmtp", MASTER, "/usr/bin/openssl")
#: Dovecot re-reads its users only every second or so, so all of them are made at the start.
POOL = tuple(f"user{number:03d}@example.test" for number in range(200))
USERS = ("alice@example.test", "bob@example.test", *POOL)


class CannotStart(Exception):
    """The mail servers cannot be started here; the text says what to do about it."""


class MailServer:
    """Dovecot and Postfix, and a look into the mailboxes that goes past both (the Maildir files).

    Every user has the password `secret`. Folders Drafts, Sent, Trash, Junk and Archive are there, marked as RFC 6154
    says; the separator is `/`. Submission wants a login, and a MAIL FROM that belongs to it (else 553); a recipient in
    example.test that does not exist gets 550 at RCPT; mail to other domains is accepted and bounces.
    """

    host = "127.0.0.1"
    imap_port: int  # plain and STARTTLS
    imaps_port: int  # implicit TLS
    submission_port: int  # login needed; plain and STARTTLS
    smtps_port: int  # login needed; implicit TLS
    smtp_port: int  # inbound: no login, local recipients only

    def __init__(self, extra: str = "") -> None:
        """`extra`: lines added to Dovecot's configuration, e.g. `imap_capability = IMAP4rev1`."""
        self._extra = extra
        self._pool = iter(POOL)
        self._running: list[subprocess.Popen[bytes]] = []
        self._watcher: subprocess.Popen[bytes] | None = None
        self._proxies: list[FaultProxy] = []

    def start(self, folder: Path) -> "MailServer":
        """Start both below the folder, whose path must be short and open to other users (sockets, mail users).

        Raises CannotStart.
        """
        _check_possible(folder)
        self.folder = folder
        self.ca_file = folder / "tls" / "ca.pem"
        ports = _free_ports(5)
        self.imap_port, self.imaps_port, self.submission_port, self.smtps_port, self.smtp_port = ports
        make_certificates(folder / "tls")
        self._make_folders()
        self._write_configuration()
        try:
            self._run("postfix", MASTER, "-s", "-c", str(folder / "postfix"))
            self._run("dovecot", "dovecot", "-F", "-c", str(folder / "dovecot.conf"))
            self._end_with_us()
            for port in ports:
                self._wait_for(port)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End both. Mail and logs stay in the folder."""
        while self._proxies:
            self._proxies.pop().stop()
        if self._watcher is not None:
            self._watcher.communicate()
            self._watcher = None
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()

    def proxy(self) -> FaultProxy:
        """A new proxy before the plain IMAP port, which ends with the server at the latest."""
        self._proxies.append(FaultProxy(self.imap_port).start())
        return self._proxies[-1]

    def poor(self) -> FaultProxy:
        """The IMAP server as one that has IMAP4rev1 and nothing else: connect to `host` and `port` of what is answered.

        It refuses the commands of extensions, too. Each call makes a new endpoint, with commands counted apart.
        """
        proxy = self.proxy()
        proxy.make_poor()
        return proxy

    # --- mailboxes ---

    def fresh_user(self) -> str:
        """The address of a mailbox that nobody has used before."""
        try:
            return next(self._pool)
        except StopIteration:
            raise AssertionError("all mailboxes are used up: make POOL in tests/servers/dovecot.py larger") from None

    def messages(self, user: str, folder: str = "INBOX") -> list[bytes]:
        """The sources of what really lies in a folder, in the order of arrival, with CRLF at the line ends."""
        maildir = self._maildir(user, folder)
        files = [file for part in ("new", "cur") for file in _listed(maildir / part)]
        # A Maildir name begins with the seconds, then M and the microseconds, of the arrival.
        files.sort(key=lambda file: (int(file.name.split(".")[0]), int(file.name.split("M")[1].split("P")[0])))
        return [_with_crlf(file.read_bytes()) for file in files]

    def wait_for_messages(self, user: str, count: int, folder: str = "INBOX", timeout: float = 10) -> list[bytes]:
        """The messages of a folder as soon as there are so many; AssertionError when that takes too long."""
        wait_until(
            lambda: len(self.messages(user, folder)) >= count,
            lambda: f"{len(self.messages(user, folder))} messages in {folder}, not {count}",
            timeout,
        )
        return self.messages(user, folder)

    def deliver(self, user: str, *sources: bytes, folder: str = "INBOX", flags: str = "") -> None:
        """Put messages into a folder, byte for byte, as another mail program would (APPEND); flags as in `\\Seen`."""
        with imaplib.IMAP4(self.host, self.imap_port, timeout=10) as client:
            client.login(user, PASSWORD)
            for source in sources:
                status, answer = client.append(_quoted(folder), f"({flags})", "", _with_crlf(source))
                assert status == "OK", answer

    def make_folder(self, user: str, folder: str) -> None:
        """Make a folder and subscribe to it."""
        self.doveadm("mailbox", "create", "-s", "-u", user, folder)

    def doveadm(self, *arguments: str) -> str:
        """The output of Dovecot's administration command, e.g. `doveadm("flags", "add", "-u", user, ...)`."""
        command = ("doveadm", "-c", str(self.folder / "dovecot.conf"), *arguments)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=_environment())
        assert done.returncode == 0, f"doveadm {arguments}: {done.stderr}"
        return done.stdout

    # --- inside ---

    def _maildir(self, user: str, folder: str) -> Path:
        home = self.folder / "mail" / user / "Maildir"
        if folder == "INBOX":
            return home
        return home / ("." + imap_utf7.encode(folder).decode().replace("/", "."))

    def _make_folders(self) -> None:
        mail, postfix = pwd.getpwnam("mail").pw_uid, pwd.getpwnam("postfix").pw_uid
        drop = grp.getgrnam("postdrop").gr_gid
        for name, owner in (("run", 0), ("state", 0), ("log", 0), ("postfix", 0), ("spool", 0), ("mail", mail)):
            _make_folder(self.folder / name, owner, -1, 0o755)
        _make_folder(self.folder / "postfix-data", postfix, -1, 0o700)
        spool = self.folder / "spool"
        for name in ("active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming", "private"):
            _make_folder(spool / name, postfix, -1, 0o700)
        for name, group, mode in (("saved", -1, 0o700), ("trace", -1, 0o700), ("maildrop", drop, 0o730)):
            _make_folder(spool / name, postfix, group, mode)
        _make_folder(spool / "public", postfix, drop, 0o710)
        _make_folder(spool / "pid", 0, -1, 0o755)

    def _write_configuration(self) -> None:
        mail = pwd.getpwnam("mail")
        values: dict[str, object] = {"root": self.folder, "uid": mail.pw_uid, "gid": mail.pw_gid, "extra": self._extra}
        values |= {name: value for name, value in vars(self).items() if name.endswith("_port")}
        users = self.folder / "users"
        users.write_text("".join(f"{user}:{{PLAIN}}{PASSWORD}::::::\n" for user in USERS))
        users.chmod(0o640)
        os.chown(users, 0, pwd.getpwnam("dovecot").pw_gid)
        _write_old(self.folder / "postfix" / "mailboxes", "".join(f"{user} {user}\n" for user in USERS))
        _write_old(self.folder / "postfix" / "domains", "example.test ok\n")
        _write_old(self.folder / "dovecot.conf", _filled("dovecot.conf", values))
        _write_old(self.folder / "postfix" / "main.cf", _filled("main.cf", values))
        _write_old(self.folder / "postfix" / "master.cf", _filled("master.cf", values))

    def _run(self, name: str, *command: str) -> None:
        # A daemon would hold on to a pipe for ever, so its output goes to a file.
        with (self.folder / "log" / f"{name}.out").open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=_environment() | {"MAIL_CONFIG": str(self.folder / "postfix"), "MAIL_LOGTAG": "postfix"},
                start_new_session=True,
            )
        self._running.append(process)

    def _end_with_us(self) -> None:
        # The watcher reads from a pipe that only we hold: when we are gone, it comes to the end of it.
        # (prctl's PDEATHSIG would not do: it is forgotten when a process changes user, as Postfix does.)
        servers = [str(process.pid) for process in self._running]
        watcher = ("sh", "-c", 'read -r _; kill -TERM "$@"', "watcher", *servers)
        self._watcher = subprocess.Popen(
            watcher, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def _wait_for(self, port: int) -> None:
        def answers() -> bool:
            if any(process.poll() is not None for process in self._running):
                raise CannotStart(f"A mail server ended at once.\n{self.log()}")
            try:
                socket.create_connection((self.host, port), timeout=2).close()
            except OSError:
                return False
            return True

        wait_until(answers, lambda: f"nothing answers on port {port}.\n{self.log()}", timeout=15)

    def log(self) -> str:
        """The last lines that the servers wrote, for a failing test to show."""
        lines = []
        for file in sorted((self.folder / "log").iterdir()):
            lines += [f"{file.name}: {line}" for line in file.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join(lines)


def wait_until(condition: Callable[[], bool], complaint: Callable[[], str], timeout: float) -> None:
    """Return as soon as the condition holds; AssertionError with the complaint when that takes too long."""
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"after {timeout} s: {complaint()}"
        time.sleep(0.01)


def _check_possible(folder: Path) -> None:
    if missing := [file for file in NEEDED if not os.access(file, os.X_OK)]:
        raise CannotStart(f"The mail servers of the tests are not installed ({', '.join(missing)}): run scripts/setup.")
    if os.geteuid() != 0:
        raise CannotStart("Dovecot and Postfix change user, so the tests that need them must be run as root.")
    if len(str(folder)) > 60:
        raise CannotStart(f"The folder {folder} has too long a path for the sockets in it.")
    if closed := [part for part in (folder, *folder.parents) if not part.stat().st_mode & 0o001]:
        raise CannotStart(f"The folder {closed[0]} is closed to the users of the mail servers.")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _environment() -> dict[str, str]:
    return {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin"}


def _make_folder(folder: Path, owner: int, group: int, mode: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, owner, group)
    folder.chmod(mode)


def _write_old(file: Path, text: str) -> None:
    # Postfix sleeps until its files are two seconds old, in case somebody still writes them.
    file.write_text(text)
    past = time.time() - 60
    os.utime(file, (past, past))


def _filled(name: str, values: dict[str, object]) -> str:
    text = (CONFIG / name).read_text()
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    return text


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


def _with_crlf(source: bytes) -> bytes:
    return source.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _quoted(folder: str) -> str:
    return '"' + imap_utf7.encode(folder).decode().replace("\\", "\\\\").replace('"', '\\"') + '"'
