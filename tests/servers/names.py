"""A DNS server on sockets, UDP and TCP: it tells what it was given, in the order it was given."""

import socket
import socketserver
import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdatatype
import dns.rrset

_TTL = 60
_UDP_LIMIT = 1232


class Names:
    """What names stand for. A name that nothing is known of does not exist, nor does any below it."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], list[list[str]]] = defaultdict(list)
        self._names: set[str] = set()
        #: Names that are answered SERVFAIL, and those that are not answered at all.
        self.failing: set[str] = set()
        self.silent: set[str] = set()
        #: Every question: name and kind.
        self.asked: list[tuple[str, str]] = []

    def add(self, name: str, kind: str, *values: str) -> None:
        """One answer to a question: all of these values. Added again: what the next question is answered, and so on."""
        name = name.removesuffix(".").lower()
        self._records[name, kind].append(list(values))
        labels = name.split(".")
        self._names.update(".".join(labels[start:]) for start in range(len(labels)))

    def add_zone(self, domain: str, lines: Iterable[str]) -> None:
        """Records as a zone has them, `NAME KIND VALUE`: below the domain, but for `@` and names with a dot."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for line in lines:
            name, kind, value = line.split(maxsplit=2)
            whole = domain if name == "@" else name[:-1] if name.endswith(".") else f"{name}.{domain}"
            found[whole, kind].append(value)
        for (name, kind), values in found.items():
            self.add(name, kind, *values)

    def answer(self, asked: bytes, limit: int) -> bytes | None:
        """The answer to a question; None: none."""
        question = dns.message.from_wire(asked)
        name, kind = question.question[0].name, question.question[0].rdtype
        text, what = name.to_text(omit_final_dot=True).lower(), dns.rdatatype.to_text(kind)
        self.asked.append((text, what))
        if text in self.silent:
            return None
        reply = dns.message.make_response(question, recursion_available=True)
        if text in self.failing:
            reply.set_rcode(dns.rcode.SERVFAIL)
        else:
            self._fill(reply, name, text, what)
        wire = reply.to_wire(max_size=65535)
        if len(wire) > limit:
            reply.answer.clear()
            reply.flags |= dns.flags.TC
            wire = reply.to_wire()
        return wire

    def _fill(self, reply: Any, name: dns.name.Name, text: str, what: str) -> None:
        for _ in range(8):  # aliases
            answers = self._known(text, what)
            if answers:
                reply.answer.append(dns.rrset.from_text_list(name, _TTL, "IN", what, answers))
                return
            alias = self._known(text, "CNAME")
            if not alias:
                break
            reply.answer.append(dns.rrset.from_text_list(name, _TTL, "IN", "CNAME", alias))
            name = dns.name.from_text(alias[0])
            text = name.to_text(omit_final_dot=True).lower()
        if text not in self._names and not self._known(f"*.{text.partition('.')[2]}", what):
            reply.set_rcode(dns.rcode.NXDOMAIN)

    def _known(self, text: str, what: str) -> list[str]:
        wild = f"*.{text.partition('.')[2]}"
        answers = self._records.get((text, what)) or ([] if text in self._names else self._records.get((wild, what)))
        if not answers:
            return []
        return answers.pop(0) if len(answers) > 1 else answers[0]


class NameServer:
    """Serves names at an address and port, over UDP and TCP."""

    def __init__(self, names: Names, address: str = "127.0.0.1", port: int = 0) -> None:
        self.names = names
        self._tcp = _Tcp((address, port), _OverTcp)
        self.port = int(self._tcp.server_address[1])
        self._udp = _Udp((address, self.port), _OverUdp)
        self._tcp.names = self._udp.names = names
        self._threads = [
            threading.Thread(target=server.serve_forever, args=(0.05,), name="names", daemon=True)
            for server in (self._tcp, self._udp)
        ]

    def __enter__(self) -> "NameServer":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for server, thread in zip((self._tcp, self._udp), self._threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


class _Udp(socketserver.ThreadingUDPServer):
    daemon_threads = True
    names: Names


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    names: Names


class _OverUdp(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        asked, sock = self.request
        answer = self.server.names.answer(asked, _UDP_LIMIT)  # type: ignore[attr-defined]
        if answer is not None:
            sock.sendto(answer, self.client_address)


class _OverTcp(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        asked = self.rfile.read(int.from_bytes(self.rfile.read(2), "big"))
        answer = self.server.names.answer(asked, 65535)  # type: ignore[attr-defined]
        if answer is not None:
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.wfile.write(len(answer).to_bytes(2, "big") + answer)
