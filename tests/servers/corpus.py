"""Mail as people get it, made up: threads, lists, HTML, attachments, many charsets, and a few broken messages.

Half of the messages are under 4 kB, the mean is some 18 kB, a tenth has attachments, one in 250 is malformed. The same
owner, seed and count give the same bytes.
"""

import base64
import quopri
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.header import Header
from email.utils import formatdate
from itertools import accumulate
from urllib.parse import quote

from tests.servers.vocabulary import Vocabulary

_FIRST = """
Ada Ben Carla Dev Elif Finn Grace Hugo Ines Jonas Kira Liam Mina Noor Olga Pavel Quinn Rosa Sven Tara Uma
Viktor Wen Xenia Yusuf Zoé Jürgen Łukasz Søren Αννα Мария 太郎
"""
_LAST = """
Adler Brown Costa Dubois Eriksen Fischer Garcia Haas Ivanov Jensen Kowalski Larsen Müller Novak Okafor Petrov
Rossi Schmidt Tanaka Usman Vogel Weber Xu Yilmaz Zhang
"""
_DOMAINS = ("example.com", "example.org", "corp.example", "shop.example", "news.example", "uni.example", "bank.example")
#: A text of a charset that is not English, and the charsets it can travel in.
_FOREIGN = (
    ("Größe und Maße für die Übersicht", ("utf-8", "iso-8859-1", "iso-8859-15")),
    ("Żółta książka leży na stole", ("utf-8", "iso-8859-2")),
    ("Счёт на оплату за март", ("utf-8", "koi8-r", "windows-1251")),
    ("请查看附件中的合同", ("utf-8", "gb18030")),
    ("会議の資料を送ります", ("utf-8", "iso-2022-jp", "shift_jis")),
    ("회의 자료를 보냅니다", ("utf-8", "euc-kr")),
    ("Événement à l’école cet été", ("utf-8", "windows-1252")),
    ("نشكركم على رسالتكم", ("utf-8",)),
    ("🎉 Launch party 🎈", ("utf-8",)),
)
_FILES = (("application/pdf", "pdf"), ("image/jpeg", "jpg"), ("image/png", "png"), ("text/csv", "csv"))
_SPAN = 8 * 365 * 86_400  # seconds from the first message to the last


@dataclass(frozen=True)
class CorpusMessage:
    """A message, when it came (seconds since 1970), and its flags in letters as Maildir has them: `FRS`."""

    source: bytes = field(repr=False)
    date: int
    flags: str


@dataclass
class _Thread:
    subject: str
    message_ids: list[str]


@dataclass(frozen=True)
class _Entity:
    """Header fields of a part and its body, encoded."""

    fields: tuple[str, ...]
    body: str


