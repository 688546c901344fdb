"""What the sample mail is made of: the shape of a letter, invented people in example domains, and what they attach."""

import struct
import zlib
from dataclasses import dataclass
from email.headerregistry import Address


@dataclass(frozen=True)
class File:
    """Something attached, or shown inside the HTML when it has a content id."""

    name: str
    kind: str
    content: bytes
    content_id: str = ""


@dataclass(frozen=True)
class Letter:
    """One message. `hours` is its age; `key` becomes its Message-ID; `answers` is the key of what it replies to."""

    key: str
    hours: float
    sender: Address
    subject: str
    text: str
    html: str = ""
    to: tuple[Address, ...] = ()
    cc: tuple[Address, ...] = ()
    folder: str = "INBOX"
    flags: str = "S"
    answers: str = ""
    charset: str = "utf-8"
    files: tuple[File, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()


def _person(name: str, email: str) -> Address:
    return Address(name, addr_spec=email)


OWNER = _person("Robin Vale", "demo@demo.test")
COLLEAGUE = _person("Mira Lindqvist", "mira@demo.test")
JOSE = _person("José Ángel Muñoz", "jose@harbour-works.example")
AMELIE = _person("Amélie Lefèvre", "amelie@atelier.example")
YUKI = _person("田中 由紀", "yuki@tidewater.example")
SERGEI = _person("Сергей Волков", "sergei@lens.example")
NOA = _person("נועה לוי", "noa@shore.example")
LIWEI = _person("李伟", "liwei@lantern.example")
OSKAR = _person("Oskar Brandt", "oskar@museum.example.org")
LIST = _person("Lighthouse keepers", "keepers@lists.example.org")
NEWS = _person("The Tide Table", "news@tidetable.example")
SHOP = _person("Paint & Plank", "orders@paintandplank.example")
BANK = _person("Harbour Credit Union", "no-reply@credit.example")
BUILD = _person("Build robot", "builds@ci.example")
PRIZES = _person("Prize Department", "winner@prizes.example")
UNKNOWN = _person("", "someone@plain.example")


def _picture(red: int, green: int, blue: int, size: int = 48) -> bytes:
    """A PNG that fades from the colour to white."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def shade(colour: int, row: int) -> int:
        return colour + (255 - colour) * row // size

    rows = b"".join(b"\0" + bytes((shade(red, y), shade(green, y), shade(blue, y))) * size for y in range(size))
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _invoice() -> bytes:
    """A PDF of one page with one line of text."""
    text = b"BT /F1 18 Tf 72 720 Td (Invoice 2041: 12 l white paint, 86.40) Tj ET"
    objects = (
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 4 0 R /Resources <</Font<</F1 5 0 R>>>>>>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(text), text),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    )
    body, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(body))
    return body + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + trailer


_INVITATION = "\r\n".join(
    (
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//demo//sample//EN",
        "METHOD:REQUEST",
        "BEGIN:VEVENT",
        "UID:opening@demo.test",
        "DTSTAMP:20260101T090000Z",
        "DTSTART:20270601T160000Z",
        "DTEND:20270601T190000Z",
        "SUMMARY:Opening of the lighthouse museum",
        "LOCATION:North pier",
        "ORGANIZER;CN=Oskar Brandt:mailto:oskar@museum.example.org",
        "ATTENDEE;CN=Robin Vale;RSVP=TRUE:mailto:demo@demo.test",
        "END:VEVENT",
        "END:VCALENDAR",
        "",
    )
).encode()
_BUDGET = b"item,planned,spent\r\npaint,400,386.40\r\nlens,2500,2750\r\nbenches,900,0\r\n"
_NOTE = "Größe der Tür: 2,10 m × 0,95 m\r\nStufen: 112\r\n".encode()
_FORWARDED = (
    b"From: Ines Okafor <ines@coast.example>\r\nTo: oskar@museum.example.org\r\n"
    b"Subject: Old photographs of the pier\r\n"
    b"Date: Mon, 05 Jan 2026 10:15:00 +0000\r\nMessage-ID: <photographs@coast.example>\r\nMIME-Version: 1.0\r\n"
    b"Content-Type: text/plain; charset=us-ascii\r\n\r\nI found four photographs from 1931. May I bring them?\r\n"
)


PICTURES = (
    File("lamp.png", "image/png", _picture(250, 190, 40), "lamp@demo.test"),
    File("pier.png", "image/png", _picture(40, 90, 160), "pier@demo.test"),
)
INVITATION = File("invite.ics", "text/calendar", _INVITATION)
INVOICE = File("invoice-2041.pdf", "application/pdf", _invoice())
BUDGET = File("budget.csv", "text/csv", _BUDGET)
NOTE = File("Maße der Tür.txt", "text/plain", _NOTE)
FORWARDED = File("photographs.eml", "message/rfc822", _FORWARDED)
