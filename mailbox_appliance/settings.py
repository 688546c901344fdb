"""Settings: the table of options, their effective values from all sources, and the public URL that follows from
them.
"""

import os
import re
import socket
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_address, ip_network
from pathlib import Path
from typing import Literal, get_args

ENVIRONMENT_PREFIX = "MAILBOX_APPLIANCE_"
Value = str | int | bool | tuple[str, ...]
_KINDS = {bool: "true or false", int: "a whole number", str: "a string", tuple: "a list of strings"}
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_LONGEST_QUOTE = 100
_BROADCAST = IPv4Address(0xFFFFFFFF)
_ZONE = re.compile(r"[A-Za-z0-9._~-]+")  # RFC 6874 2: unreserved


@dataclass(frozen=True)
class Option:
    """One setting: its name, default and help text.

    - minimum, maximum: The bounds of a number.
    - choices: The valid texts; empty for any.
    - runtime: The value can change while the appliance runs, so code reads it each time it needs it.
    - networks: Each item of the list is an address or a network, such as `192.0.2.7` or `10.0.0.0/8`.
    - address: The text is empty, `localhost` or an IP address to listen on. Other names are refused, since looking
      one up may block.
    - resolver: The text is empty, or an IP address with an optional port.
    """

    name: str
    default: Value
    help: str
    minimum: int = 0
    maximum: int = 1 << 40
    choices: tuple[str, ...] = ()
    runtime: bool = False
    networks: bool = False
    address: bool = False
    resolver: bool = False

    @property
    def environment(self) -> str:
        """The name of the environment variable that sets this option."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace(".", "_")


OPTIONS: tuple[Option, ...] = (
    Option("server.host", "", "IP address for HTTP; empty or localhost means 127.0.0.1 and ::1.", address=True),
    Option("server.port", 8025, "Port for HTTP; 0 picks a free one.", maximum=65535),
    Option("server.allowed_hosts", (), "Host names accepted over HTTP in Host and Origin, in addition to loopback."),
    Option("server.public_url", "", "URL at which other computers reach the appliance, e.g. https://mail.example.org."),
    Option("server.https", False, "Whether HTTPS is on, which allows remote access.", runtime=True),
    Option("server.https_port", 8443, "Port for HTTPS; 0 picks a free one.", maximum=65535, runtime=True),
    Option(
        "server.https_host",
        "",
        "IP address for HTTPS, or localhost; empty means all addresses.",
        runtime=True,
        address=True,
    ),
    Option(
        "server.hsts_days",
        365,
        "Days for which browsers use only HTTPS (HSTS), if this computer trusts the certificate; 0 turns it off.",
        maximum=3650,
        runtime=True,
    ),
    Option(
        "server.trusted_proxies",
        (),
        "Addresses or networks of proxies whose forwarding headers are trusted.",
        networks=True,
    ),
    Option(
        "server.proxy_headers",
        "x-forwarded",
        "Headers that trusted proxies set: X-Forwarded-For and X-Forwarded-Proto, or Forwarded (RFC 7239).",
        choices=("x-forwarded", "forwarded"),
    ),
    Option(
        "metrics.allowed",
        (),
        "Addresses or networks that can read /metrics, in addition to this computer.",
        runtime=True,
        networks=True,
    ),
    Option("server.workers", 8, "Threads that handle requests.", minimum=2, maximum=64),
    Option("server.waiting_workers", 4, "How many of these threads can wait for other servers.", minimum=1, maximum=63),
    Option("server.connections_per_peer", 32, "Connections per remote address.", minimum=1, maximum=10_000),
    Option("server.connections_per_local_peer", 256, "Connections from this computer.", minimum=1, maximum=10_000),
    Option("server.request_timeout", 60, "Seconds a client can take to send a request.", minimum=1, maximum=3600),
    Option(
        "log.level", "info", "Lowest level that is logged.", choices=("debug", "info", "warning", "error"), runtime=True
    ),
    Option("log.requests", True, "Whether every request is logged, or only failed ones.", runtime=True),
    Option("log.max_bytes", 10_000_000, "Bytes at which the log file is rotated.", minimum=10_000),
    Option("log.keep", 5, "Number of rotated log files to keep.", minimum=1, maximum=1000),
    Option("remote.ca_file", "", "File with the certificates of a private CA that mail servers use."),
    Option(
        "remote.resolver",
        "",
        "DNS server for finding mail servers, e.g. 192.0.2.53 or [2001:db8::53]:53; empty means the system's.",
        resolver=True,
    ),
    Option(
        "remote.autoconfig_directory",
        "https://autoconfig.thunderbird.net/v1.1/",
        "URL (https) of the provider directory for finding mail servers; empty means none.",
    ),
    Option("remote.providers_file", "", "File that overrides provider settings: URLs, scopes and mail servers."),
    Option("remote.timeout", 30, "Seconds to wait for a mail server's reply.", minimum=1, maximum=600, runtime=True),
    Option(
        "sync.poll_interval",
        60,
        "Seconds between polls of folders that have no IDLE connection.",
        minimum=1,
        maximum=86_400,
        runtime=True,
    ),
    Option("sync.cache_mib", 256, "MiB of cache for attachments and raw messages fetched on request.", runtime=True),
    Option("sync.workers", 6, "Threads that fetch mail, for all mailboxes together.", minimum=1, maximum=64),
    Option(
        "sending.answer_within",
        25,
        "Seconds that a send request waits for the outcome before it returns.",
        maximum=300,
        runtime=True,
    ),
    Option(
        "sending.dot_timeout",
        600,
        "Seconds to wait for the mail server's reply to a message (RFC 5321 4.5.3.2.6).",
        minimum=1,
        maximum=86_400,
        runtime=True,
    ),
    Option(
        "sending.keep_connection",
        3,
        "Seconds an SMTP connection stays open for the next message; 0 closes it at once.",
        maximum=60,
        runtime=True,
    ),
    Option(
        "sending.credential_per_hour",
        0,
        "Messages that one API key or session can submit per hour; 0 means no limit.",
        runtime=True,
    ),
    Option(
        "sending.credential_per_day",
        0,
        "Messages that one API key or session can submit per day; 0 means no limit.",
        runtime=True,
    ),
    Option(
        "sending.account_per_hour",
        0,
        "Messages that can be submitted per hour for one mailbox in total; 0 means no limit.",
        runtime=True,
    ),
    Option(
        "sending.account_per_day",
        0,
        "Messages that can be submitted per day for one mailbox in total; 0 means no limit.",
        runtime=True,
    ),
    Option(
        "mail.trusted_authserv_ids",
        (),
        "Names in `Authentication-Results` whose results are trusted wherever the field stands.",
        runtime=True,
    ),
    Option(
        "sending.hold_scheduled",
        False,
        "Whether scheduled messages are on hold, as after a restore that cannot know what was sent since.",
        runtime=True,
    ),
    Option("backup.daily", True, "Whether a backup is created every day.", runtime=True),
    Option(
        "backup.keep_daily",
        7,
        "Number of days of which the newest daily backup is kept.",
        minimum=1,
        maximum=3660,
        runtime=True,
    ),
    Option(
        "backup.keep_weekly",
        4,
        "Number of weeks of which the newest daily backup is kept.",
        maximum=520,
        runtime=True,
    ),
    Option(
        "store.low_space_mib",
        512,
        "MiB of free disk space below which the log and /status warn; 0 turns the warning off.",
        runtime=True,
    ),
    Option(
        "store.keep_phases_days",
        90,
        "Days for which the steps of finished deliveries are kept; outcomes are kept permanently.",
        minimum=1,
        maximum=3660,
        runtime=True,
    ),
    Option(
        "approvals.expire_days",
        7,
        "Days in which a message that needs an approval can be approved.",
        minimum=1,
        maximum=366,
        runtime=True,
    ),
    Option(
        "events.keep_days",
        30,
        "Days for which events can be read.",
        minimum=1,
        maximum=3660,
        runtime=True,
    ),
    Option(
        "events.keep_count",
        1_000_000,
        "Maximum number of events that can be read; older ones are deleted first. A million needs about 50 MB.",
        minimum=1000,
        maximum=100_000_000,
        runtime=True,
    ),
    Option(
        "webhooks.allow_private",
        False,
        "Whether webhooks may send to this computer and to private networks, and without HTTPS there.",
        runtime=True,
    ),
    Option("license.issuer_public_key", "", "Ed25519 public key of the license issuer: base64 of 32 bytes, or PEM."),
    Option("license.verify_url", "", "URL (https) for the daily online check of the license; empty means none."),
)
BY_NAME = {option.name: option for option in OPTIONS}


def parse_flag(text: str) -> bool | None:
    """Return True or False for a word such as `yes` or `0`; None if it is neither."""
    return _FLAGS.get(text.lower())


def why_invalid(option: Option, value: object) -> str | None:
    """Return why a value is invalid, as the end of a sentence: "must be a whole number (got 'x')". None if it is
    valid.
    """
    if type(value) is not type(option.default):
        return f"must be {_KINDS[type(option.default)]} (got {_shortened(value)})"
    if isinstance(value, int) and not isinstance(value, bool) and not option.minimum <= value <= option.maximum:
        return f"must be between {option.minimum} and {option.maximum} (got {_shortened(value)})"
    if isinstance(value, tuple) and (wrong_kind := [part for part in value if not isinstance(part, str)]):
        return f"must be a list of strings (got {_shortened(wrong_kind[0])} in it)"
    if option.networks and isinstance(value, tuple) and (wrong := [one for one in value if not _is_network(one)]):
        return f"must be a list of addresses and networks, such as 192.0.2.7 or 10.0.0.0/8 (got {_shortened(wrong[0])})"
    if option.address and isinstance(value, str) and not _is_address(value):
        return (
            "must be localhost, empty, or an IP address of this computer such as 192.0.2.7 or 2001:db8::7 "
            f"(got {_shortened(value)})"
        )
    if option.resolver and isinstance(value, str) and value and parse_host_and_port(value) is None:
        forms = "192.0.2.53, 192.0.2.53:5353 or [2001:db8::53]:53"
        return f"must be an IP address, such as {forms} (got {_shortened(value)})"
    if option.choices and value not in option.choices:
        return f"must be one of {', '.join(option.choices)} (got {_shortened(value)})"
    return None


def _is_network(text: str) -> bool:
    try:
        ip_network(text)
    except ValueError:
        return False
    return True


def _is_address(text: str) -> bool:
    """Empty, `localhost`, or an IP address to which clients can connect, with an optional IPv6 zone."""
    if text in ("", "localhost"):
        return True
    host, percent, zone = text.partition("%")
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if percent and not (address.version == 6 and _ZONE.fullmatch(zone)):
        return False
    return not address.is_multicast and address != _BROADCAST


def parse_host_and_port(text: str) -> tuple[str, int | None] | None:
    """Return the IP address in a text, and the port if it has one; None if the text is anything else.

    Valid forms are `192.0.2.53`, `192.0.2.53:5353`, `2001:db8::53` and `[2001:db8::53]:53`.
    """
    bracketed = re.fullmatch(r"\[([^]]*)\](?::([0-9]{1,5}))?|([0-9.]+):([0-9]{1,5})", text)
    host, port = text, None
    if bracketed:
        host, port = bracketed[1] or bracketed[3] or "", bracketed[2] or bracketed[4]
    try:
        ip_address(host)
    except ValueError:
        return None
    number = None if port is None else int(port)
    return (host, number) if number is None or 0 < number < 65536 else None


def _shortened(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer with thousands of digits
        text = "a number"
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


# --- The effective values of the options ---
#
# default < config.toml < stored (changed while running) < environment < flag the later one wins An option `server.port`
# is `[server] port = 8025` in the file and `MAILBOX_APPLIANCE_SERVER_PORT` in the environment.


#: Variables that begin like settings but belong to the command line.
_NO_SETTINGS = frozenset({"MAILBOX_APPLIANCE_LICENSE_TOKEN"})


class BadSetting(ValueError):
    """A setting is unknown or has an invalid value. The text names the setting, its source, and the valid values."""


#: Sources of values; the later one wins.
Source = Literal["default", "file", "stored", "environment", "flag"]


class Settings:
    """The effective value of each setting, from all sources: defaults, config.toml, stored changes, environment,
    command line.

    Some values change while the appliance runs, so code reads a value when it needs it and does not keep it.
    """

    def __init__(self, layers: Mapping[Source, Mapping[str, Value]]) -> None:
        self._layers = dict(layers)
        self.values = _merge_layers(self._layers)
        #: Settings of the last read config.toml that take effect with the next start.
        self.waiting: tuple[str, ...] = ()
        #: Whether the last read config.toml was invalid, so that the next start would fail.
        self.is_file_invalid = False

    def use_stored(self, values: Mapping[str, object]) -> None:
        """Replace the values that are stored in the store, and update the effective values.

        Ignored are settings unknown to this release, settings that cannot change at run time, and invalid values.
        """
        # A stored list was decoded from JSON.
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        options = {name: option for name, option in BY_NAME.items() if option.runtime and name in given}
        fitting = {name: one for name, one in options.items() if why_invalid(one, given[name]) is None}
        self._layers["stored"] = {name: _require_valid(one, given[name], "stored") for name, one in fitting.items()}
        # In one step, so that other threads see either the old or the new values.
        self.values = _merge_layers(self._layers)

    def apply_file(self, loaded: "Settings") -> tuple[str, ...]:
        """Apply a newly read config.toml to all settings that can change while the appliance runs.

        Returns the names of changed settings that take effect only at the next start.
        """
        before, now = (settings._layers.get("file", {}) for settings in (self, loaded))
        then = _merge_layers({**self._layers, "file": now})
        fixed = {name for name, one in BY_NAME.items() if not one.runtime}
        self.waiting = tuple(name for name in BY_NAME if name in fixed and then[name] != self.values[name])
        self.is_file_invalid = False
        kept = {name: value for name, value in before.items() if name in fixed}
        self._layers["file"] = kept | {name: value for name, value in now.items() if name not in fixed}
        self.values = _merge_layers(self._layers)
        return self.waiting

    def overridden_by(self, name: str) -> str | None:
        """Return the source that overrides a stored value of this setting: the name of an environment variable, or "the
        command line". None if nothing does.
        """
        if name in self._layers.get("flag", {}):
            return "the command line"
        return BY_NAME[name].environment if name in self._layers.get("environment", {}) else None

    def is_set(self, name: str) -> bool:
        """Whether any source sets this setting, even to its default value."""
        return any(name in values for source, values in self._layers.items() if source != "default")

    def text(self, name: str) -> str:
        """Return the value of a setting whose values are texts."""
        value = self.values[name]
        assert isinstance(value, str)  # noqa: S101 - the table says so
        return value

    def number(self, name: str) -> int:
        """Return the value of a setting whose values are whole numbers."""
        value = self.values[name]
        assert isinstance(value, int)  # noqa: S101 - the table says so
        return value

    def flag(self, name: str) -> bool:
        """Return the value of a setting that is true or false."""
        return bool(self.values[name])

    def names(self, name: str) -> tuple[str, ...]:
        """Return the value of a setting whose values are lists of texts."""
        value = self.values[name]
        assert isinstance(value, tuple)  # noqa: S101 - the table says so
        return value


def load(
    file: Path | None = None, environment: Mapping[str, str] = os.environ, flags: Mapping[str, Value] | None = None
) -> Settings:
    """Return the settings from the file (if it exists), the environment and the command line (`flags`).

    Raises BadSetting for an unknown name or an invalid value.
    """
    given = [option for option in OPTIONS if option.environment in environment]
    layers: dict[Source, Mapping[str, Value]] = {
        "default": {option.name: option.default for option in OPTIONS},
        "file": _read_file(file) if file is not None and os.path.exists(file) else {},  # noqa: PTH110 - never raises
        "environment": {one.name: _parse_value(one, environment[one.environment], one.environment) for one in given},
        "flag": {
            name: _require_valid(BY_NAME[name], value, "the command line") for name, value in (flags or {}).items()
        },
    }
    return Settings(layers)


def unknown_variables(environment: Mapping[str, str] = os.environ) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each environment variable that looks like a setting but is unknown, with the most similar known
    name.

    The second value is None if no known name is similar.
    """
    known = {option.environment for option in OPTIONS}
    areas = tuple({f"{ENVIRONMENT_PREFIX}{option.name.partition('.')[0].upper()}_" for option in OPTIONS})
    for name in sorted(environment):
        if name.startswith(areas) and name not in known | _NO_SETTINGS:
            from difflib import get_close_matches

            yield name, next(iter(get_close_matches(name, known, 1)), None)


