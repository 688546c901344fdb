"""Settings from file, environment and flag; an invalid value is refused with its source and what is valid."""

import os
import re
from pathlib import Path

import pytest

from mailbox_appliance.settings import (
    BY_NAME,
    OPTIONS,
    BadSetting,
    Option,
    Settings,
    Value,
    load,
    unknown_variables,
    why_invalid,
)

PREFIX = "MAILBOX_APPLIANCE_"


def from_file(folder: Path, text: str) -> Path:
    """Write a configuration file with this text."""
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
        ("REMOTE_RESOLVER", "192.0.2.53", "192.0.2.53"),
        ("REMOTE_RESOLVER", "192.0.2.53:5353", "192.0.2.53:5353"),
        ("REMOTE_RESOLVER", "2001:db8::53", "2001:db8::53"),
        ("REMOTE_RESOLVER", "[2001:db8::53]:53", "[2001:db8::53]:53"),
        ("REMOTE_RESOLVER", "", ""),
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
        ("REMOTE_RESOLVER", "dns.example.org", "must be an IP address"),
        ("REMOTE_RESOLVER", "192.0.2.53:0", "must be an IP address"),
        ("REMOTE_RESOLVER", "192.0.2.53:65536", "must be an IP address"),
        ("REMOTE_RESOLVER", "[::1", "must be an IP address"),
    ],
)
def test_environment_that_does_not_fit(name: str, text: str, complaint: str) -> None:
    with pytest.raises(BadSetting, match=complaint) as refused:
        load(environment={PREFIX + name: text})
    assert PREFIX + name in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("port = 1", "port must be in a "),
        ("[server]\nprot = 1", "unknown setting server.prot"),
        ('[server]\nport = "1"', "server.port must be a whole number"),
        ("[server]\nport = true", r"server.port must be a whole number \(got True\)"),
        ("[server]\nport = 1.0", "server.port must be a whole number"),
        ("[log]\nrequests = 1", "log.requests must be true or false"),
        ("[server]\nallowed_hosts = [1]", r"list of strings \(got 1 in it\)"),
        ('[server]\nallowed_hosts = "a.test"', "server.allowed_hosts must be a list of strings"),
        ("[server", "cannot be read as TOML"),
    ],
)
def test_file_that_does_not_fit(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(BadSetting, match=complaint) as refused:
        load(from_file(tmp_path, text), {})
    assert "config.toml" in str(refused.value)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSetting, match="cannot be read as TOML"):
        load(tmp_path / "config.toml", {})


# --- changed while running ---


def test_what_is_stored_comes_after_the_file_and_before_the_environment(tmp_path: Path) -> None:
    file = from_file(tmp_path, "[remote]\ntimeout = 5\n[sync]\npoll_interval = 6\ncache_mib = 7\n")
    settings = load(file, {PREFIX + "SYNC_POLL_INTERVAL": "10"}, {"sync.cache_mib": 20})
    names = ("remote.timeout", "sync.poll_interval", "sync.cache_mib", "sending.dot_timeout")
    settings.use_stored(dict.fromkeys(names, 100))
    assert [settings.number(name) for name in names] == [100, 10, 20, 100]
    assert [settings.overridden_by(name) for name in names] == [
        None,
        PREFIX + "SYNC_POLL_INTERVAL",
        "the command line",
        None,
    ]
    settings.use_stored({})
    assert [settings.number(name) for name in names] == [5, 10, 20, 600]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("server.port", 1),
        ("remote.timeout", 0),
        ("remote.timeout", "5"),
        ("remote.timeout", True),
        ("log.level", "chatty"),
        ("log.requests", 0),
        ("attachments", {"maxBytes": 1}),
    ],
)
def test_what_has_no_effect_though_it_is_stored(name: str, value: object) -> None:
    settings = load(environment={})
    before = dict(settings.values)
    settings.use_stored({name: value, "sync.cache_mib": 1})
    assert settings.values == before | {"sync.cache_mib": 1}


