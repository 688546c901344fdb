"""Names of files: only names, safe to show and to save, and the same in a list and on the wire (RFC 2183 2.3)."""

import re

from mailbox_appliance.mail import encoded_words
from mailbox_appliance.mail.field_reading import without_controls

_LONGEST = 200
# Controls, line separators, and the marks that turn the direction of text around.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_EXTENSIONS = {
    "application/pdf": ".pdf",
    "image/gif": ".gif",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "message/global": ".eml",
    "message/rfc822": ".eml",
    "text/calendar": ".ics",
    "text/html": ".html",
    "text/plain": ".txt",
}


def received(value: str) -> str:
    """The name out of a header field; empty where it has none.

    Encoded words do not belong there (RFC 2047 5) but are what many programs write.
    """
    return plain(encoded_words.decode(value))


def plain(name: str) -> str:
    """Only a name: no folders, no controls, no marks of direction, at most 200 characters; empty where none is left."""
    name = without_controls(_UNSEEN.sub("", name)).replace("\\", "/").rpartition("/")[2].strip()
    if not name.strip(". "):
        return ""
    stem, dot, extension = name.rpartition(".")
    if len(name) <= _LONGEST or not dot or len(extension) > 20:
        return name[:_LONGEST].rstrip()
    return f"{stem[: _LONGEST - 1 - len(extension)]}.{extension}"


def made_up(stem: str, mime_type: str) -> str:
    """A name for a file that has none, with the extension that its type usually has."""
    return stem + _EXTENSIONS.get(mime_type, "")
