"""The output of commands as text that is the same in every run: changing values become fixed ones.

IDs and tokens keep their length, so that tables keep their columns. The same ID gets the same number throughout a
command.
"""

import re
from collections.abc import Callable, Mapping

from mailbox_appliance.version import __version__

#: The year of all fixed dates; other times are those of the run.
YEAR = 2024
#: Lines and characters to keep of long output.
_MOST_LINES, _KEPT_LINES, _LONGEST_LINE, _KEPT_OF_LINE = 120, 25, 3_000, 600

_ID = re.compile(
    r"\b(mem|ses|key|acc|fld|msg|thr|att|dlv|sch|inv|aud|bak|req|whk|wat|evt|upl|apr)_[0-9a-hjkmnp-tv-z]{26}\b"
)


def _zeros(found: re.Match[str]) -> str:
    return re.sub(r"\d", "0", found[0])


# fmt: off
_MOVES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    # Times except those of the letters, also in file names.
    (rf"\b(?!{YEAR}|2026-01-31)\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",  _zeros),
    (rf"\b\w{{3}}, \d\d? \w{{3}} (?!{YEAR})\d{{4}} \d\d:\d\d:\d\d [+-]\d{{4}}", "DATE"),
    (r"\b\d{8}T\d{6}\d*Z",                                       _zeros),
    (r"(?<=whsec_)[\w+/=]{44}",                                   "0" * 44),
    (r"\b[0-9a-f]{16}-\d+\b",                                    "0" * 16 + "-0"),
    (r"(?<=Z  -       )\d+( *)(?=  evt_)", lambda found: "0" + " " * (len(found[0]) - 1)),
    (r"(durationMs\"?: )\d+",                                    r"\g<1>0"),
    # Tokens and links, the setup code, generated passphrases and passwords, fingerprints, IDs of stores.
    (r"\b(mbx[a-z]_)[0-9A-Za-z]{49}",                            lambda found: found[1] + "0" * 49),
    (r"(?<=/downloads/)[\w-]+",                                  "TOKEN"),
    (r"\b[0-9a-f]{6}(-[0-9a-f]{6}){3}\b",                        "CODE"),
    (r"\b[a-z0-9]{5}(-[a-z0-9]{5}){5}\b",                        "RECOVERY"),
    (r"(?<=  Password  )[\w-]+",                                    "PASSWORD"),
    (r"\b[0-9a-f]{32}(?=@)",                                     "0" * 32),
    (r"\b[0-9a-f]{64}\b",                                        "0" * 64),
    (r"\b[0-9a-f]{16}\b",                                        "0" * 16),
    # Places: scratch directories, ports, processes, this computer.
    (r"/files-\d+",                                              "/files"),
    (r"/mailbox-demo-\w{8}",                                     "/mailbox-demo"),
    (r"(?<=127\.0\.0\.1:)\d{5}\b",                               "00000"),
    (r"(?<=port\": )\d{5}\b",                                    "00000"),
    (r"(\"?pid\"?:? )\d+",                                       r"\g<1>0"),
    (r"(::1\"?,\s+\"?)[\w.-]+",                                  r"\1HOST"),
    # The progress of a mailbox that was just connected depends on timing.
    (r"((?:\"status\"|(?m:^)status): \"?)(?:connecting|syncing)\b", r"\1ready"),
    # Cursors, values that depend on the clock or the disk, the release.
    (r"((?:nextCursor\": \"|There is more: --cursor ))[\w=.-]+", r"\1CURSOR"),
    (r"(uptimeSeconds\"?: )\d+",                                 r"\g<1>0"),
    (r"\b\d{6,}\b",                                              _zeros),
    (re.escape(__version__),                                     "VERSION"),
)
# fmt: on


def fixed(text: str, known: Mapping[str, str]) -> str:
    """Replace changing values. `known`: texts of this run -> their placeholders."""
    numbers: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        kind = found[1]
        if kind == "req":
            return f"req_{0:026}"
        count = sum(1 for one in numbers if one.startswith(kind)) + 1
        return numbers.setdefault(found[0], f"{kind}_{count:026}")

    text = _ID.sub(numbered, text)
    for moving, stands in known.items():
        text = re.sub(rf"(?<!\w){re.escape(moving)}(?!\w)", stands, text)
    for pattern, standing in _MOVES:
        text = re.sub(pattern, standing, text)
    return text


def shortened(text: str) -> str:
    """Return the beginning of a long text and a mark."""
    lines = [
        line if len(line) <= _LONGEST_LINE else f"{line[:_KEPT_OF_LINE]} [and so on]" for line in text.splitlines()
    ]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_KEPT_LINES], "[and so on]"]
    return "".join(f"{line}\n" for line in lines)
