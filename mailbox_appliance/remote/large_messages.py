"""A large message, read over a connection without its attachments."""

from collections import Counter
from collections.abc import Callable

from mailbox_appliance.mail.field_reading import MAX_HEADER
from mailbox_appliance.mail.large import LONGEST_SECTION, ends, parse_large, size_by_end, text_sections
from mailbox_appliance.mail.parse import parse
from mailbox_appliance.mail.readers import TAGS, HtmlReader
from mailbox_appliance.model.records import ListedPart, ParsedMessage
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap import ImapMailbox

_PIECE = 1 << 20
_LONGEST_BROKEN = 4 << 20
_MOST_BROKEN = 3
#: How often, one after the other, an account's server gave no ends: it refused, or the connection broke. Then it is
#: asked no more.
_broken: Counter[tuple[str, str]] = Counter()


def _without_a_break() -> None:
    """Nobody can stop it."""


def read_large(
    mailbox: ImapMailbox, uid: int, go_on: Callable[[], None] = _without_a_break, reader: HtmlReader = TAGS
) -> ParsedMessage:
    """What a message of the selected folder says: its header, structure and texts are fetched. Raises RemoteFault.

    `go_on` is called between pieces; what it raises ends the reading, after which the connection is as good as before.
    """

    def section(number: str, longest: int) -> bytes:
        data = bytearray()
        while len(data) < longest:
            count = min(_PIECE, longest - len(data))
            piece = mailbox.read_section(uid, number, len(data), count)
            data += piece
            if len(piece) < count:
                break
            go_on()
        return bytes(data)

    structure = mailbox.fetch_structure(uid)
    header = section("HEADER", MAX_HEADER)
    texts = {number: section(number, LONGEST_SECTION) for number in text_sections(structure)}
    parsed = parse_large(header, structure, texts, _sizes(mailbox, uid, structure), reader)
    if parsed.text or parsed.html or parsed.attachments:
        return parsed
    # Seen in practice: a boundary that is never there. The server sees no parts; our reader shows what there is.
    return parse(section("", _LONGEST_BROKEN), reader)


def forget_broken() -> None:
    """Ask every server again."""
    _broken.clear()


def _sizes(mailbox: ImapMailbox, uid: int, structure: ListedPart) -> dict[str, int]:
    """How large parts are, decoded, as far as their ends tell; others are estimated."""
    wanted = {end.number: end for end in ends(structure)}
    if not wanted or _broken[mailbox.account] >= _MOST_BROKEN:
        return {}
    try:
        tails = mailbox.read_ends(uid, tuple(wanted.values()))
    except RemoteFault:
        # The message is here all the same; a connection that has ended is noticed by whoever uses it next.
        _broken[mailbox.account] += 1
        return {}
    _broken.pop(mailbox.account, None)
    sizes = {number: size_by_end(wanted[number], tail) for number, tail in tails.items()}
    return {number: size for number, size in sizes.items() if size is not None}