def _merge_layers(layers: Mapping[Source, Mapping[str, Value]]) -> Mapping[str, Value]:
    return {name: value for source in get_args(Source) for name, value in layers.get(source, {}).items()}


def _read_file(file: Path) -> dict[str, Value]:
    # opening a pipe would block; opening a directory reports its own error
    if not file.is_file() and not file.is_dir():
        raise BadSetting(f"{file} is not a regular file.")
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"{file} cannot be read as TOML: {error}") from error
    found: dict[str, Value] = {}
    for table, options in tables.items():
        if not isinstance(options, dict):
            raise BadSetting(f"{file}: {table} must be in a [table]")
        for key, value in options.items():
            if (name := f"{table}.{key}") not in BY_NAME:
                raise BadSetting(f"{file}: unknown setting {name}")
            found[name] = _require_valid(BY_NAME[name], tuple(value) if isinstance(value, list) else value, str(file))
    return found


def _parse_value(option: Option, text: str, where: str) -> Value:
    if isinstance(option.default, bool):
        if (found := parse_flag(text)) is None:
            raise BadSetting(f"{where}: {option.name} must be true or false (got {text!r})")
        return found
    if isinstance(option.default, int):
        try:
            number = int(text)
        except ValueError as error:
            raise BadSetting(f"{where}: {option.name} must be a whole number (got {text!r})") from error
        return _require_valid(option, number, where)
    if isinstance(option.default, tuple):
        return _require_valid(option, tuple(part.strip() for part in text.split(",") if part.strip()), where)
    return _require_valid(option, text, where)