class Corpus:
    """Makes messages for the mailbox of `owner`."""

    def __init__(self, owner: str, seed: int = 1, *, start: int = 1_500_000_000, largest_file: int = 1_000_000) -> None:
        self._chance = random.Random(seed)
        self._owner, self._seed, self._start, self._largest_file = owner, seed, start, largest_file
        self.vocabulary = Vocabulary(seed=seed)
        self._people = [self._person(number) for number in range(400)]
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(len(self._people))))
        self._paragraphs = [self.vocabulary.paragraph(self._chance, self._chance.randint(20, 90)) for _ in range(3000)]
        self._file = base64.encodebytes(self._chance.randbytes(1_000_000)).decode()
        self._threads: list[_Thread] = []

    def messages(self, count: int) -> Iterator[CorpusMessage]:
        for number in range(count):
            yield self._message(number, self._start + int(_SPAN * (number + self._chance.random()) / count))

    def _message(self, number: int, date: int) -> CorpusMessage:
        chance = self._chance
        fields = self._fields(number, date)
        entity = self._body(number)
        if chance.random() < 0.004:
            fields, entity = self._broken(fields, entity)
        source = "\r\n".join((*fields, *entity.fields, "", entity.body)).replace("\r\n", "\n").replace("\n", "\r\n")
        flags = "".join(letter for letter, part in (("F", 0.03), ("R", 0.1), ("S", 0.8)) if chance.random() < part)
        return CorpusMessage(source.encode(), date, flags)

    # --- the header ---

    def _person(self, number: int) -> str:
        first, last = self._chance.choice(_FIRST.split()), self._chance.choice(_LAST.split())
        local = "".join(letter for letter in f"{first}.{last}".lower() if letter.isascii())
        return f"{_encoded(f'{first} {last}')} <{local}{number}@{self._chance.choice(_DOMAINS)}>"

    def _fields(self, number: int, date: int) -> list[str]:
        chance = self._chance
        message_id = f"<{self._seed}.{number}.{chance.getrandbits(48):x}@{chance.choice(_DOMAINS)}>"
        sender = chance.choices(self._people, cum_weights=self._weights)[0]
        to = [f"<{self._owner}>", *(chance.choice(self._people) for _ in range(chance.choice((0, 0, 0, 1, 3))))]
        fields = [
            f"Return-Path: <bounce-{number}@example.com>",
            *self._trace_fields(number, date),
            f"From: {sender}",
            "To: " + ",\n ".join(to),
            *self._thread_fields(message_id),
            f"Date: {formatdate(date)}",
            f"Message-ID: {message_id}",
            "MIME-Version: 1.0",
        ]
        return fields + (self._list_fields() if chance.random() < 0.25 else [])

    def _trace_fields(self, number: int, date: int) -> tuple[str, str]:
        received = (
            f"Received: from mx{number % 7}.example.net (mx{number % 7}.example.net [192.0.2.{number % 250}])\n"
            f"\tby mail.example.test with ESMTPS id {self._chance.getrandbits(64):x}\n"
            f"\tfor <{self._owner}>; {formatdate(date)}"
        )
        signature = (
            "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=example.com; s=s1;\n\th=from:to:subject:date;\n"
            f"\tbh={self._signature(43)}=;\n\tb={self._signature(66)}\n\t {self._signature(66)}="
        )
        return received, signature

    def _thread_fields(self, message_id: str) -> list[str]:
        chance = self._chance
        if not self._threads or chance.random() > 0.45:
            plain = " ".join(self.vocabulary.choose(chance, chance.randint(2, 8))).capitalize()
            subject = chance.choice(_FOREIGN)[0] if chance.random() < 0.12 else plain
            self._threads.append(_Thread(subject, [message_id]))
            return [f"Subject: {_encoded(subject)}"]
        thread = chance.choice(self._threads[-200:])
        earlier = thread.message_ids[-8:]
        thread.message_ids.append(message_id)
        references = "References: " + "\n ".join(earlier)
        return [f"Subject: {_encoded('Re: ' + thread.subject)}", f"In-Reply-To: {earlier[-1]}", references]

    def _list_fields(self) -> list[str]:
        name = f"team{self._chance.randrange(12)}"
        return [
            f"List-Id: Team list <{name}.lists.example>",
            f"List-Unsubscribe: <https://lists.example/{name}>,\n <mailto:leave-{name}@lists.example>",
            "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
            "Precedence: bulk",
        ]

    def _signature(self, length: int) -> str:
        at = self._chance.randrange(10_000) * 77
        return self._file[at : at + length].replace("\n", "A")

    def _broken(self, fields: list[str], entity: _Entity) -> tuple[list[str], _Entity]:
        kind = self._chance.randrange(4)
        if kind == 0:
            return fields, _Entity(("Content-Type: text/plain; charset=x-unknown",), entity.body)
        if kind == 1:
            return fields, _Entity(('Content-Type: multipart/mixed; boundary="never"',), entity.body)
        if kind == 2:
            return [each for each in fields if not each.startswith(("Date:", "Message-ID:"))], entity
        return [*fields, "this is no header field"], _Entity(("Content-Type: text/plain; charset=",), "half =C3 of it")

    # --- the body ---

    def _body(self, number: int) -> _Entity:
        chance = self._chance
        size = int(min(max(chance.lognormvariate(7.35, 1.05), 80), 200_000))
        kind = chance.random()
        if kind < 0.22:
            return self._plain(size)
        if kind < 0.89:
            return self._alternative(size)
        first = self._alternative(size) if chance.random() < 0.6 else self._plain(size)
        return self._multipart("mixed", [first, *self._files(number)])

    def _text(self, size: int) -> str:
        parts = [self.vocabulary.paragraph(self._chance, 12)]
        length = len(parts[0])
        while length < size:
            parts.append(self._chance.choice(self._paragraphs))
            length += len(parts[-1]) + 2
        return "\n\n".join(parts)[: max(size, 40)]

    def _plain(self, size: int) -> _Entity:
        chance = self._chance
        if chance.random() < 0.7:
            return _Entity(("Content-Type: text/plain; charset=us-ascii",), self._text(size) + "\n")
        foreign, charsets = chance.choice(_FOREIGN)
        charset = chance.choice(charsets)
        content = f"{foreign}\n\n{self._text(size)}\n{foreign}\n".encode(charset)
        is_base64 = chance.random() < 0.4
        encoding = "base64" if is_base64 else "quoted-printable"
        body = base64.encodebytes(content) if is_base64 else quopri.encodestring(content)
        return _Entity(
            (f"Content-Type: text/plain; charset={charset}", f"Content-Transfer-Encoding: {encoding}"), body.decode()
        )

    def _alternative(self, size: int) -> _Entity:
        paragraphs = self._text(size).replace("\n\n", '</p>\n<p style=3D"margin:0 0 12px">')
        html = (
            f"<html><head><style>p{{color:#333}}</style></head><body><p>{paragraphs}</p>\n"
            f'<a href=3D"https://{self._chance.choice(_DOMAINS)}/x">caf=C3=A9</a>'
            '<img src=3D"https://t.example/o.gif"></body></html>\n'
        )
        fields = ("Content-Type: text/html; charset=utf-8", "Content-Transfer-Encoding: quoted-printable")
        return self._multipart("alternative", [self._plain(max(size // 2, 60)), _Entity(fields, html)])

    def _files(self, number: int) -> Iterator[_Entity]:
        chance = self._chance
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            mime_type, extension = chance.choice(_FILES)
            size = int(min(max(chance.lognormvariate(10.4, 1.2), 300), self._largest_file)) // 77 * 77
            at = chance.randrange(max(1, len(self._file) - size)) // 77 * 77
            name = f"{self.vocabulary.choose(chance, 1)[0]}-{number}.{extension}"
            filename = f'filename="{name}"' if chance.random() < 0.9 else f"filename*=utf-8''{quote('é-' + name)}"
            yield _Entity(
                (
                    f'Content-Type: {mime_type}; name="{name}"',
                    f"Content-Disposition: attachment; {filename}",
                    "Content-Transfer-Encoding: base64",
                ),
                self._file[at : at + size],
            )

    def _multipart(self, subtype: str, parts: list[_Entity]) -> _Entity:
        boundary = f"=_b{self._chance.getrandbits(60):x}"
        body = "".join(f"--{boundary}\n" + "\n".join(part.fields) + f"\n\n{part.body.rstrip()}\n" for part in parts)
        return _Entity((f'Content-Type: multipart/{subtype}; boundary="{boundary}"',), f"{body}--{boundary}--\n")


def _encoded(text: str) -> str:
    return text if text.isascii() else Header(text, "utf-8", maxlinelen=200).encode()
