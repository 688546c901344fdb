"""From bytes to text: the character sets that mail names, and what to do when the name is missing or wrong."""

import re
from encodings.aliases import aliases
from functools import lru_cache

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
# Only these are ever looked up: a name out of a message reaches neither the import system nor a codec like `idna`.
_CODECS = (set(aliases.values()) | _ALSO_THERE) - _NO_CHARACTER_SETS

# What is written instead of what is meant: a name of a smaller set that real mail fills from the bigger one.
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
# ASCII bytes do not always mean ASCII text in these.
_OTHERWISE_ASCII = {codec for codec in _CODECS if codec.startswith(("utf_16", "utf_32", "utf_7", "hz"))} | {
    *("cp037", "cp273", "cp424", "cp500", "cp1026", "cp1140"),
}
_SURROGATES = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=256)
def codec_of(charset: str) -> str | None:
    """The codec for a character set as mail names it; None for a name that says nothing, like `unknown-8bit`."""
    name = re.sub(r"[^a-z0-9]+", "_", charset[:60].lower()).strip("_")
    if name not in aliases and name not in _SEEN_IN_PRACTICE:
        name = name.removeprefix("x_").replace("windows_", "cp")
    codec = aliases.get(name, name)
    codec = _SEEN_IN_PRACTICE.get(name) or _SEEN_IN_PRACTICE.get(codec, codec)
    return codec if codec in _CODECS else None


def decode(raw: bytes, charset: str | None) -> tuple[str, bool]:
    """The text, and whether it was read without doubt: as declared, else as UTF-8, else with replacement characters.

    The text never holds a surrogate, so that it can always be written as UTF-8.
    """
    codec = codec_of(charset) if charset else None
    if raw.isascii() and b"\x1b" not in raw and codec not in _OTHERWISE_ASCII:
        return raw.decode("ascii"), True
    if codec is None and b"\x1b$" in raw:
        codec = "iso2022_jp_ext"  # Seen in practice: Japanese mail without a declaration (RFC 1468).
    for candidate in (codec, "utf_8"):
        if candidate and not (candidate == "cp1252" and _is_utf_8(raw)):
            try:
                return without_surrogates(_read(raw, candidate)), candidate == codec or charset is None
            except UnicodeError:
                continue
    return _replaced(raw, codec), False


def _read(raw: bytes, codec: str) -> str:
    try:
        return raw.decode(codec)
    except UnicodeError:
        if codec != "iso2022_jp_ext":
            raise
        # Seen in practice: what NEC put into empty rows of JIS X 0208, such as digits in circles. JIS X 0213 has it.
        return raw.replace(b"\x1b$B", b"\x1b$(Q").decode("iso2022_jp_2004")


def _is_utf_8(raw: bytes) -> bool:
    """Whether bytes are UTF-8 beyond ASCII; Latin letters that look so by accident hardly exist."""
    try:
        raw.decode()
    except UnicodeError:
        return False
    return not raw.isascii()


def _replaced(raw: bytes, codec: str | None) -> str:
    """The text with U+FFFD where it cannot be read."""
    text = raw.decode("utf_8", "replace")
    if codec == "utf_8" and _is_cut(raw):
        return text
    broken = text.count("\ufffd")
    if codec in (None, "utf_8", "cp1252") and sum(c > "\x7f" for c in text) >= 2 * broken:
        return text  # Mostly UTF-8, with a few broken bytes: windows-1252 would spoil all the rest.
    return without_surrogates(raw.decode("cp1252" if codec in (None, "utf_8") else codec, "replace"))


def _is_cut(raw: bytes) -> bool:
    """Whether bytes are UTF-8 but for their last character, of which there are at least two bytes."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and len(raw) - error.start > 1
    return False


def without_surrogates(text: str) -> str:
    """The text with U+FFFD for lone surrogates, so that it can be written as UTF-8."""
    try:
        text.encode()  # much faster than looking for them
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text
