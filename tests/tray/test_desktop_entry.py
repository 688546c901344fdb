"""Start at login on Linux: GLib launches the written command, and changes by settings apps are read."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from mailbox_appliance.tray.autostart import DesktopEntry, LoginItem, command_from_exec_line, config_folder, exec_line
from tests.servers.mailboxes import wait_until

# fmt: off
#: A command, and the value of `Exec` for it.
LINES: list[tuple[tuple[str, ...], str]] = [
    (("/usr/bin/mailbox-appliance", "tray"), '"/usr/bin/mailbox-appliance" "tray"'),
    (("/opt/Mail Box/run",),                 '"/opt/Mail Box/run"'),
    (("/x", 'a "b"'),                        r'"/x" "a \\"b\\""'),
    (("/x", "$HOME", "`id`"),                r'"/x" "\\$HOME" "\\`id\\`"'),
    (("/x", r"a\b"),                         r'"/x" "a\\\\b"'),
    (("/x", "100%", "%f", "%%"),             r'"/x" "100%%" "%%f" "%%%%"'),
    (("/x", "it's", "<a>|b&c;d*e?f#(g)~h"),  '"/x" "it\'s" "<a>|b&c;d*e?f#(g)~h"'),
    (("/x", "two\nlines\tand a tab\r"),      r'"/x" "two\nlines\tand a tab\r"'),
    (("/x", "", "\u00e9"),                   '"/x" "" "\u00e9"'),
    (("/50%/run", "tray"),                   '"/usr/bin/env" "/50%%/run" "tray"'),
]
#: A foreign `Exec` value, and its command.
OF_OTHERS: list[tuple[str, tuple[str, ...]]] = [
    ("mailbox-appliance tray",               ("mailbox-appliance", "tray")),
    ('  "/opt/a b/run"   tray ',             ("/opt/a b/run", "tray")),
    (r'run --data-dir "/a\\$b"',             ("run", "--data-dir", "/a$b")),
    ("",                                     ()),
]
#: The content left by a settings app, and whether it is enabled then.
SWITCHED: list[tuple[str, bool]] = [
    ("",                                     True),
    ("Hidden=true",                          False),
    ("Hidden = true",                        False),
    ("Hidden=false",                         True),
    ("X-GNOME-Autostart-enabled=false",      False),
    ("# Hidden=true",                        True),
    ("[Desktop Action quit]\nHidden=true",   True),
]
#: XDG_CONFIG_HOME, and the path of the entry.
FOLDERS: list[tuple[str | None, str | None, str | None]] = [
    (None,        "/home/ada", "/home/ada/.config"),
    ("",          "/home/ada", "/home/ada/.config"),
    ("/etc/ada",  "/home/ada", "/etc/ada"),
    ("/etc/ada",  None,        "/etc/ada"),
    ("relative",  "/home/ada", "/home/ada/.config"),
    (None,        None,        None),
]
#: Names of folders that a desktop could misread.
NAMES = ["plain", "a b", "$HOME", "`id`", 'q"q', "q'q", "back\\slash", "%f 100%%", "tab\tand\nline", "Gr\u00f6\u00dfe"]
# fmt: on


@pytest.mark.parametrize(("command", "line"), LINES)
def test_a_command_is_quoted_as_the_specification_says(command: tuple[str, ...], line: str) -> None:
    assert (exec_line(command), command_from_exec_line(line)) == (line, command)


@pytest.mark.parametrize(("line", "command"), OF_OTHERS)
def test_what_others_wrote_is_read(line: str, command: tuple[str, ...]) -> None:
    assert command_from_exec_line(line) == command


@pytest.mark.parametrize(("named", "home", "folder"), FOLDERS)
def test_it_lies_where_the_desktop_looks(named: str | None, home: str | None, folder: str | None) -> None:
    environment = {} if named is None else {"XDG_CONFIG_HOME": named}
    found = config_folder(environment, Path(home) if home else None)
    assert found == (Path(folder) if folder else None)


@pytest.fixture
def entry(tmp_path: Path) -> DesktopEntry:
    """The autostart entry of a user who has none."""
    return DesktopEntry(tmp_path / "config")


def test_glib_launches_what_was_written(entry: DesktopEntry, tmp_path: Path) -> None:
    out, programs = tmp_path / "out", [tmp_path / name / "run" for name in NAMES]
    for program in programs:
        program.parent.mkdir()
        program.write_text('#!/bin/sh\nprintf "%s\\0" "$0" "$@" >"$OUT.new" && mv "$OUT.new" "$OUT"\n')
        program.chmod(0o700)
        command = (str(program), "--data-dir", *NAMES, "tray")
        entry.write(command)
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "OUT": str(out)}
        subprocess.run(("gio", "launch", entry.location), env=environment, check=True, timeout=20)
        wait_until(out.exists, lambda: f"GLib did not launch {command[0]}", 10)  # noqa: B023 - waited for here
        assert tuple(out.read_text().split("\0")[:-1]) == command
        out.unlink()
        assert entry.find() == LoginItem(command, is_on=True)


@pytest.mark.parametrize(("changed", "is_on"), SWITCHED)
def test_what_a_settings_app_switched_off_is_off_and_is_switched_on_again(
    changed: str, is_on: bool, entry: DesktopEntry
) -> None:
    entry.write(["/x", "tray"])
    file = Path(entry.location)
    file.write_text(file.read_text().replace("X-GNOME-Autostart-enabled=true\n", "") + changed + "\n")
    assert entry.find() == LoginItem(("/x", "tray"), is_on=is_on)
    entry.write(["/y", "tray"])
    assert entry.find() == LoginItem(("/y", "tray"), is_on=True)


def test_it_is_replaced_whole_and_others_may_read_it(entry: DesktopEntry) -> None:
    file = Path(entry.location)
    entry.write(["/x"])
    before = file.stat()
    assert before.st_mode & 0o777 == 0o644
    file.chmod(0o400)  # a read-only file is replaced nevertheless
    entry.write(["/y"])
    assert file.stat().st_ino != before.st_ino
    assert [one.name for one in file.parent.iterdir()] == [file.name]


def test_behind_a_link_the_file_that_is_meant_is_written(entry: DesktopEntry, tmp_path: Path) -> None:
    file = Path(entry.location)
    file.parent.mkdir(parents=True)
    file.symlink_to(tmp_path / "kept-elsewhere.desktop")
    entry.write(["/x"])
    assert file.is_symlink()
    assert "Exec" in (tmp_path / "kept-elsewhere.desktop").read_text()


def test_where_nothing_can_be_read_nothing_starts(entry: DesktopEntry) -> None:
    file = Path(entry.location)
    file.parent.mkdir(parents=True)
    assert entry.find() is None
    file.write_bytes(b"\xff\xfe nonsense")
    found = entry.find()
    assert found is not None
    assert not found.is_on
    file.unlink()
    os.mkfifo(file)  # is not waited for
    assert entry.find() is None
    for _ in range(2):  # deleting it again has no effect
        entry.remove()


def test_systemd_makes_a_unit_of_it(entry: DesktopEntry, tmp_path: Path) -> None:
    """In Plasma and GNOME, systemd starts the entries in the folder."""
    program = tmp_path / "a folder" / "50%" / "run"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    entry.write([str(program), "--data-dir", "/my mail/Größe", "tray"])
    environment = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)}

    def units() -> list[Path]:
        made = Path(tempfile.mkdtemp(dir=tmp_path))
        generator = "/usr/lib/systemd/user-generators/systemd-xdg-autostart-generator"
        subprocess.run((generator, made, made, made), env=environment, check=True, timeout=20)
        return list(made.glob("*.service"))

    (unit,) = units()
    written = f'ExecStart=:/usr/bin/env "{tmp_path}/a folder/50%%/run" --data-dir "/my mail/Größe" tray'
    assert written in unit.read_text().splitlines()
    program.unlink()  # as when its package is removed
    assert units() == []
