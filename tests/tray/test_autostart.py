"""Start at login on all systems: enabled, disabled, moved, refused."""

import plistlib
import sys
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.client.errors import Failure
from mailbox_appliance.client.local import default_data_dir
from mailbox_appliance.tray import autostart
from mailbox_appliance.tray import autostart as subject
from mailbox_appliance.tray.autostart import LABEL, Autostart, LaunchAgent, LoginItem, for_this_system
from tests.tray.test_run_key import Registry

FROM_PIP = [sys.executable, "-P", "-m", "mailbox_appliance"]


def autostart_in(folder: Path, data_dir: Path | None = None, platform: str = "linux") -> Autostart:
    found = for_this_system({"HOME": str(folder)}, data_dir, platform)
    assert found is not None
    return found


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the tests run as a bundle in a folder with a space."""
    program = tmp_path / "a folder" / "mailbox-appliance"
    program.parent.mkdir()
    program.touch()
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(program))
    return program


@pytest.mark.parametrize(
    ("platform", "place"),
    [
        ("linux", ".config/autostart/mailbox-appliance.desktop"),
        ("freebsd14", ".config/autostart/mailbox-appliance.desktop"),
        ("darwin", "Library/LaunchAgents/org.mailboxappliance.tray.plist"),
    ],
)
def test_it_is_switched_on_and_off(platform: str, place: str, tmp_path: Path) -> None:
    found = autostart_in(tmp_path, platform=platform)
    assert (found.location, found.is_enabled, found.command) == (str(tmp_path / place), False, [*FROM_PIP, "tray"])
    found.enable()
    assert (found.is_enabled, found.command, Path(found.location).is_file()) == (True, [*FROM_PIP, "tray"], True)
    found.disable()
    assert (found.is_enabled, Path(found.location).exists()) == (False, False)


def test_windows_keeps_it_in_the_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    registry = Registry()
    monkeypatch.setattr(autostart, "load_registry", lambda: registry)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python.exe"))
    found = autostart_in(tmp_path, platform="win32")
    assert found.command[0] == str(tmp_path / "python.exe")
    (tmp_path / "pythonw.exe").touch()
    found = autostart_in(tmp_path, platform="win32")
    found.enable()
    assert found.command == [str(tmp_path / "pythonw.exe"), "-P", "-m", "mailbox_appliance", "tray"]
    assert (found.is_enabled, list(registry.keys[autostart.RUN])) == (True, [autostart.NAME])


@pytest.mark.usefixtures("bundle")
@pytest.mark.parametrize("has_tray_program", [True, False])
def test_a_windows_bundle_is_started_by_the_program_without_a_window(
    has_tray_program: bool, bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, silent = bundle.with_suffix(".exe"), bundle.with_name("mailbox-appliance-tray.exe")
    monkeypatch.setattr(sys, "executable", str(program))
    if has_tray_program:
        silent.touch()
    assert subject._without_console_window(str(program), "win32") == str(silent if has_tray_program else program)
    assert subject._without_console_window(str(program), "linux") == str(program)


def test_a_bundle_names_its_own_file_and_the_data_directory_that_was_named(bundle: Path, tmp_path: Path) -> None:
    found = autostart_in(tmp_path, tmp_path / "my mail")
    found.enable()
    assert found.command == [str(bundle), "--data-dir", str(tmp_path / "my mail"), "tray"]
    other = autostart_in(tmp_path)
    assert other.is_enabled  # one for each user, whichever directory it is for
    assert (found.is_ours, other.is_ours) == (True, False)
    other.enable()
    assert (found.is_ours, other.is_ours) == (False, True)
    assert autostart_in(tmp_path, default_data_dir()).is_ours
    assert found.command == [str(bundle), "tray"]


def test_a_program_that_moved_is_named_anew_with_the_data_directory_of_then(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    autostart_in(tmp_path, tmp_path / "my mail").enable()
    assert not autostart_in(tmp_path).refresh()
    moved = bundle.rename(tmp_path / "moved")
    monkeypatch.setattr(sys, "executable", str(moved))
    found = autostart_in(tmp_path, tmp_path / "another")
    assert found.refresh()
    assert found.command == [str(moved), "--data-dir", str(tmp_path / "my mail"), "tray"]
    assert not found.refresh()


def test_another_program_that_is_still_there_is_left_alone(bundle: Path, tmp_path: Path) -> None:
    autostart_in(tmp_path).enable()
    other = bundle.with_name("another-version")
    other.touch()
    file = Path(autostart_in(tmp_path).location)
    file.write_text(file.read_text().replace("/mailbox-appliance", "/another-version"))
    assert not autostart_in(tmp_path).refresh()
    assert autostart_in(tmp_path).command == [str(other), "tray"]


@pytest.mark.usefixtures("bundle")
def test_what_was_switched_off_or_never_on_is_not_written(tmp_path: Path, bundle: Path) -> None:
    found = autostart_in(tmp_path)
    assert not found.refresh()
    assert not Path(found.location).exists()
    found.enable()
    file = Path(found.location)
    file.write_text(file.read_text() + "Hidden=true\n")
    bundle.unlink()
    assert not found.refresh()
    assert "Hidden=true" in file.read_text()


def test_who_has_no_home_has_no_start_at_login(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nobody(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", nobody)
    assert [for_this_system({}, None, platform) for platform in ("linux", "darwin")] == [None, None]
    assert for_this_system({"XDG_CONFIG_HOME": str(tmp_path)}, None, "linux") is not None


def test_what_is_refused_is_told_with_the_place_and_the_cause(tmp_path: Path) -> None:
    found = autostart_in(tmp_path)
    Path(found.location).mkdir(parents=True)
    for change, wanted in ((found.enable, "on"), (found.disable, "off")):
        with pytest.raises(Failure) as refused:
            change()
        assert refused.value.code == "autostart_refused"
        assert refused.value.message == f"Could not turn start at login {wanted}: {found.location}: Is a directory."
    assert not found.is_enabled
    (tmp_path / "taken").touch()
    with pytest.raises(Failure, match=r"taken.*: (Not a directory|File exists)\."):
        autostart_in(tmp_path / "taken").enable()


# --- Start at login on macOS: the property list, read by the parser that Python has of it ---


COMMAND = ["/Applications/Mailbox Appliance.app/Contents/MacOS/mailbox-appliance", "--data-dir", "/a <&> b", "tray"]

# fmt: off
#: A change in the file, and whether the tray starts then.
CHANGES: list[tuple[dict[str, Any], bool]] = [
    ({},                   True),
    ({"Disabled": True},   False),
    ({"Disabled": False},  True),
    ({"RunAtLoad": False}, False),
]
# fmt: on


@pytest.fixture
def agent(tmp_path: Path) -> LaunchAgent:
    """The launch agent of a user who has none."""
    return LaunchAgent(tmp_path)


def test_the_property_list_says_what_launchd_needs(agent: LaunchAgent, tmp_path: Path) -> None:
    assert agent.find() is None
    agent.write(COMMAND)
    file = tmp_path / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    assert (str(file), file.stat().st_mode & 0o777) == (agent.location, 0o644)
    assert plistlib.loads(file.read_bytes()) == {
        "Label": LABEL,
        "ProgramArguments": COMMAND,
        "RunAtLoad": True,
        "ProcessType": "Interactive",
        "LimitLoadToSessionType": "Aqua",
    }
    for _ in range(2):  # deleting it again has no effect
        agent.remove()
        assert agent.find() is None


@pytest.mark.parametrize(("change", "is_on"), CHANGES)
def test_what_was_switched_off_is_off_and_is_switched_on_again(
    change: dict[str, Any], is_on: bool, agent: LaunchAgent
) -> None:
    agent.write(COMMAND)
    file = Path(agent.location)
    file.write_bytes(plistlib.dumps(plistlib.loads(file.read_bytes()) | change, fmt=plistlib.FMT_BINARY))
    assert agent.find() == LoginItem(tuple(COMMAND), is_on=is_on)
    agent.write(COMMAND)
    assert agent.find() == LoginItem(tuple(COMMAND), is_on=True)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"<plist><array/></plist>", plistlib.dumps({}), b"bplist00\xff"])
def test_a_damaged_file_starts_nothing(content: bytes, agent: LaunchAgent) -> None:
    agent.write(COMMAND)
    Path(agent.location).write_bytes(content)
    assert agent.find() is None
