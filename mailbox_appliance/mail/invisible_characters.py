"""Remove characters that nobody sees, with which a sender can show a program other text than its reader (Unicode 5.21,
23.2 to 23.4).

Invisible characters that belong to visible text stay:

- joiners inside an emoji, or between Arabic or Indic letters
- one variation selector after a character that has variants
- the tag characters in the flags of England, Scotland and Wales
"""

import re

_EMOJI = "\u203c-\u3299\U0001f000-\U0001faff"
_JOINED = "\u0600-\u0dff\u1000-\u109f\u1780-\u18af\u2190-\u2bff\ufe0f\U0001f000-\U0001faff"
_HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_VARIED = f"{_HAN}\u1000-\u109f\u2200-\u22ff\u2a00-\u2aff\ua840-\ua87f"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
#: Default_Ignorable_Code_Point without the above, annotations, and controls other than line breaks and tab.
_IGNORABLE = (
    "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065"
    "\u206a-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_BREAKING = "\x0b\x0c\r\x85\u2028\u2029"
_FLAGS = "|".join("".join(chr(0xE0000 + ord(letter)) for letter in place) for place in ("gbeng", "gbsct", "gbwls"))
_SUSPECTS = re.compile(f"[{_BIDI}{_BREAKING}{_IGNORABLE}]+")
_IN_ASCII = re.compile("[\x00-\x08\x0b-\x1f\x7f]")
_VIRAMAS = "\u094d\u09cd\u0a4d\u0acd\u0b4d\u0bcd\u0c4d\u0ccd\u0d4d\u0dca"
_KEPT = re.compile(
    f"(?<=[{_VIRAMAS}])[\u200c\u200d]|(?<=[{_JOINED}])[\u200c\u200d](?=[{_JOINED}])"
    f"|(?<=[{_EMOJI}\u00a9\u00ae])[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
    f"|(?<=[{_VARIED}])[\ufe00-\ufe0d]|(?<=[{_HAN}])[\U000e0100-\U000e01ef]"
    "|(?<=[\u1100-\u115e\ua960-\ua97c])\u1160|\u115f(?=[\u1161-\u11a7])"
    "|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
)
_DIRECTS = re.compile(f"[{_BIDI}]")
_BREAKS = re.compile(f"[{_BREAKING}]")
_TAGS_OF_A_FLAG = 6
_MOST_LOOKED_AT = 100_000  # runs in one text; later runs are removed completely
_FLAG = re.compile(f"\U0001f3f4(?:{_FLAGS})\U000e007f")


def strip_invisible(text: str) -> tuple[str, int, int]:
    """Return the text without invisible characters, the number of zero-width ones removed, and the number of direction
    controls removed.

    Line breaks of all kinds become line feeds.
    """
    if not (_IN_ASCII if text.isascii() else _SUSPECTS).search(text):
        return text, 0, 0
    sieve = _Sieve(text.replace("\r\n", "\n"))
    seen = _SUSPECTS.sub(sieve.visible_part, sieve.text)
    return seen, sieve.zero_width, sieve.bidi


class _Sieve:
    """Removes the invisible characters of one text, run by run, and counts them."""

    def __init__(self, text: str) -> None:
        self.text, self.runs, self.zero_width, self.bidi = text, 0, 0, 0
        self._flags = {flag.start() + 1 for flag in _FLAG.finditer(text)} if "\U0001f3f4" in text else ()

    def visible_part(self, found: re.Match[str]) -> str:
        """Return the replacement of one run of invisible characters: those at its start that belong to visible text,
        and its line breaks.
        """
        run, start = found[0], found.start()
        kept = 0
        if start in self._flags:
            kept = _TAGS_OF_A_FLAG
        elif self.runs < _MOST_LOOKED_AT:
            while kept < 2 and kept < len(run) and _KEPT.match(self.text, start + kept):
                kept += 1
        self.runs += 1
        rest = run[kept:]
        breaks = len(_BREAKS.findall(rest)) if rest else 0
        directions = len(_DIRECTS.findall(rest)) if rest else 0
        self.bidi += directions
        self.zero_width += len(rest) - breaks - directions
        return run[:kept] + "\n" * breaks
