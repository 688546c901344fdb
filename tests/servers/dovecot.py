"""Real Dovecot (IMAP, LMTP) and Postfix (SMTP, submission): a private instance on the loopback interface.

Both run as children and end when the test process dies, however it does. They change user, so root is needed; the
Debian packages are installed by `scripts/setup`.
"""

import grp
import os
import pwd
import random
import socket
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.servers.certificates import make_certificates
from tests.servers.fault_proxy import FaultProxy
from tests.servers.introspection import Introspection
from tests.servers.mailboxes import PASSWORD as PASSWORD
from tests.servers.mailboxes import USERS, Mailboxes, environment
from tests.servers.mailboxes import wait_until as wait_until

CONFIG = Path(__file__).parent / "config"
MASTER = "/usr/lib/postfix/sbin/master"
NEEDED = ("/usr/sbin/dovecot", "/usr/lib/dovecot/imap", "/usr/lib/dovecot/lmtp", MASTER, "/usr/bin/openssl")


class CannotStart(Exception):
    """The mail servers cannot be started here; the text says what to do about it."""


class MailServer(Mailboxes):
    """Dovecot and Postfix, and a look into the mailboxes that goes past both (the Maildir files).

    Every user has the password `secret`. Folders Drafts, Sent, Trash, Junk and Archive are there, marked as RFC 6154
    says; the separator is `/`. Submission wants a login, and a MAIL FROM that belongs to it (else 553); a recipient in
    example.test that does not exist gets 550 at RCPT; mail to other domains is accepted and bounces. Both take access
    tokens as well (XOAUTH2 and OAUTHBEARER): those of `tokens`.
    """

    imap_port: int  # plain and STARTTLS
    imaps_port: int  # implicit TLS
    submission_port: int  # login needed; plain and STARTTLS
    smtps_port: int  # login needed; implicit TLS
    smtp_port: int  # inbound: no login, local recipients only
    tokens: Introspection  # tells Dovecot whose an access token is

    def __init__(self, extra: str = "") -> None:
        """`extra`: lines added to Dovecot's configuration, e.g. `imap_capability = IMAP4rev1`."""
        super().__init__()
        self._extra = extra
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
        self.tokens = Introspection()
        self.tokens.start()
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
        self.tokens.stop()
        if self._watcher is not None:
            self._watcher.communicate()
            self._watcher = None
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(timeout=60)
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

    # --- inside ---

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
        values["introspection_port"] = self.tokens.port
        users = self.folder / "users"
        users.write_text("".join(f"{user}:{{PLAIN}}{PASSWORD}::::::\n" for user in USERS))
        users.chmod(0o640)
        os.chown(users, 0, pwd.getpwnam("dovecot").pw_gid)
        _write_old(self.folder / "postfix" / "mailboxes", "".join(f"{user} {user}\n" for user in USERS))
        _write_old(self.folder / "postfix" / "domains", "example.test ok\n")
        _write_old(self.folder / "dovecot.conf", _filled("dovecot.conf", values))
        _write_old(self.folder / "oauth2.conf", _filled("oauth2.conf", values))
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
                env=environment() | {"MAIL_CONFIG": str(self.folder / "postfix"), "MAIL_LOGTAG": "postfix"},
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
    """Ports that the kernel gives to nobody meanwhile, who asks for any: below its range, others may start servers."""
    with ExitStack() as held:
        found = list[int]()
        for port in random.sample(range(20_000, 32_000), 1000):
            one = held.enter_context(socket.socket())
            with suppress(OSError):
                one.bind(("127.0.0.1", port))
                found.append(port)
            if len(found) == count:
                return found
    raise CannotStart("There are no free ports between 20000 and 32000.")


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
