"""One table of options, and the values in force. Imports nothing of ours.

    default  <  config.toml  <  stored (changed while running)  <  environment  <  flag        the later one wins

An option `server.port` is `[server] port = 8025` in the file and `MAILBOX_APPLIANCE_SERVER_PORT` in the environment.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

ENVIRONMENT_PREFIX = "MAILBOX_APPLIANCE_"
Value = str | int | bool | tuple[str, ...]
_KINDS = {bool: "true or false", int: "a whole number", str: "a text", tuple: "a list of texts"}
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_LONGEST_QUOTE = 100


@dataclass(frozen=True)
class Option:
    """One setting: its name, what it means when nobody sets it, the bounds of a number, and its help.

    `runtime`: it may be changed while running, since whoever uses it asks for it each time.
    """

    name: str
    default: Value
    help: str
    minimum: int = 0
    maximum: int = 1 << 40
    choices: tuple[str, ...] = ()
    runtime: bool = False

    @property
    def environment(self) -> str:
        """The name of its environment variable."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")


OPTIONS: tuple[Option, ...] = (
    Option("server.host", "", "Address of the HTTP listener; empty: 127.0.0.1 and ::1.", maximum=255),
    Option("server.port", 8025, "Port of the HTTP listener; 0 picks a free one.", maximum=65535),
    Option("server.allowed_hosts", (), "Names besides loopback that the HTTP listener answers to in Host and Origin."),
    Option(
        "server.public_url", "", "The address under which others reach the appliance, e.g. https://mail.example.org."
    ),
    Option("server.workers", 8, "Threads that answer requests.", minimum=2, maximum=64),
    Option("server.waiting_workers", 4, "How many of them may wait for other servers.", minimum=1, maximum=63),
    Option("server.connections_per_peer", 32, "Connections from one address.", minimum=1, maximum=10_000),
    Option("server.connections_per_local_peer", 256, "Connections from this computer.", minimum=1, maximum=10_000),
    Option("server.request_timeout", 60, "Seconds a client may take to send a request.", minimum=1, maximum=3600),
    Option("log.level", "info", "How much is logged.", choices=("debug", "info", "warning", "error"), runtime=True),
    Option("log.requests", True, "Whether every request is logged, not only those that failed.", runtime=True),
    Option("log.max_bytes", 10_000_000, "Size at which the log file is rotated.", minimum=10_000),
    Option("log.keep", 5, "How many rotated log files are kept.", minimum=1, maximum=1000),
    Option("remote.ca_file", "", "A file with the certificates of a private CA that mail servers use."),
    Option("remote.timeout", 30, "Seconds to wait for a mail server's answer.", minimum=1, maximum=600, runtime=True),
    Option(
        "sync.poll_interval",
        60,
        "Seconds between looks at folders that are not watched.",
        minimum=1,
        maximum=86_400,
        runtime=True,
    ),
    Option("sync.cache_mib", 256, "MiB kept of attachments and sources that were fetched on request.", runtime=True),
    Option("sync.workers", 6, "Threads that bring mail in, for all mailboxes together.", minimum=1, maximum=64),
    Option(
        "sending.answer_within",
        25,
        "Seconds that a send waits for its outcome before it answers.",
        maximum=300,
        runtime=True,
    ),
    Option(
        "sending.dot_timeout",
        600,
        "Seconds to wait for the reply to a message (RFC 5321 4.5.3.2.6).",
        minimum=1,
        maximum=86_400,
        runtime=True,
    ),
    Option(
        "sending.keep_connection",
        3,
        "Seconds an SMTP connection is kept for the next message; 0: none.",
        maximum=60,
        runtime=True,
    ),
    Option(
        "sending.credential_per_hour",
        0,
        "Messages that one API key or session may hand in an hour; 0: no limit.",
        runtime=True,
    ),
    Option(
        "sending.credential_per_day",
        0,
        "Messages that one API key or session may hand in a day; 0: no limit.",
        runtime=True,
    ),
    Option(
        "sending.account_per_hour",
        0,
        "Messages that may be handed in an hour for one mailbox, whoever does; 0: no limit.",
        runtime=True,
    ),
    Option(
        "sending.account_per_day",
        0,
        "Messages that may be handed in a day for one mailbox, whoever does; 0: no limit.",
        runtime=True,
    ),
    Option(
        "sending.hold_scheduled",
        False,
        "Whether scheduled sends wait, as after a restore that could not know what has been sent since.",
        runtime=True,
    ),
    Option("backup.daily", True, "Whether a backup is made every day.", runtime=True),
    Option(
        "backup.keep_daily",
        7,
        "Days of which the newest daily backup is kept.",
        minimum=1,
        maximum=3660,
        runtime=True,
    ),
    Option(
        "backup.keep_weekly",
        4,
        "Weeks of which the newest daily backup is kept.",
        maximum=520,
        runtime=True,
    ),
    Option(
        "store.low_space_mib",
        512,
        "MiB of room on the store's disk below which it is told in the log and by /status; 0: never.",
        runtime=True,
    ),
    Option(
        "store.keep_phases_days",
        90,
        "Days for which the steps of deliveries that are over are kept; their outcome stays for ever.",
        minimum=1,
        maximum=3660,
        runtime=True,
    ),
    Option("license.issuer_public_key", "", "The Ed25519 key of whoever issues licences: base64 of 32 bytes, or PEM."),
    Option("license.verify_url", "", "Where licences are confirmed online every day (https); empty: nowhere."),
)
BY_NAME = {option.name: option for option in OPTIONS}


