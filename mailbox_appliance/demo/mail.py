"""The sample mail of the demo: the messages as data, and functions that compose and store them."""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

from mailbox_appliance.demo import maildir

# --- The parts of the sample mail: letters, invented people in example domains, attachments ---


@dataclass(frozen=True)
class LetterFile:
    """A file of a sample message: an attachment or, if it has a content ID, an image shown in the HTML.

    `kind`: its MIME type.
    """

    name: str
    kind: str
    content: bytes
    content_id: str = ""


@dataclass(frozen=True)
class Letter:
    """A sample message as data. `hours`: its age. `key`: its Message-ID without the domain.

    `answers`: the `key` of the message to which it replies. `flags`: letters of Maildir, such as S for seen.
    """

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
    files: tuple[LetterFile, ...] = ()
    headers: tuple[tuple[str, str], ...] = ()


def _make_person(name: str, email: str) -> Address:
    return Address(name, addr_spec=email)


OWNER = _make_person("Robin Vale", "demo@demo.test")
COLLEAGUE = _make_person("Mira Lindqvist", "mira@demo.test")
JOSE = _make_person("José Ángel Muñoz", "jose@harbour-works.example")
AMELIE = _make_person("Amélie Lefèvre", "amelie@atelier.example")
YUKI = _make_person("田中 由紀", "yuki@tidewater.example")
SERGEI = _make_person("Сергей Волков", "sergei@lens.example")
NOA = _make_person("נועה לוי", "noa@shore.example")
LIWEI = _make_person("李伟", "liwei@lantern.example")
OSKAR = _make_person("Oskar Brandt", "oskar@museum.example.org")
LIST = _make_person("Lighthouse keepers", "keepers@lists.example.org")
NEWS = _make_person("The Tide Table", "news@tidetable.example")
SHOP = _make_person("Paint & Plank", "orders@paintandplank.example")
BANK = _make_person("Harbour Credit Union", "no-reply@credit.example")
BUILD = _make_person("Build robot", "builds@ci.example")
PRIZES = _make_person("Prize Department", "winner@prizes.example")
UNKNOWN = _make_person("", "someone@plain.example")


