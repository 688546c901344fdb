"""A server for one connection that says what a test wants, well-formed or not."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.remote.imap.client import ImapMailbox


class Peer:
    """The server's end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer waits 40 ms for an ACK
        self.connection = connection
        self._file = connection.makefile("rb")
        self.heard: list[bytes] = []

    def say(self, *lines: str | bytes) -> None:
        """Send these lines, with CRLF behind a text; bytes go as they are."""
        encoded = (line if isinstance(line, bytes) else line.encode() + b"\r\n" for line in lines)
        self.connection.sendall(b"".join(encoded))

    def hear(self) -> str:
        """The next line of the client; an empty text at its end."""
        self.heard.append(self._file.readline())
        return self.heard[-1].decode().rstrip("\r\n")

    def answer(self, *lines: str | bytes, status: str = "OK done") -> str:
        """Hear an IMAP command, send these lines and the tagged status; answers the command without its tag."""
        tag, _, command = self.hear().partition(" ")
        self.say(*lines, f"{tag} {status}")
        return command

    def reply(self, *replies: str) -> None:
        """Answer one line after the other with these."""
        for reply in replies:
            self.hear()
            self.say(reply)

    def until_gone(self) -> None:
        """Hear everything until the client hangs up."""
        while self.hear():
            pass

    def authenticate(self, capabilities: str) -> None:
        """The beginning of an IMAP connection, up to a client that is logged in."""
        self.say("* OK hello")
        self.answer(f"* CAPABILITY {capabilities}")
        tag = self.hear().split(" ")[0]
        self.say("+ ")
        self.hear()
        self.say(f"{tag} OK [CAPABILITY {capabilities}] in")

    def log_in(self, capabilities: str = "IMAP4rev1 AUTH=PLAIN IDLE") -> None:
        """The beginning of an IMAP connection, up to a logged-in client that has looked at its inbox."""
        self.authenticate(capabilities)
        command = self._after_login(capabilities)
        assert command.startswith("SELECT"), command

    def _after_login(self, capabilities: str) -> str:
        tag, _, command = self.hear().partition(" ")
        while command.startswith("CAPABILITY"):
            self.say(f"* CAPABILITY {capabilities}", f"{tag} OK done")
            tag, _, command = self.hear().partition(" ")
        if command == "ENABLE QRESYNC":
            self.say("* ENABLED QRESYNC", f"{tag} OK done")
            tag, _, command = self.hear().partition(" ")
        self.say("* 0 EXISTS", "* OK [PERMANENTFLAGS (\\Seen)] no more", f"{tag} OK [READ-WRITE] done")
        return command


@contextmanager
def odd_server(part: Callable[[Peer], None], context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a server that plays this part with its only client, over TLS with a context. What fails in the part
    fails the test, unless the connection does.
    """
    failures: list[BaseException] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def play() -> None:
            try:
                connection, _ = listener.accept()
                connection.settimeout(10)
                with connection, context.wrap_socket(connection, server_side=True) if context else connection as sock:
                    part(Peer(sock))
            except (ConnectionError, ssl.SSLError):
                pass
            except BaseException as failure:  # noqa: BLE001 - raised again, in the test's thread
                failures.append(failure)

        thread = threading.Thread(target=play, name="odd-server", daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)
    assert not thread.is_alive(), "the server is still waiting"
    if failures:
        raise failures[0]


@contextmanager
def talking(
    capabilities: str, part: Callable[[Peer], None], timeout: float = 5, user: str = "alice"
) -> Iterator[ImapMailbox]:
    """A mailbox of this user at a server with these capabilities that plays this part after the login."""

    def whole(peer: Peer) -> None:
        peer.log_in(f"IMAP4rev1 AUTH=PLAIN {capabilities}")
        part(peer)
        peer.until_gone()

    with odd_server(whole) as port:
        cuts: list[Callable[[], None]] = []
        endpoint = Endpoint("127.0.0.1", port, "none", user, "secret")
        with ImapMailbox.open(endpoint, ca_file="", timeout=timeout, on_connected=cuts.append) as mailbox:
            try:
                yield mailbox
            finally:
                cuts[0]()  # no waiting for an answer to LOGOUT


@contextmanager
def examined(part: Callable[[Peer], None], timeout: float = 10) -> Iterator[ImapMailbox]:
    """A mailbox, its inbox of two messages examined, at a server that plays this part then."""

    def whole(peer: Peer) -> None:
        peer.answer("* 2 EXISTS", "* OK [UIDVALIDITY 7] x", "* OK [UIDNEXT 9] x", status="OK [READ-ONLY] x")
        part(peer)

    with talking("IDLE", whole, timeout) as mailbox:
        mailbox.examine("INBOX")
        yield mailbox
