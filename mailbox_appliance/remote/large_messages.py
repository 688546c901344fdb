"""A large message, read over a connection without its attachments."""

from collections.abc import Callable

from mailbox_appliance.mail.field_reading import MAX_HEADER
from mailbox_appliance.mail.large import LONGEST_SECTION, parse_large, text_sections
from mailbox_appliance.mail.parse import parse
from mailbox_appliance.records import ParsedMessage
from mailbox_appliance.remote.imap import ImapMailbox

_PIECE = 1 << 20
_LONGEST_BROKEN = 4 << 20


def _without_a_break() -> None:
    """Nobody can stop it."""


def read_large(mailbox: ImapMailbox, uid: int, go_on: Callable[[], None] = _without_a_break) -> ParsedMessage:
    """What a message of the selected folder says: its header, structure and texts are fetched. Raises RemoteFault.

    `go_on` is called between pieces; what it raises ends the reading, after which the connection is as good as before.
    """

    def section(number: str, longest: int) -> bytes:
        data = bytearray()
        while len(data) < longest:
            count = min(_PIECE, longest - len(data))
            piece = mailbox.read(uid, number, len(data), count)
            data += piece
            if len(piece) < count:
                break
            go_on()
        return bytes(data)

    structure = mailbox.structure(uid)
    header = section("HEADER", MAX_HEADER)
    texts = {number: section(number, LONGEST_SECTION) for number in text_sections(structure)}
    parsed = parse_large(header, structure, texts)
    if parsed.text or parsed.html or parsed.attachments:
        return parsed
    # Seen in practice: a boundary that is never there. The server sees no parts; our reader shows what there is.
    return parse(section("", _LONGEST_BROKEN))