def _require_valid(option: Option, value: object, where: str) -> Value:
    if (wrong := why_invalid(option, value)) is not None:
        raise BadSetting(f"{where}: {option.name} {wrong}")
    assert isinstance(value, str | int | tuple)  # noqa: S101 - as its default
    return value


# --- The URL at which other computers reach the appliance, from the settings and never from a request ---


def is_https_public(settings: Settings) -> bool:
    """Whether HTTPS is enabled at an address that other computers can reach."""
    host = settings.text("server.https_host")
    return settings.flag("server.https") and host != "localhost" and not (host and ip_address(host).is_loopback)


def public_https_url(settings: Settings, port: int | None) -> str | None:
    """Return the HTTPS URL for other computers, with this port; None if HTTPS is off or only for this computer.

    It has this computer's host name if HTTPS listens at all addresses, or at an address that is only valid on the local
    network link.
    """
    if not is_https_public(settings):
        return None
    host = settings.text("server.https_host")
    if not host or "%" in host or ip_address(host).is_unspecified:
        host = socket.gethostname()
    return f"https://{host_for_url(host)}:{port}"


def host_for_url(host: str) -> str:
    """Return a host as it is written in a URL, with an IPv6 address in brackets (RFC 3986 3.2.2)."""
    return f"[{host}]" if ":" in host else host
