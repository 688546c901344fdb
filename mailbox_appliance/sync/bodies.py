"""Messages with their bodies: small ones whole, large ones without their attachments, and those that cannot be had."""

from collections.abc import Collection, Iterator, Sequence

from msgspec.structs import replace

from mailbox_appliance.mail.large import LARGE, LONGEST_SECTION, parse_large, text_sections
from mailbox_appliance.mail.parse import parse
from mailbox_appliance.records import FetchedMessage, ParsedMessage
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.sync.means import Means

Read = list[tuple[FetchedMessage, ParsedMessage]]

NOT_GIVEN = "The server does not give this message; only what is known of its header is shown."
_PIECE = 1 << 20
_LONGEST_HEADER = 1 << 20
_LONGEST_BROKEN = 4 << 20


def read(means: Means, folder_number: int, messages: Sequence[FetchedMessage]) -> Iterator[tuple[bool, Read]]:
    """Messages of the selected folder, of which the headers are known, in groups: whether these are large, and they.

    Those that are gone meanwhile are left out. Raises RemoteFault.
    """
    caution = means.caution
    hopeless = [message.uid for message in messages if caution.is_hopeless("bodies", folder_number, message.uid)]
    small = [m.uid for m in messages if m.size <= LARGE and m.uid not in hopeless]
    found = whole(means, folder_number, small)
    parsed = means.parsers.begin([message.source for message in found]).result()
    missing = {*small, *hopeless} - {message.uid for message in found}
    yield False, [*zip(found, parsed, strict=True), *not_given(means, missing)]
    for message in messages:
        if message.size > LARGE and message.uid not in hopeless:
            yield read_large(means, folder_number, message)


def whole(means: Means, folder_number: int, uids: Sequence[int]) -> list[FetchedMessage]:
    """Small messages, with all of their sources, without those that are gone or cannot be had."""
    if not uids:
        return []
    with means.caution.trying("bodies", folder_number, uids):
        return list(means.mailbox.fetch(uids))


def read_large(means: Means, folder_number: int, message: FetchedMessage) -> tuple[bool, Read]:
    """A large message: its header, structure and texts are fetched. As a group of `read`."""
    try:
        with means.caution.trying("bodies", folder_number, [message.uid]):
            return True, [(message, _large(means, message.uid))]
    except RemoteFault as fault:
        if fault.kind != "refused":
            raise
        return False, not_given(means, [message.uid])


def not_given(means: Means, uids: Collection[int]) -> Read:
    """Those of the messages that are there, by their headers alone, with a warning that this is all."""
    if not uids:
        return []
    means.mailbox.refresh()  # most likely they were moved away or deleted this moment
    return [(message, without_body(message)) for message in means.mailbox.fetch_headers(sorted(uids))]


def without_body(message: FetchedMessage) -> ParsedMessage:
    """What can be shown of a message by its header alone."""
    parsed = parse(message.source)
    return replace(parsed, warnings=(*parsed.warnings, NOT_GIVEN))


def _large(means: Means, uid: int) -> ParsedMessage:
    structure = means.mailbox.structure(uid)
    header = _section(means, uid, "HEADER", _LONGEST_HEADER)
    texts = {number: _section(means, uid, number, LONGEST_SECTION) for number in text_sections(structure)}
    parsed = parse_large(header, structure, texts)
    if parsed.text or parsed.html or parsed.attachments:
        return parsed
    # Seen in practice: a boundary that is never there. The server sees no parts; our reader shows what there is.
    return parse(_section(means, uid, "", _LONGEST_BROKEN))


def _section(means: Means, uid: int, section: str, longest: int) -> bytes:
    data = bytearray()
    while len(data) < longest:
        count = min(_PIECE, longest - len(data))
        piece = means.mailbox.read(uid, section, len(data), count)
        data += piece
        if len(piece) < count:
            break
        means.go_on()
    return bytes(data)
