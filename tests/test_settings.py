"""Settings: file, then environment, then flag; what does not fit is refused with the place and what would fit."""

import re
from pathlib import Path

import pytest

from mailbox_appliance.settings import OPTIONS, BadSetting, Option, Value, load

PREFIX = "MAILBOX_APPLIANCE_"


def from_file(folder: Path, text: str) -> Path:
    """A configuration file with this text."""
    file = folder / "config.toml"
    file.write_text(text, "utf-8")
    return file


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_each_row(option: Option) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", option.name)
    assert option.help.endswith(".")
    assert load(environment={}, flags={option.name: option.default}).values[option.name] == option.default


def test_names_are_unique() -> None:
    assert len({option.environment for option in OPTIONS}) == len(OPTIONS)


def test_later_sources_win(tmp_path: Path) -> None:
    file = from_file(tmp_path, '[server]\nport = 1\nworkers = 3\nhost = "::1"\n')
    environment = {PREFIX + "SERVER_PORT": "2", PREFIX + "SERVER_WORKERS": "4", "SERVER_HOST": "ignored"}
    settings = load(file, environment, {"server.port": 5})
    assert [settings.number("server.port"), settings.number("server.workers")] == [5, 4]
    assert (settings.text("server.host"), settings.number("log.keep")) == ("::1", 5)


def test_no_file_is_no_fault(tmp_path: Path) -> None:
    assert load(tmp_path / "config.toml", {}).number("server.port") == 8025


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("SERVER_PORT", "0", 0),
        ("SERVER_PORT", "65535", 65535),
        ("LOG_REQUESTS", "no", False),
        ("LOG_REQUESTS", "TRUE", True),
        ("LOG_REQUESTS", "0", False),
        ("LOG_LEVEL", "debug", "debug"),
        ("SERVER_ALLOWED_HOSTS", "a.test, b.test,", ("a.test", "b.test")),
        ("SERVER_ALLOWED_HOSTS", "", ()),
        ("SERVER_PUBLIC_URL", "https://mail.example.org", "https://mail.example.org"),
    ],
)
def test_environment(name: str, text: str, value: Value) -> None:
    option = next(option for option in OPTIONS if option.environment == PREFIX + name)
    assert load(environment={PREFIX + name: text}).values[option.name] == value


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("SERVER_PORT", "65536", "between 0 and 65535"),
        ("SERVER_PORT", "-1", "between 0 and 65535"),
        ("SERVER_PORT", "http", "whole number"),
        ("SERVER_PORT", "", "whole number"),
        ("SERVER_WORKERS", "1", "between 2 and 64"),
        ("LOG_REQUESTS", "maybe", "true or false"),
        ("LOG_LEVEL", "chatty", "one of debug, info"),
    ],
)
def test_environment_that_does_not_fit(name: str, text: str, complaint: str) -> None:
    with pytest.raises(BadSetting, match=complaint) as refused:
        load(environment={PREFIX + name: text})
    assert PREFIX + name in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("port = 1", "outside a"),
        ("[server]\nprot = 1", "no setting server.prot"),
        ('[server]\nport = "1"', "server.port is a int"),
        ("[server]\nport = true", "server.port is a int"),
        ("[server]\nport = 1.0", "server.port is a int"),
        ("[log]\nrequests = 1", "log.requests is a bool"),
        ("[server]\nallowed_hosts = [1]", "list of texts"),
        ('[server]\nallowed_hosts = "a.test"', "server.allowed_hosts is a tuple"),
        ("[server", "not valid TOML"),
    ],
)
def test_file_that_does_not_fit(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadSetting, match=complaint) as refused:
        load(from_file(tmp_path, text), {})
    assert "config.toml" in str(refused.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSetting, match="not valid TOML"):
        load(tmp_path / "config.toml", {})
