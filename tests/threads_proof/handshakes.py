"""ssl: contexts that threads share, replaced while handshakes run over them."""

import random
import socket
import ssl
import tempfile
import threading
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path

from mailbox_appliance.tls import generate, inspect
from mailbox_appliance.tls.files import CertificateFiles, is_trusted, served_certificate
from mailbox_appliance.tls.inspect import LoadedCertificate
from tests.servers.certificates import any_certificate
from tests.threads_proof.together import run_together

_TURNS, _SECONDS = 6, 20.0


@cache
def _pairs() -> list[tuple[bytes, bytes]]:
    return [generate.generate_certificate(("localhost",), datetime.now(UTC)) for _ in range(4)]


class _Offered:
    """What the listeners use now, as `Group.use` has it: an attribute that is replaced."""

    def __init__(self, files: CertificateFiles) -> None:
        self.files, self.taken = files, inspect.load_certificate(files)


def stress(chance: random.Random) -> None:
    """One round."""
    with tempfile.TemporaryDirectory(prefix="threads-") as name:
        files = CertificateFiles(Path(name))
        files.replace(*chance.choice(_pairs()))
        offered, client = _Offered(files), any_certificate()
        seeds = [random.Random(chance.random()) for _ in range(8)]
        run_together(
            *(partial(_connect, offered, client, own) for own in seeds[:5]),
            *(partial(_reload, offered, own) for own in seeds[5:7]),
            partial(_look, offered),
        )


def _reload(offered: _Offered, chance: random.Random) -> None:
    for _ in range(_TURNS):
        before: LoadedCertificate = offered.taken
        offered.files.replace(*chance.choice(_pairs()))
        offered.taken = inspect.load_certificate(offered.files, before)


def _look(offered: _Offered) -> None:
    for _ in range(_TURNS):
        assert served_certificate(offered.taken.context)
        assert not is_trusted(offered.taken.context)


def _connect(offered: _Offered, client: ssl.SSLContext, chance: random.Random) -> None:
    for _ in range(_TURNS):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            for one in (ours, theirs):
                one.settimeout(_SECONDS)
            breaks_off = chance.random() < 0.2
            answering = threading.Thread(target=_answer, args=(offered, theirs, chance.randrange(100_000)))
            answering.start()
            if breaks_off:
                ours.sendall(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
                ours.shutdown(socket.SHUT_RDWR)
            else:
                _receive(ours, client)
            answering.join(_SECONDS)


def _receive(ours: socket.socket, client: ssl.SSLContext) -> None:
    with client.wrap_socket(ours) as secure:
        assert secure.getpeercert(binary_form=True)
        length, received = int(secure.recv(10)), 0
        while received < length and (some := secure.recv(65536)):
            received += len(some)
        assert received == length


def _answer(offered: _Offered, theirs: socket.socket, length: int) -> None:
    try:
        with offered.taken.context.wrap_socket(theirs, server_side=True) as secure:
            secure.sendall(b"%10d" % length)
            secure.sendall(bytes(length))
    except OSError:  # the client has broken off; one that has not asserts that everything came
        pass