def _make_png(red: int, green: int, blue: int, size: int = 48) -> bytes:
    """Return a square PNG image of `size` pixels with a gradient from the given color to white."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    def shade(colour: int, row: int) -> int:
        return colour + (255 - colour) * row // size

    rows = b"".join(b"\0" + bytes((shade(red, y), shade(green, y), shade(blue, y))) * size for y in range(size))
    head = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def _make_pdf() -> bytes:
    """Return a PDF of one page with one line of text."""
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
    LetterFile("lamp.png", "image/png", _make_png(250, 190, 40), "lamp@demo.test"),
    LetterFile("pier.png", "image/png", _make_png(40, 90, 160), "pier@demo.test"),
)
INVITATION = LetterFile("invite.ics", "text/calendar", _INVITATION)
INVOICE = LetterFile("invoice-2041.pdf", "application/pdf", _make_pdf())
BUDGET = LetterFile("budget.csv", "text/csv", _BUDGET)
NOTE = LetterFile("Maße der Tür.txt", "text/plain", _NOTE)
FORWARDED = LetterFile("photographs.eml", "message/rfc822", _FORWARDED)


# --- The inbox, about the newest first: threads, lists, newsletters, receipts and many scripts ---


_LIST_HEADERS = (
    ("List-Id", "Lighthouse keepers <keepers.lists.example.org>"),
    ("List-Post", "<mailto:keepers@lists.example.org>"),
    ("List-Unsubscribe", "<mailto:keepers-leave@lists.example.org>, <https://lists.example.org/keepers/leave>"),
    ("Precedence", "list"),
)
_NEWS_HEADERS = (
    ("List-Unsubscribe", "<https://tidetable.example/unsubscribe>"),
    ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
)
_LONG_SUBJECT = (
    "Minutes of the meeting about the stairs, the door, the lamp, the paint, the benches, the leaflet, the opening "
    "hours, the price of the ticket, the cat, and what we said we would not talk about but then did for an hour"
)


def _newsletter(title: str, stories: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr><td style="padding:12px;font-family:Georgia,serif"><h2>{head}</h2><p>{body}</p></td></tr>\n'
        for head, body in stories
    )
    return (
        f"<!doctype html>\n<html><head><title>{title}</title><style>h2 {{ color: #035 }}</style></head>\n"
        f'<body bgcolor="#eef"><table width="600" align="center"><tr><td><h1>{title}</h1></td></tr>\n{rows}'
        '<tr><td><a href="https://tidetable.example/unsubscribe">Unsubscribe</a></td></tr></table></body></html>\n'
    )


INBOX = (
    Letter(
        "welcome",
        0.2,
        COLLEAGUE,
        "Welcome to the demo",
        flags="",
        text=(
            "Hello Robin,\n\nthis mailbox lives on your own computer and is gone when you stop the demo. "
            "Mail to me arrives, mail to lost@demo.test shows what an uncertain delivery looks like, and nothing "
            "leaves this machine.\n\nMira\n"
        ),
    ),
    Letter(
        "lamp-3",
        1,
        COLLEAGUE,
        "Re: Lighting the lamp",
        answers="lamp-2",
        flags="",
        text=(
            "Friday it is. I bring matches, although it is electric.\n\nMira\n\n"
            "> On Friday, before the museum people come.\n"
        ),
    ),
    Letter(
        "build-212",
        2,
        BUILD,
        "[lighthouse-site] Build 212 passed",
        flags="",
        text=("All 318 checks passed in 41 s.\n\nCommit 4f1c2ab: show the tide on the front page\n"),
        headers=(("Auto-Submitted", "auto-generated"),),
    ),
    Letter(
        "opening",
        3,
        OSKAR,
        "Invitation: Opening of the lighthouse museum",
        flags="F",
        text=(
            "Dear Robin,\n\nplease keep the evening free. "
            "The invitation for your calendar is attached.\n\nOskar Brandt\n"
        ),
        files=(INVITATION,),
    ),
    Letter(
        "tides-40",
        5,
        NEWS,
        "Spring tides ✨ and a seal on the slipway",
        flags="",
        text=("Spring tides on Tuesday. A seal on the slipway. Read it all at https://tidetable.example/40\n"),
        html=_newsletter(
            "The Tide Table",
            (
                ("Spring tides on Tuesday", "High water at 11:42, 6.1&nbsp;m. Bring in your chairs."),
                ("A seal on the slipway", "It stays until it goes. Please keep 30 metres away &amp; be quiet."),
            ),
        ),
        headers=_NEWS_HEADERS,
    ),
    Letter(
        "pictures",
        7,
        AMELIE,
        "Deux images du phare",
        text=("Bonjour Robin,\n\nvoici la lampe et la jetée. Ça te plaît ?\n\nAmélie\n"),
        html=(
            '<p>Bonjour Robin,</p><p>voici la lampe : <img src="cid:lamp@demo.test" alt="la lampe"></p>'
            '<p>et la jetée : <img src="cid:pier@demo.test" alt="la jetée"></p><p>Amélie</p>\n'
        ),
        files=PICTURES,
    ),
    Letter(
        "tide-ja",
        9,
        YUKI,
        "潮汐表の翻訳について",
        charset="iso-2022-jp",
        text=("ロビンさん、\n\n潮汐表の日本語訳が終わりました。確認をお願いします。\n\n田中\n"),
    ),
    Letter(
        "lens-ru",
        11,
        SERGEI,
        "Линза Френеля готова",
        charset="koi8-r",
        text=("Здравствуйте, Робин!\n\nЛинза готова и упакована. Отправим её в среду.\n\nСергей\n"),
    ),
    Letter(
        "shore-he",
        13,
        NOA,
        "סיור במגדלור ביום ראשון",
        flags="",
        text=("שלום רובין,\n\nנגיע ביום ראשון בשעה 10:00, שמונה אנשים. האם יש חניה?\n\nתודה, נועה\n"),
    ),
    Letter(
        "lantern-zh",
        16,
        LIWEI,
        "灯笼的尺寸",
        charset="gb18030",
        text=("你好,\n\n灯笼高 45 厘米,宽 30 厘米。需要几个?\n\n李伟\n"),
    ),
    Letter(
        "invoice",
        20,
        SHOP,
        "Your invoice 2041",
        flags="SF",
        text=("Thank you for your order.\n\n12 l white paint   86.40\n\nThe invoice is attached.\n"),
        files=(INVOICE,),
    ),
    Letter(
        "list-3",
        22,
        LIST,
        "[keepers] Re: Which fog horn?",
        answers="list-2",
        flags="",
        text=("On 2 pm, Ines wrote:\n> The old one woke the whole village.\n\nThat is what it was for.\n\n-- \nTom\n"),
        headers=_LIST_HEADERS,
    ),
    Letter(
        "list-2",
        24,
        LIST,
        "[keepers] Re: Which fog horn?",
        answers="list-1",
        text=("> Does anybody have a fog horn to spare?\n\nThe old one woke the whole village.\n\n-- \nInes\n"),
        headers=_LIST_HEADERS,
    ),
    Letter(
        "list-1",
        25,
        LIST,
        "[keepers] Which fog horn?",
        text=("Does anybody have a fog horn to spare?\n\n-- \nTom\n"),
        headers=_LIST_HEADERS,
    ),
    Letter(
        "minutes",
        28,
        OSKAR,
        _LONG_SUBJECT,
        text=(
            "The minutes follow.\n\n"
            + "".join(f"{n}. We talked about point {n} and found that it can wait.\n" for n in range(1, 121))
        ),
        cc=(COLLEAGUE, JOSE),
    ),
    Letter(
        "lamp-1",
        31,
        COLLEAGUE,
        "Lighting the lamp",
        flags="SR",
        text=(
            "Hello Robin,\n\nthe lamp is clean. Shall we light it on Friday, or wait for the museum people?\n\nMira\n"
        ),
    ),
    Letter(
        "pier-es",
        34,
        JOSE,
        "Presupuesto del muelle: ¿mañana o el año que viene?",
        charset="iso-8859-1",
        text=("Robin:\n\nel muelle necesita tres tablones y paciencia. ¿Empezamos mañana?\n\nJosé Ángel\n"),
    ),
    Letter(
        "photos",
        38,
        OSKAR,
        "Fwd: Old photographs of the pier",
        text=("Robin, would you answer Ines? Her message is attached.\n\nOskar\n"),
        files=(FORWARDED,),
    ),
    Letter(
        "statement",
        44,
        BANK,
        "Your statement is ready",
        text=("Your statement for this month is ready. We never ask for your password by mail.\n"),
        html="<p>Your statement for this month is <b>ready</b>.</p><p>We never ask for your password by mail.</p>\n",
    ),
    Letter(
        "door", 50, AMELIE, "Maße der Tür", text="Hallo Robin, die Maße stehen im Anhang.\n\nAmélie\n", files=(NOTE,)
    ),
    Letter(
        "budget",
        55,
        COLLEAGUE,
        "Budget, second half",
        flags="SF",
        text=("The table is attached; the benches are the open point.\n\nMira\n"),
        files=(BUDGET, INVOICE),
        cc=(OSKAR,),
    ),
    Letter("plain", 61, UNKNOWN, "", text="is the tower open on sundays\n"),
    Letter(
        "quotes",
        70,
        JOSE,
        'Re: "Plank, the third" — a question',
        text=(
            "> > Which plank?\n> The third.\n\nFrom the left or from the right?\n\n"
            ".\n..\nFrom here it looks the same.\n"
        ),
    ),
    Letter(
        "tides-39",
        77,
        NEWS,
        "Neap tides, and where the ferry went",
        text="",
        html=_newsletter(
            "The Tide Table",
            (
                ("Neap tides", "Little water, much mud."),
                ("Where the ferry went", "To the yard, for paint. It is back on Monday."),
            ),
        ),
        headers=_NEWS_HEADERS,
    ),
    Letter(
        "build-211",
        90,
        BUILD,
        "[lighthouse-site] Build 211 failed",
        text=(
            "2 of 318 checks failed:\n\n  tests/test_tide.py::test_high_water\n  tests/test_tide.py::test_low_water\n"
        ),
        headers=(("Auto-Submitted", "auto-generated"), ("X-Priority", "1")),
    ),
    Letter("emoji", 101, COLLEAGUE, "🎉🗼", text="👍🏽 👩‍👩‍👧 🇳🇴\n"),
)


# --- Sent, filed, deleted, and unsolicited mail ---


LIGHTHOUSE = "Projects/Lighthouse"
SENT = (
    Letter(
        "lamp-2",
        30,
        OWNER,
        "Re: Lighting the lamp",
        to=(COLLEAGUE,),
        answers="lamp-1",
        text=("On Friday, before the museum people come.\n\nRobin\n\n> Shall we light it on Friday?\n"),
    ),
    Letter(
        "to-sergei",
        48,
        OWNER,
        "Fresnel lens: address for the delivery",
        to=(SERGEI,),
        cc=(COLLEAGUE,),
        text=("Dear Sergei,\n\nNorth pier 1, second gate. Mind the step.\n\nRobin\n"),
    ),
    Letter("to-jose", 71, OWNER, "Plank, the third", to=(JOSE,), text="The third.\n\nRobin\n"),
    Letter(
        "to-many",
        120,
        OWNER,
        "Cleaning day",
        to=(COLLEAGUE, JOSE, AMELIE),
        cc=(OSKAR,),
        text=("Saturday at nine. There will be soup.\n\nRobin\n"),
    ),
)
FILED = (
    Letter(
        "draft",
        4,
        OWNER,
        "Leaflet, first try",
        to=(OSKAR,),
        folder="Drafts",
        flags="SD",
        text=("112 steps, one lamp, no lift.\n\n(to do: opening hours)\n"),
    ),
    Letter(
        "stairs-2",
        60,
        OSKAR,
        "Re: Stairs",
        folder=LIGHTHOUSE,
        answers="stairs-1",
        cc=(COLLEAGUE,),
        text=("112. I counted twice.\n"),
    ),
    Letter("stairs-1", 62, COLLEAGUE, "Stairs", folder=LIGHTHOUSE, text="How many are there really?\n"),
    Letter(
        "paint",
        85,
        AMELIE,
        "Le blanc n'est pas blanc",
        folder=LIGHTHOUSE,
        charset="windows-1252",
        text=("Cher Robin,\n\nil y a trois blancs : « craie », « écume » et « voile ». 40 € le pot.\n\nAmélie\n"),
    ),
    Letter(
        "spec",
        96,
        SERGEI,
        "Lens specification",
        folder=LIGHTHOUSE,
        flags="SF",
        text=("Focal length 500 mm, 12 rings, 31 kg.\n"),
        html="<table border=1><tr><th>Focal length<td>500 mm<tr><th>Rings<td>12<tr><th>Weight<td>31 kg</table>\n",
    ),
    Letter(
        "contract",
        150,
        OSKAR,
        "Signed: agreement with the museum",
        folder="Archive",
        flags="SF",
        text=("Both copies are signed. Thank you!\n"),
        files=(INVOICE,),
    ),
    Letter("ticket", 140, SHOP, "Your parcel was delivered", folder="Archive", text="It waits at your neighbour's.\n"),
    Letter("soup", 118, JOSE, "Re: Cleaning day", folder="Archive", answers="to-many", text="I bring the soup.\n"),
    Letter("old-news", 130, NEWS, "The Tide Table takes a break", folder="Trash", text="Back in a week.\n"),
    Letter("wrong", 75, BANK, "Test, please ignore", folder="Trash", text="Test.\n"),
    Letter(
        "prize",
        26,
        PRIZES,
        "YOU HAVE WON!!! Claim your LIGHTHOUSE now",
        folder="Junk",
        flags="",
        text=("Dear winner, send us your details to claim one (1) lighthouse.\n"),
        html='<h1 style="color:red">YOU HAVE WON!!!</h1><p><a href="https://prizes.example/claim">Claim now</a></p>\n',
    ),
    Letter("pills", 67, PRIZES, "Cheap fog, best quality", folder="Junk", flags="", text="Fog. Cheap. Now.\n"),
)


#: All letters of the owner's mailbox, each with its folder.
LETTERS: tuple[tuple[str, Letter], ...] = (
    *((letter.folder, letter) for letter in (*INBOX, *FILED)),
    *(("Sent", letter) for letter in SENT),
)
#: Addresses of the owner of the sample mailbox and of a colleague who has one too.
OWNER_EMAIL, COLLEAGUE_EMAIL = OWNER.addr_spec, COLLEAGUE.addr_spec
_BY_KEY = {letter.key: letter for _, letter in LETTERS}


def fill_mailboxes(folder: Path, now: datetime | None = None) -> None:
    """Create two mailboxes in the folder: the owner's with all sample mail, and an empty one of a colleague.

    `now`: the time from which the age of messages counts, by default the current one.
    """
    now = now or datetime.now(UTC)
    for email in (OWNER_EMAIL, COLLEAGUE_EMAIL):
        maildir.make_mailbox(folder / email)
    for path, letter in LETTERS:
        maildir.add_message(
            folder / OWNER_EMAIL, path, compose_letter(letter, now), letter.flags, _build_message(letter, now)
        )


def compose_letter(letter: Letter, now: datetime) -> bytes:
    """Return a sample message as MIME bytes. `now`: the time from which its age counts.

    The same arguments always give the same bytes.
    """
    message = EmailMessage(policy=SMTP)
    message["From"] = letter.sender
    message["To"] = letter.to or (OWNER,)
    if letter.cc:
        message["Cc"] = letter.cc
    message["Subject"] = letter.subject
    message["Date"] = _build_message(letter, now)
    message["Message-ID"] = _message_id(letter.key)
    if letter.answers:
        message["In-Reply-To"] = _message_id(letter.answers)
        message["References"] = " ".join(reversed([_message_id(key) for key in _ancestor_keys(letter)]))
    for name, value in letter.headers:
        message[name] = value
    _write_body(message, letter)
    _fix_boundaries(message, letter.key)
    return message.as_bytes()


def _build_message(letter: Letter, now: datetime) -> datetime:
    return now.replace(microsecond=0) - timedelta(hours=letter.hours)


def _message_id(key: str) -> str:
    return f"<{key}@sample.demo.test>"


def _ancestor_keys(letter: Letter) -> list[str]:
    """Return the keys of the earlier messages in the thread of a reply, starting with the one it answers."""
    keys = []
    while letter.answers:
        keys.append(letter.answers)
        letter = _BY_KEY[letter.answers]
    return keys


def _write_body(message: EmailMessage, letter: Letter) -> None:
    if letter.text:
        message.set_content(letter.text, charset=letter.charset)
    if letter.html and letter.text:
        message.add_alternative(letter.html, subtype="html")
    elif letter.html:
        message.set_content(letter.html, subtype="html")
    for file in letter.files:
        if file.content_id:
            _attach_inline(message, file)
        else:
            _attach(message, file)


def _attach_inline(message: EmailMessage, file: LetterFile) -> None:
    """Add an image that the HTML of the message shows (RFC 2387)."""
    kind, _, subtype = file.kind.partition("/")
    related = message.get_body(("related", "html"))
    assert isinstance(related, EmailMessage)  # noqa: S101 - a letter with pictures has HTML
    related.add_related(
        file.content, kind, subtype, cid=f"<{file.content_id}>", filename=file.name, disposition="inline"
    )


def _attach(message: EmailMessage, file: LetterFile) -> None:
    kind, _, subtype = file.kind.partition("/")
    if kind == "message":
        message.add_attachment(message_from_bytes(file.content, policy=SMTP), filename=file.name)
    elif kind == "text":
        message.add_attachment(file.content.decode("utf-8"), subtype=subtype, filename=file.name)
    else:
        message.add_attachment(file.content, kind, subtype, filename=file.name)


def _fix_boundaries(message: EmailMessage, key: str) -> None:
    """Set MIME boundaries derived from `key`, since random ones would give different bytes each time."""
    for number, part in enumerate(message.walk()):
        if part.is_multipart() and part.get_content_maintype() == "multipart":
            part.set_boundary(f"=_{key}_{number}")
