"""The sample mailboxes of the demo: the correspondence as messages (RFC 5322, RFC 2045), laid into maildirs."""

from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

from mailbox_appliance.demo import correspondence, filed, maildir
from mailbox_appliance.demo.letters import COLLEAGUE, OWNER, File, Letter

#: Every letter of the owner's mailbox, with the folder that it lies in.
LETTERS: tuple[tuple[str, Letter], ...] = (
    *((letter.folder, letter) for letter in (*correspondence.INBOX, *filed.FILED)),
    *(("Sent", letter) for letter in filed.SENT),
)
#: Addresses of the owner of the sample mailbox and of a colleague who has one too.
OWNER_EMAIL, COLLEAGUE_EMAIL = OWNER.addr_spec, COLLEAGUE.addr_spec
_BY_KEY = {letter.key: letter for _, letter in LETTERS}


def fill(folder: Path, now: datetime | None = None) -> None:
    """Make the mailbox of the owner, with all mail, and an empty one of the colleague. Ages count from `now`."""
    now = now or datetime.now(UTC)
    for email in (OWNER_EMAIL, COLLEAGUE_EMAIL):
        maildir.make(folder / email)
    for path, letter in LETTERS:
        maildir.add(folder / OWNER_EMAIL, path, compose(letter, now), letter.flags, _written(letter, now))


def compose(letter: Letter, now: datetime) -> bytes:
    """The letter as a message; the same letter and time give the same bytes."""
    message = EmailMessage(policy=SMTP)
    message["From"] = letter.sender
    message["To"] = letter.to or (OWNER,)
    if letter.cc:
        message["Cc"] = letter.cc
    message["Subject"] = letter.subject
    message["Date"] = _written(letter, now)
    message["Message-ID"] = _message_id(letter.key)
    if letter.answers:
        message["In-Reply-To"] = _message_id(letter.answers)
        message["References"] = " ".join(reversed([_message_id(key) for key in _ancestors(letter)]))
    for name, value in letter.headers:
        message[name] = value
    _write_body(message, letter)
    _fix_boundaries(message, letter.key)
    return message.as_bytes()


def _written(letter: Letter, now: datetime) -> datetime:
    return now.replace(microsecond=0) - timedelta(hours=letter.hours)


def _message_id(key: str) -> str:
    return f"<{key}@sample.demo.test>"


def _ancestors(letter: Letter) -> list[str]:
    """The keys of what a letter answers, the nearest first."""
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
            _show(message, file)
        else:
            _attach(message, file)


def _show(message: EmailMessage, file: File) -> None:
    """Put a picture beside the HTML that shows it (RFC 2387)."""
    kind, _, subtype = file.kind.partition("/")
    related = message.get_body(("related", "html"))
    assert isinstance(related, EmailMessage)  # noqa: S101 - a letter with pictures has HTML
    related.add_related(
        file.content, kind, subtype, cid=f"<{file.content_id}>", filename=file.name, disposition="inline"
    )


def _attach(message: EmailMessage, file: File) -> None:
    kind, _, subtype = file.kind.partition("/")
    if kind == "message":
        message.add_attachment(message_from_bytes(file.content, policy=SMTP), filename=file.name)
    elif kind == "text":
        message.add_attachment(file.content.decode("utf-8"), subtype=subtype, filename=file.name)
    else:
        message.add_attachment(file.content, kind, subtype, filename=file.name)


def _fix_boundaries(message: EmailMessage, key: str) -> None:
    """Name the boundaries after the letter; random ones would make other bytes each time."""
    for number, part in enumerate(message.walk()):
        if part.is_multipart() and part.get_content_maintype() == "multipart":
            part.set_boundary(f"=_{key}_{number}")
