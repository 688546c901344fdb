"""The values in force of the table of options.

    default  <  config.toml  <  stored (changed while running)  <  environment  <  flag        the later one wins

An option `server.port` is `[server] port = 8025` in the file and `MAILBOX_APPLIANCE_SERVER_PORT` in the environment.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, get_args

from mailbox_appliance.options import BY_NAME, ENVIRONMENT_PREFIX, OPTIONS, Option, Value, complaint, flag_of

#: What begins as a setting does, and is for the command line.
_NO_SETTINGS = frozenset({"MAILBOX_APPLIANCE_LICENSE_TOKEN"})


class BadSetting(ValueError):
    """A setting is unknown or has a value that does not fit; the text says which, where, and what would fit."""


#: Where values come from; the later one wins.
Source = Literal["default", "file", "stored", "environment", "flag"]


class Settings:
    """The values in force. Some change while running, so whoever needs one asks for it then, and does not keep it."""

    def __init__(self, layers: Mapping[Source, Mapping[str, Value]]) -> None:
        self._layers = dict(layers)
        self.values = _merged(self._layers)
        #: The settings of config.toml, as it was last read, that count from the next start on.
        self.waiting: tuple[str, ...] = ()
        #: Whether config.toml did not fit when it was last read; the next start would fail.
        self.is_file_invalid = False

    def use_stored(self, values: Mapping[str, object]) -> None:
        """Let these stored values count from now on, in place of those before.

        Passed over: what this release does not know, what may not change while running, and what does not fit.
        """
        # A list comes as one of JSON.
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
        options = {name: option for name, option in BY_NAME.items() if option.runtime and name in given}
        fitting = {name: one for name, one in options.items() if complaint(one, given[name]) is None}
        self._layers["stored"] = {name: _checked(one, given[name], "stored") for name, one in fitting.items()}
        # In one step: another thread sees the values from before or those from now.
        self.values = _merged(self._layers)

    def apply_file(self, loaded: "Settings") -> tuple[str, ...]:
        """Let what a newly read config.toml says count from now on, as far as it may change while running.

        Answers the names of the settings that have another value at the next start only.
        """
        before, now = (settings._layers.get("file", {}) for settings in (self, loaded))
        then = _merged({**self._layers, "file": now})
        fixed = {name for name, one in BY_NAME.items() if not one.runtime}
        self.waiting = tuple(name for name in BY_NAME if name in fixed and then[name] != self.values[name])
        self.is_file_invalid = False
        kept = {name: value for name, value in before.items() if name in fixed}
        self._layers["file"] = kept | {name: value for name, value in now.items() if name not in fixed}
        self.values = _merged(self._layers)
        return self.waiting

    def overridden_by(self, name: str) -> str | None:
        """What sets this value whatever is stored: a variable of the environment, or the command line."""
        if name in self._layers.get("flag", {}):
            return "the command line"
        return BY_NAME[name].environment if name in self._layers.get("environment", {}) else None

    def is_set(self, name: str) -> bool:
        """Whether somebody has set this value, be it to its default."""
        return any(name in values for source, values in self._layers.items() if source != "default")

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


def without_effect(environment: Mapping[str, str] = os.environ) -> Iterator[tuple[str, str | None]]:
    """Variables of the environment that look like settings and are none, each with the nearest one that there is."""
    known = {option.environment for option in OPTIONS}
    areas = tuple({f"{ENVIRONMENT_PREFIX}{option.name.partition('.')[0].upper()}_" for option in OPTIONS})
    for name in sorted(environment):
        if name.startswith(areas) and name not in known | _NO_SETTINGS:
            yield name, next(iter(difflib.get_close_matches(name, known, 1)), None)


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
        return _checked(option, tuple(part.strip() for part in text.split(",") if part.strip()), where)
    return _checked(option, text, where)


def _checked(option: Option, value: object, where: str) -> Value:
    if (wrong := complaint(option, value)) is not None:
        raise BadSetting(f"{where}: {option.name} {wrong}")
    assert isinstance(value, str | int | tuple)  # noqa: S101 - as its default
    return value
