"""Encoded words: how text that is not ASCII travels in header fields (RFC 2047). Read leniently, written strictly."""

import binascii
import re
from collections.abc import Iterator

from mailbox_appliance.mail import charsets

# Lenient: other programs leave spaces and question marks in the text, and put encoded words right beside other text.
ENCODED_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*(?:(?<!=)\?(?!=)[^?]*){0,3})\?=")
_PIECE = 1 << 20
_LONGEST = 62  # RFC 2047 2 allows 75; the shorter ones fit on the first line of a field as well.
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OUTSIDE_BASE64 = bytes(set(range(256)) - set(_BASE64))
_SAFE_IN_Q = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/")  # RFC 2047 5 (3)


def decode(text: str) -> str:
    """Text with its encoded words decoded; white space between two of them is dropped (RFC 2047 6.2)."""
    if "=?" not in text:
        return text
    pieces: list[str] = []
    run: list[tuple[str, bytes]] = []
    end = 0
    for match in ENCODED_WORD.finditer(text):
        between = text[end : match.start()]
        if between.strip() or not run:
            pieces += [_join(run), between]
            run = []
        run.append((match[1], payload(match[2], match[3])))
        end = match.end()
    return "".join([*pieces, _join(run), text[end:]])


def _join(run: list[tuple[str, bytes]]) -> str:
    """Neighbouring words of one character set are decoded as one.

    Seen in practice: a character of several bytes is cut in two by the end of a word.
    """
    joined: list[tuple[str, bytearray]] = []
    for charset, raw in run:
        if joined and joined[-1][0].lower() == charset.lower():
            joined[-1][1].extend(raw)
        else:
            joined.append((charset, bytearray(raw)))
    # RFC 2231 5: a language may follow the character set.
    return "".join(charsets.decode(bytes(raw), charset.split("*")[0])[0] for charset, raw in joined)


def payload(encoding: str, text: str) -> bytes:
    """The bytes that an encoded word carries; broken base64 gives what can be read of it."""
    raw = text.encode("utf-8", "replace")
    if encoding in "qQ":
        return binascii.a2b_qp(raw, header=True)
    return decode_base64(raw)[0]


def decode_base64(raw: bytes | memoryview) -> tuple[bytes, bool]:
    """The decoded bytes, and whether the base64 was whole; what is no base64 is skipped, as RFC 2045 6.8 wants."""
    try:
        return binascii.a2b_base64(raw), True
    except binascii.Error:
        clean = bytes(raw).translate(None, _OUTSIDE_BASE64)
        whole = clean[: len(clean) - (len(clean) % 4 == 1)]
        return binascii.a2b_base64(whole + b"=" * (-len(whole) % 4)), False


def size_of_base64(raw: bytes) -> int | None:
    """How many bytes `decode_base64` gives, told without decoding; None where that takes decoding."""
    # In pieces: what is done with all of a large file in one step, others wait for.
    others = b"".join(raw[start : start + _PIECE].translate(None, _BASE64) for start in range(0, len(raw), _PIECE))
    padding = others.translate(None, b"\r\n")
    characters = len(raw) - len(others)
    is_whole = padding in (b"", b"=", b"==") and (characters + len(padding)) % 4 == 0
    return characters * 3 // 4 if is_whole and raw.rstrip(b"\r\n").endswith(padding) else None


def hidden(text: str) -> Iterator[str]:
    """What a reader may take out of anything that looks like an encoded word: its bytes as they are, and decoded."""
    for match in ENCODED_WORD.finditer(text):
        raw = payload(match[2], match[3])
        yield raw.decode("latin_1")
        yield charsets.decode(raw, match[1].split("*")[0])[0]


def encode(text: str) -> list[str]:
    """Encoded words in UTF-8, to be joined by white space; characters are never cut, and Q or B, what is shorter."""
    raw = text.encode("utf-8", "replace")
    quoted = sum(1 if byte in _SAFE_IN_Q or byte == 0x20 else 3 for byte in raw)
    make = _q_word if quoted <= (len(raw) + 2) // 3 * 4 else _b_word
    words: list[str] = []
    start = 0
    while start < len(text):
        end = start + 1
        word = make(text[start:end])
        while end < len(text) and len(longer := make(text[start : end + 1])) <= _LONGEST:
            word, end = longer, end + 1
        words.append(word)
        start = end
    return words


def _q_word(text: str) -> str:
    encoded = "".join(
        chr(byte) if byte in _SAFE_IN_Q else "_" if byte == 0x20 else f"={byte:02X}"
        for byte in text.encode("utf-8", "replace")
    )
    return f"=?utf-8?Q?{encoded}?="


def _b_word(text: str) -> str:
    return f"=?utf-8?B?{binascii.b2a_base64(text.encode('utf-8', 'replace'), newline=False).decode()}?="
