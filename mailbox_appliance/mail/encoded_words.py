"""Decode and encode the text of header fields: comments, character sets and encoded words (RFC 2047).

Decoding is lenient, encoding is strict. The functions for character sets are used for bodies too.
"""

import binascii
import re
from collections.abc import Iterator
from encodings.aliases import aliases
from functools import lru_cache

# --- Comments: text in parentheses, which can be nested (RFC 5322 3.2.2) ---


_COMMENT_SIGN = re.compile(r"\\.|[()]", re.S)


def comment_end(value: str, start: int) -> int:
    """Return the position after the comment whose `(` is at `start`. The length of the value if the comment is not
    closed.
    """
    depth = 0
    for sign in _COMMENT_SIGN.finditer(value, start):
        depth += {"(": 1, ")": -1}.get(sign[0], 0)
        if depth == 0:
            return sign.end()
    return len(value)


def remove_comments(value: str) -> str:
    """Return the value of a header field with a space in place of each comment in parentheses."""
    pieces: list[str] = []
    position = 0
    while (start := value.find("(", position)) >= 0:
        pieces += [value[position:start], " "]
        position = comment_end(value, start)
    return "".join([*pieces, value[position:]]) if pieces else value


# --- Character sets: the names in mail, and the fallback for missing or wrong names ---


_NO_CHARACTER_SETS = {
    "base64_codec",
    "bz2_codec",
    "hex_codec",
    "mbcs",
    "quopri_codec",
    "rot_13",
    "uu_codec",
    "zlib_codec",
}
_ALSO_THERE = {"cp720", "cp737", "cp874", "iso8859_1", "koi8_t", "koi8_u", "mac_arabic", "utf_8_sig"}
# Only these are looked up: a name from a message reaches neither the import system nor a codec like `idna`.
_CODECS = (set(aliases.values()) | _ALSO_THERE) - _NO_CHARACTER_SETS

# Replacements: names of smaller sets that real mail uses for the larger set.
_SEEN_IN_PRACTICE = {
    "ascii": "cp1252",
    "latin_1": "cp1252",
    "iso8859_1": "cp1252",
    "iso8859_9": "cp1254",
    "iso8859_11": "cp874",
    "tis_620": "cp874",
    "big5": "big5hkscs",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "ks_c_5601": "cp949",
    "ks_c_5601_1987": "cp949",
    "shift_jis": "cp932",
    "iso2022_jp": "iso2022_jp_ext",
    "iso_8859_8_i": "iso8859_8",
    "iso_8859_8_e": "iso8859_8",
    "utf8mb4": "utf_8",
    "unicode_1_1_utf_7": "utf_7",
    "unicode_1_1_utf_8": "utf_8",
    "sjis": "cp932",
    "win_1251": "cp1251",
}
# In these character sets, ASCII bytes do not always mean ASCII text.
_OTHERWISE_ASCII = {codec for codec in _CODECS if codec.startswith(("utf_16", "utf_32", "utf_7", "hz"))} | {
    *("cp037", "cp273", "cp424", "cp500", "cp1026", "cp1140"),
}
_SURROGATES = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=256)
def codec_of(charset: str) -> str | None:
    """Return the Python codec for the name of a character set in mail. None for an unknown name, such as
    `unknown-8bit`.
    """
    name = re.sub(r"[^a-z0-9]+", "_", charset[:60].lower()).strip("_")
    if name not in aliases and name not in _SEEN_IN_PRACTICE:
        name = name.removeprefix("x_").replace("windows_", "cp")
    codec = aliases.get(name, name)
    codec = _SEEN_IN_PRACTICE.get(name) or _SEEN_IN_PRACTICE.get(codec, codec)
    return codec if codec in _CODECS else None


def decode_charset(raw: bytes, charset: str | None) -> tuple[str, bool]:
    """Return the text, and whether the decoding is certain. The declared character set is tried first, then UTF-8; if
    both fail, unreadable bytes become replacement characters.

    The text never contains a surrogate, so it can always be written as UTF-8.
    """
    codec = codec_of(charset) if charset else None
    if raw.isascii() and b"\x1b" not in raw and codec not in _OTHERWISE_ASCII:
        return raw.decode("ascii"), True
    if codec is None and b"\x1b$" in raw:
        codec = "iso2022_jp_ext"  # Seen in practice: Japanese mail without a declaration (RFC 1468).
    for candidate in (codec, "utf_8"):
        if candidate and not (candidate == "cp1252" and _is_utf_8(raw)):
            try:
                return without_surrogates(_decode_strictly(raw, candidate)), candidate == codec or charset is None
            except UnicodeError:
                continue
    return _decode_with_replacement(raw, codec), False


def _decode_strictly(raw: bytes, codec: str) -> str:
    try:
        return raw.decode(codec)
    except UnicodeError:
        if codec != "iso2022_jp_ext":
            raise
        # Seen in practice: characters that NEC added to empty rows of JIS X 0208, such as circled digits. JIS X 0213
        # has them.
        return raw.replace(b"\x1b$B", b"\x1b$(Q").decode("iso2022_jp_2004")


def _is_utf_8(raw: bytes) -> bool:
    """Whether bytes are valid UTF-8 and not only ASCII. Text in a Latin character set is hardly ever valid UTF-8 by
    accident.
    """
    try:
        raw.decode()
    except UnicodeError:
        return False
    return not raw.isascii()