class BadSetting(ValueError):
    """A setting is unknown or has a value that does not fit; the text says which, where, and what would fit."""


#: Where values come from; the later one wins.
Source = Literal["default", "file", "stored", "environment", "flag"]


class Settings:
    """The values in force. Some change while running, so whoever needs one asks for it then, and does not keep it."""

    def __init__(self, layers: Mapping[Source, Mapping[str, Value]]) -> None:
        self._layers = dict(layers)
        self.values = _merged(self._layers)

    def store(self, values: Mapping[str, object]) -> None:
        """Let these stored values count from now on, in place of those before.

        Passed over: what this release does not know, what may not change while running, and what does not fit.
        """
        options = {name: option for name, option in BY_NAME.items() if option.runtime and name in values}
        fitting = {name: one for name, one in options.items() if complaint(one, values[name]) is None}
        self._layers["stored"] = {name: _checked(one, values[name], "stored") for name, one in fitting.items()}
        # In one step: another thread sees the values from before or those from now.
        self.values = _merged(self._layers)

    def ruled_by(self, name: str) -> str | None:
        """What sets this value whatever is stored: a variable of the environment, or the command line."""
        if name in self._layers.get("flag", {}):
            return "the command line"
        return BY_NAME[name].environment if name in self._layers.get("environment", {}) else None

    def text(self, name: str) -> str:
        """The value of a text option."""
        value = self.values[name]
        assert isinstance(value, str)  # noqa: S101 - the table says so
        return value

    def number(self, name: str) -> int:
        """The value of a number option."""
        value = self.values[name]
        assert isinstance(value, int)  # noqa: S101 - the table says so
        return value

    def flag(self, name: str) -> bool:
        """The value of a yes-or-no option."""
        return bool(self.values[name])

    def names(self, name: str) -> tuple[str, ...]:
        """The value of a list option."""
        value = self.values[name]
        assert isinstance(value, tuple)  # noqa: S101 - the table says so
        return value


def load(
    file: Path | None = None, environment: Mapping[str, str] = os.environ, flags: Mapping[str, Value] | None = None
) -> Settings:
    """Settings from the file (when there is one), the environment and the flags.

    Raises BadSetting for a name that is unknown or a value that does not fit.
    """
    given = [option for option in OPTIONS if option.environment in environment]
    layers: dict[Source, Mapping[str, Value]] = {
        "default": {option.name: option.default for option in OPTIONS},
        "file": _from_file(file) if file is not None and os.path.exists(file) else {},  # noqa: PTH110 - never raises
        "environment": {one.name: _from_text(one, environment[one.environment], one.environment) for one in given},
        "flag": {name: _checked(BY_NAME[name], value, "the command line") for name, value in (flags or {}).items()},
    }
    return Settings(layers)


def _merged(layers: Mapping[Source, Mapping[str, Value]]) -> Mapping[str, Value]:
    return {name: value for source in get_args(Source) for name, value in layers.get(source, {}).items()}


def _from_file(file: Path) -> dict[str, Value]:
    if not file.is_file() and not file.is_dir():  # a pipe would be waited for; a directory says so itself
        raise BadSetting(f"{file} is not a regular file.")
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"{file} cannot be read as TOML: {error}") from error
    found: dict[str, Value] = {}
    for table, options in tables.items():
        if not isinstance(options, dict):
            raise BadSetting(f"{file}: {table} stands outside a [table]")
        for key, value in options.items():
            if (name := f"{table}.{key}") not in BY_NAME:
                raise BadSetting(f"{file}: there is no setting {name}")
            found[name] = _checked(BY_NAME[name], tuple(value) if isinstance(value, list) else value, str(file))
    return found


def _from_text(option: Option, text: str, where: str) -> Value:
    if isinstance(option.default, bool):
        if (found := flag_of(text)) is None:
            raise BadSetting(f"{where}: {option.name} is true or false, not {text!r}")
        return found
    if isinstance(option.default, int):
        try:
            number = int(text)
        except ValueError as error:
            raise BadSetting(f"{where}: {option.name} is a whole number, not {text!r}") from error
        return _checked(option, number, where)
    if isinstance(option.default, tuple):
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return _checked(option, text, where)


def flag_of(text: str) -> bool | None:
    """What a word says where yes or no is asked; None: neither."""
    return _FLAGS.get(text.lower())


def complaint(option: Option, value: object) -> str | None:
    """What is wrong with a value, as the end of a sentence about it: "is a whole number, not 'x'"; None: it fits."""
    if type(value) is not type(option.default):
        return f"is {_KINDS[type(option.default)]}, not {_quoted(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and not option.minimum <= value <= option.maximum:
        return f"lies between {option.minimum} and {option.maximum}, not {_quoted(value)}"
    if isinstance(value, tuple) and not all(isinstance(part, str) for part in value):
        return "is a list of texts"
    if option.choices and value not in option.choices:
        return f"is one of {', '.join(option.choices)}, not {_quoted(value)}"
    return None


def _checked(option: Option, value: object, where: str) -> Value:
    if (wrong := complaint(option, value)) is not None:
        raise BadSetting(f"{where}: {option.name} {wrong}")
    assert isinstance(value, str | int | tuple)  # noqa: S101 - as its default
    return value


def _quoted(value: object) -> str:
    """What was given, but not without end."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        text = "a number"
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