def test_a_long_value_is_quoted_in_part() -> None:
    settings = next(option for option in OPTIONS if option.name == "log.level")
    assert len(why_invalid(settings, "x" * 10_000) or "") < 200
    assert why_invalid(next(option for option in OPTIONS if option.name == "log.keep"), 10**5000)


def test_a_pipe_is_no_configuration_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(BadSetting, match="not a regular file"):
        load(tmp_path / "config.toml", {})


def test_what_waits_for_the_next_start_is_told_until_it_is_taken_back(tmp_path: Path) -> None:
    file, environment = tmp_path / "config.toml", {"MAILBOX_APPLIANCE_SYNC_WORKERS": "3"}

    def loaded(text: str) -> Settings:
        file.write_text(text)
        return load(file, environment, {"server.port": 0})

    present = loaded("")
    assert present.waiting == ()
    for text, waiting in (
        ("[server]\nworkers = 5\nport = 1\n[sync]\nworkers = 2\n[log]\nlevel = 'debug'\n", ("server.workers",)),
        ("[server]\nworkers = 5\nhost = '::1'\n", ("server.host", "server.workers")),
        ("[server]\nworkers = 8\n", ()),  # as it is
        ("", ()),
    ):
        present.is_file_invalid = True
        assert present.apply_file(loaded(text)) == present.waiting == waiting
        assert (present.number("server.workers"), present.number("server.port")) == (8, 0)
        assert present.text("log.level") == ("debug" if "debug" in text else "info")
        assert not present.is_file_invalid


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("SERVER_PROT", "SERVER_PORT"),
        ("METRICS_ALOWED", "METRICS_ALLOWED"),
        ("LOG_XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX", None),
        ("SYNC_", "SYNC_WORKERS"),
    ],
)
def test_variables_that_look_like_settings_and_are_none(name: str, nearest: str | None) -> None:
    told = None if nearest is None else f"MAILBOX_APPLIANCE_{nearest}"
    assert list(unknown_variables({f"MAILBOX_APPLIANCE_{name}": "1"})) == [(f"MAILBOX_APPLIANCE_{name}", told)]


@pytest.mark.parametrize("name", ["SERVER_PORT", "LICENSE_TOKEN", "PASSPHRASE", "KEYCHAIN_SECONDS", "SERVERS"])
def test_other_variables_are_left_alone(name: str) -> None:
    assert list(unknown_variables({f"MAILBOX_APPLIANCE_{name}": "1", "SERVER_PROT": "1"})) == []


# --- What fits an option, beyond its kind: where one can listen ---


HOSTS = ("server.host", "server.https_host")


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost",
        "0.0.0.0",
        "::",
        "127.0.0.1",
        "::1",
        "192.0.2.7",
        "2001:db8::7",
        "fe80::1%eth0",
        "fe80::1%br-lan.2",
    ],
)
@pytest.mark.parametrize("name", HOSTS)
def test_one_can_listen_at_an_ip_address_or_at_localhost(name: str, host: str) -> None:
    assert why_invalid(BY_NAME[name], host) is None


@pytest.mark.parametrize(
    "host",
    [
        "mail.example.org",  # looking it up may take for ever
        "Localhost",
        "localhost.",
        "127.0.0.1 10.1.1.1",
        "127.0.0.1\n0.0.0.0",
        " 127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "127.0.0.1:8443",
        "[::1]",
        "*",
        "127.0.0.1%lo",
        "fe80::1%",
        "fe80::1%a b",
        "fe80::1%a\n",
        "fe80::1%a]:1",
        "224.0.0.1",  # the system would let one listen there, and nobody could connect
        "239.255.255.250",
        "ff02::1",
        "ff02::1%eth0",
        "255.255.255.255",
    ],
)
@pytest.mark.parametrize("name", HOSTS)
def test_one_cannot_listen_elsewhere_and_is_told_where(name: str, host: str) -> None:
    told = why_invalid(BY_NAME[name], host) or ""
    assert told.startswith("must be localhost, empty, or an IP address of this computer such as 192.0.2.7")
    assert "(got " in told
