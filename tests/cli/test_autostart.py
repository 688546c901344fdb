"""`autostart`: the entry that it writes, and its errors."""

import subprocess
import sys
from pathlib import Path

import pytest

from mailbox_appliance.__main__ import SERVICES
from tests.cli.conftest import CommandLine, cli

__all__ = ["cli"]


@pytest.fixture
def at_a_desk(cli: CommandLine) -> CommandLine:
    """A command line of a user with a home directory and without a named data directory."""
    cli.services |= SERVICES
    cli.environment["HOME"] = str(cli.folder / "home")
    del cli.environment["MAILBOX_APPLIANCE_DATA_DIR"]
    return cli


def test_the_usual_data_directory_is_not_written_down_and_a_named_one_is(at_a_desk: CommandLine) -> None:
    program = [sys.executable, "-P", "-m", "mailbox_appliance"]
    place = str(at_a_desk.folder / "home" / ".config" / "autostart" / "mailbox-appliance.desktop")
    assert at_a_desk("autostart", "enable").data == {"enabled": True, "place": place, "command": [*program, "tray"]}
    named = [*program, "--data-dir", "/srv/my mail", "tray"]
    assert at_a_desk("autostart", "enable", "--data-dir", "/srv/my mail").data["command"] == named
    assert at_a_desk("autostart", "status").data["command"] == named
    by_environment = at_a_desk("autostart", "enable", environment={"MAILBOX_APPLIANCE_DATA_DIR": "/srv/mail"})
    assert by_environment.data["command"] == [*program, "--data-dir", "/srv/mail", "tray"]
    assert at_a_desk("autostart", "disable").data == {"enabled": False, "place": place, "command": [*program, "tray"]}


def test_what_was_switched_off_in_a_settings_app_is_told_as_off(at_a_desk: CommandLine) -> None:
    file = Path(at_a_desk("autostart", "enable").data["place"])
    file.write_text(file.read_text() + "Hidden=true\n")
    assert at_a_desk("autostart", "status").data["enabled"] is False
    assert at_a_desk("autostart", "enable").data["enabled"] is True


def test_a_program_that_is_gone_is_told(at_a_desk: CommandLine) -> None:
    file = Path(at_a_desk("autostart", "enable").data["place"])
    file.write_text(file.read_text().replace(sys.executable, "/opt/of old/python"))
    status = at_a_desk("autostart", "status", "--format", "table")
    hint = "Run `autostart enable` to use this one."
    assert status.err == f"Warning: The program /opt/of old/python no longer exists. {hint}\n"
    assert at_a_desk("autostart", "enable", "--format", "table").err == ""


def test_a_place_that_cannot_be_written_is_told_in_words(at_a_desk: CommandLine) -> None:
    (at_a_desk.folder / "home").touch()
    refused = at_a_desk("autostart", "enable", "--format", "table")
    assert refused.code == 1
    assert "Could not turn start at login on:" in refused.err
    assert "home/.config/autostart" in refused.err
    assert at_a_desk("autostart", "status").data["enabled"] is False


def test_who_has_no_home_is_told_what_is_missing(at_a_desk: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mailbox_appliance.tray.autostart.for_this_system", lambda *_: None)
    refused = at_a_desk("autostart", "enable")
    assert (refused.code, refused.error["code"]) == (2, "not_found")
    assert "Set HOME or XDG_CONFIG_HOME." in refused.error["message"]


def test_who_has_no_home_is_told_how_to_name_a_directory(
    at_a_desk: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(*_arguments: object, **_options: object) -> str:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("platformdirs.user_data_dir", nobody)
    monkeypatch.setattr("platformdirs.user_config_dir", nobody)
    refused = at_a_desk("logs")
    assert (refused.code, "name the data directory with --data-dir" in refused.error["message"]) == (2, True)
    refused = at_a_desk("instances", "list", environment={"MAILBOX_APPLIANCE_CONFIG_DIR": ""})
    assert (refused.code, "MAILBOX_APPLIANCE_CONFIG_DIR" in refused.error["message"]) == (2, True)
    refused = at_a_desk("logs", "--data-dir", "~nobody-of-this-name/mail")
    reason = "cannot be resolved: this user has no home directory."
    assert refused.error["message"] == f"The `~` in ~nobody-of-this-name/mail {reason}"


def test_it_is_a_command_of_the_program_and_needs_no_desktop(tmp_path: Path) -> None:
    ran = subprocess.run(
        (sys.executable, "-m", "mailbox_appliance", "autostart", "enable", "--format", "table"),
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("enabled: yes\n")
    assert "start when your desktop session starts" in ran.stdout
