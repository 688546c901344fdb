"""The blocks of a text with PEM (RFC 7468), found in one go: a pattern would begin its search anew at each BEGIN."""

import string
from collections.abc import Iterator

_BEGIN, _END, _DASHES = b"-----BEGIN ", b"-----END ", b"-----"
_LABEL = frozenset((string.ascii_uppercase + string.digits + " ").encode())
_LONGEST_LABEL = 40
#: Under which a certificate may stand; the second is an older name.
CERTIFICATES = (b"CERTIFICATE", b"X509 CERTIFICATE")


def blocks(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The label of each block, and all of it. One that has another's end, or none, is left out."""
    begin = text.find(_BEGIN)
    while begin >= 0:
        after = begin + len(_BEGIN)
        if label := _label(text, after):
            own_end = _END + label + _DASHES
            if (end := text.find(_END, after)) < 0:
                return
            after = end + len(_END)
            if text.startswith(own_end, end):
                after = end + len(own_end)
                yield label, text[begin:after]
        begin = text.find(_BEGIN, after)


def _label(text: bytes, at: int) -> bytes:
    """The label that stands here with dashes and the end of a line behind it; empty: none."""
    end = text.find(_DASHES, at, at + _LONGEST_LABEL + len(_DASHES))
    label = text[at : max(at, end)]
    is_alone = text[end + len(_DASHES) : end + len(_DASHES) + 1].isspace()
    return label if is_alone and _LABEL.issuperset(label) else b""