def _decode_with_replacement(raw: bytes, codec: str | None) -> str:
    """Return the text with U+FFFD in place of unreadable bytes. `codec`: that of the declared character set. Without
    one, text that is mostly UTF-8 is read as UTF-8, any other as windows-1252.
    """
    text = raw.decode("utf_8", "replace")
    if codec == "utf_8" and _is_cut(raw):
        return text
    broken = text.count("\ufffd")
    if codec in (None, "utf_8", "cp1252") and sum(c > "\x7f" for c in text) >= 2 * broken:
        return text  # Mostly UTF-8 with a few broken bytes: windows-1252 would corrupt all other text.
    return without_surrogates(raw.decode("cp1252" if codec in (None, "utf_8") else codec, "replace"))


def _is_cut(raw: bytes) -> bool:
    """Whether bytes are valid UTF-8 except that at least two bytes of an incomplete character are at the end."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and len(raw) - error.start > 1
    return False


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD in place of lone surrogates, so that it can be written as UTF-8."""
    try:
        text.encode()  # much faster than searching for surrogates
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


# --- Encoded words (RFC 2047) ---


# Lenient: other programs leave spaces and question marks in the text, and write encoded words directly beside other
# text.
ENCODED_WORD = re.compile(r"=\?([^?\s]{1,60})\?([bBqQ])\?([^?]*(?:(?<!=)\?(?!=)[^?]*){0,3})\?=")
_PIECE = 1 << 20
_LONGEST_WORD = 62  # RFC 2047 2 allows 75; shorter ones also fit on the first line of a field.
_BASE64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OUTSIDE_BASE64 = bytes(set(range(256)) - set(_BASE64))
_SAFE_IN_Q = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!*+-/")  # RFC 2047 5 (3)


def decode_words(text: str) -> str:
    """Return the text with its encoded words decoded. White space between two encoded words is dropped (RFC 2047
    6.2).
    """
    if "=?" not in text:
        return text
    pieces: list[str] = []
    run: list[tuple[str, bytes]] = []
    end = 0
    for match in ENCODED_WORD.finditer(text):
        between = text[end : match.start()]
        if between.strip() or not run:
            pieces += [_decode_run(run), between]
            run = []
        run.append((match[1], word_octets(match[2], match[3])))
        end = match.end()
    return "".join([*pieces, _decode_run(run), text[end:]])


def _decode_run(run: list[tuple[str, bytes]]) -> str:
    """Return the text of adjacent encoded words. `run`: character set and bytes of each. Words of the same character
    set are decoded as one text: in practice, some end within a character of several bytes.
    """
    joined: list[tuple[str, bytearray]] = []
    for charset, raw in run:
        if joined and joined[-1][0].lower() == charset.lower():
            joined[-1][1].extend(raw)
        else:
            joined.append((charset, bytearray(raw)))
    # RFC 2231 5: a language may follow the character set.
    return "".join(decode_charset(bytes(raw), charset.split("*")[0])[0] for charset, raw in joined)


def word_octets(encoding: str, text: str) -> bytes:
    """Return the bytes of an encoded word. Of broken base64, only the readable bytes. `encoding`: `Q` or `B`, in any
    case.
    """
    raw = text.encode("utf-8", "replace")
    if encoding in "qQ":
        return binascii.a2b_qp(raw, header=True)
    return decode_base64(raw)[0]


def decode_base64(raw: bytes | memoryview) -> tuple[bytes, bool]:
    """Return the decoded bytes, and whether the base64 was complete. Characters that are not base64 are skipped (RFC
    2045 6.8).
    """
    try:
        return binascii.a2b_base64(raw), True
    except binascii.Error:
        clean = bytes(raw).translate(None, _OUTSIDE_BASE64)
        whole = clean[: len(clean) - (len(clean) % 4 == 1)]
        return binascii.a2b_base64(whole + b"=" * (-len(whole) % 4)), False


def size_of_base64(raw: bytes) -> int | None:
    """Return the number of bytes that `decode_base64` would return, without decoding. None if only decoding can show
    it, as for broken base64.
    """
    # In pieces: a single step over a large file would delay other threads.
    others = b"".join(raw[start : start + _PIECE].translate(None, _BASE64) for start in range(0, len(raw), _PIECE))
    padding = others.translate(None, b"\r\n")
    characters = len(raw) - len(others)
    is_whole = padding in (b"", b"=", b"==") and (characters + len(padding)) % 4 == 0
    return characters * 3 // 4 if is_whole and raw.rstrip(b"\r\n").endswith(padding) else None


def possible_texts(text: str) -> Iterator[str]:
    """Yield, for each part of the text that looks like an encoded word, the texts that a reader may get from it: its
    bytes as Latin-1, and its decoded text.
    """
    for match in ENCODED_WORD.finditer(text):
        raw = word_octets(match[2], match[3])
        yield raw.decode("latin_1")
        yield decode_charset(raw, match[1].split("*")[0])[0]


def encode_words(text: str) -> list[str]:
    """Return the text as encoded words in UTF-8, which callers join by white space. No word ends within a character.
    The encoding is Q or B, whichever is shorter.
    """
    raw = text.encode("utf-8", "replace")
    quoted = sum(1 if byte in _SAFE_IN_Q or byte == 0x20 else 3 for byte in raw)
    make = _q_word if quoted <= (len(raw) + 2) // 3 * 4 else _b_word
    words: list[str] = []
    start = 0
    while start < len(text):
        end = start + 1
        word = make(text[start:end])
        while end < len(text) and len(longer := make(text[start : end + 1])) <= _LONGEST_WORD:
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
