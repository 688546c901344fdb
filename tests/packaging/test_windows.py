"""The Windows installer compiles, with a bundle of empty programs; for installing see windows_proof.py."""

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from mailbox_appliance.client import local
from mailbox_appliance.tray import autostart
from mailbox_appliance.version import __version__
from tests.packaging.spec_files import begins, of_kind, run_spec
from tests.packaging.unit_files import ROOT

WINDOWS = ROOT / "packaging" / "windows"
SCRIPT = WINDOWS / "mailbox-appliance.nsi"
PROGRAMS = ("mailbox-appliance.exe", "mailbox-appliance-tray.exe")


def defined(name: str) -> str:
    """Return the value of a name defined in the script."""
    (value,) = re.findall(rf'^!define {name} "(.*)"$', SCRIPT.read_text(), re.M)
    return str(value)


def compiled(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run `makensis` with warnings as errors."""
    command = ("makensis", "-V2", "-WX", *arguments, str(SCRIPT))
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


@pytest.fixture
def given(tmp_path: Path) -> list[str]:
    """Return the arguments of the script: a stand-in bundle, and real icons."""
    bundle = tmp_path / "bundle"
    (bundle / "_internal").mkdir(parents=True)
    for name in (*PROGRAMS, "_internal/base_library.zip", "_internal/THIRD-PARTY.txt"):
        (bundle / name).write_bytes(name.encode())
    draw = (sys.executable, str(ROOT / "packaging" / "icons" / "draw"), str(tmp_path))
    subprocess.run(draw, check=True)
    out = tmp_path / f"mailbox-appliance-{__version__}-windows.exe"
    named = {"VERSION": __version__, "BUNDLE": bundle, "ICON": tmp_path / "mailbox-appliance.ico", "OUT": out}
    return ["-DFAST", *(f"-D{name}={value}" for name, value in named.items())]


def test_it_compiles(given: list[str], tmp_path: Path) -> None:
    finished = compiled(tmp_path, *given)
    assert (finished.returncode, finished.stdout + finished.stderr) == (0, "")
    (program,) = tmp_path.glob("*-windows.exe")
    content = program.read_bytes()
    assert content.startswith(b"MZ")
    assert b'requestedExecutionLevel level="asInvoker"' in content
    assert __version__.encode("utf-16-le") in content


def test_a_release_that_is_to_be_has_the_numbers_of_the_release(given: list[str], tmp_path: Path) -> None:
    others = [each for each in given if "VERSION" not in each]
    finished = compiled(tmp_path, *others, "-DVERSION=1.2.3rc4")
    assert (finished.returncode, finished.stdout + finished.stderr) == (0, "")
    (program,) = tmp_path.glob("*-windows.exe")
    assert "1.2.3rc4".encode("utf-16-le") in program.read_bytes()
    # VS_FIXEDFILEINFO: 1.2 and 3.0, each as 32 bits.
    assert struct.pack("<HHHH", 2, 1, 0, 3) in program.read_bytes()


def test_programs_of_its_own_sign_it_and_the_uninstaller(given: list[str], tmp_path: Path) -> None:
    finished = compiled(tmp_path, *given, f"-DSIGN=echo >>{tmp_path}/signed")
    assert finished.returncode == 0, finished.stdout
    # NSIS creates the uninstaller while it packs.
    assert len((tmp_path / "signed").read_text().splitlines()) == 2


def test_no_program_is_given_away_without_the_licences_of_others(given: list[str], tmp_path: Path) -> None:
    (tmp_path / "bundle" / "_internal" / "THIRD-PARTY.txt").unlink()
    finished = compiled(tmp_path, *given)
    assert finished.returncode != 0
    assert "THIRD-PARTY.txt" in finished.stdout + finished.stderr


def test_nothing_is_left_to_guess(given: list[str], tmp_path: Path) -> None:
    finished = compiled(tmp_path, *(each for each in given if "VERSION" not in each))
    assert finished.returncode != 0
    assert "VERSION, BUNDLE, ICON and OUT are required" in finished.stdout + finished.stderr


def test_it_takes_away_what_the_program_wrote_into_the_registry() -> None:
    assert (defined("RUN"), defined("APPROVED")) == (autostart.RUN, autostart.APPROVED)
    assert defined("RUN_NAME") == autostart.NAME


def test_the_program_is_not_where_the_data_is() -> None:
    script = SCRIPT.read_text()
    assert defined("PROGRAM") == local.APPLICATION
    assert 'InstallDir "$LOCALAPPDATA\\Programs\\${NAME}"' in script
    # Only the installer's own folders are removed with their contents.
    removed = {line.split('"')[1] for line in script.splitlines() if line.strip().startswith("RMDir /r")}
    assert removed == {"$INSTDIR\\_internal", "$INSTDIR\\_internal.old", "$SMPROGRAMS\\${NAME}"}


def test_the_bundle_has_the_programs_that_the_installer_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = run_spec(WINDOWS / "mailbox-appliance.spec", monkeypatch, tmp_path)
    console, tray = of_kind(made, "EXE")
    assert {f"{each.named['name']}.exe" for each in (console, tray)} == set(PROGRAMS)
    assert (defined("CONSOLE"), defined("TRAY")) == ("${PROGRAM}.exe", "${PROGRAM}-tray.exe")
    # A program without a console has no standard streams, and the other one would open a window.
    assert (console.named["console"], tray.named["console"]) == (True, False)
    assert (begins(console)[1:], begins(tray)[1:]) == (["launch"], ["launch_tray"])
    (collected,) = of_kind(made, "COLLECT")
    assert collected.given[:2] == (console, tray)
    assert "pystray._win32" in of_kind(made, "Analysis")[0].named["hiddenimports"]


def test_the_bundle_has_the_licences_of_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = of_kind(run_spec(WINDOWS / "mailbox-appliance.spec", monkeypatch, tmp_path), "Analysis")[0]
    ((name, file, kind),) = found.datas
    assert (name, kind) == ("THIRD-PARTY.txt", "DATA")
    text = Path(file).read_text("utf-8")
    for part in ("  pystray 0.", "  pyinstaller ", "GNU LESSER GENERAL PUBLIC LICENSE", "preact"):
        assert part in text


def test_the_programs_tell_their_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for program in of_kind(run_spec(WINDOWS / "mailbox-appliance.spec", monkeypatch, tmp_path), "EXE"):
        fixed, (strings, _) = program.named["version"].given
        assert fixed.given[0] == tuple(map(int, f"{__version__}.0".split(".")))
        (table,) = strings.given[0]
        told = dict(each.given for each in table.given[1])
        assert (told["ProductVersion"], told["OriginalFilename"]) == (__version__, f"{program.named['name']}.exe")


@pytest.mark.parametrize(
    ("given", "asked"),
    [((), ["tray", "--open"]), (("tray",), ["tray"]), (("serve", "--port", "0"), ["serve", "--port", "0"])],
)
def test_a_click_on_a_program_opens_the_tray(given: tuple[str, ...], asked: list[str]) -> None:
    launched = (
        "import runpy, sys, mailbox_appliance.__main__ as ours\n"
        "ours.main = lambda: print(sys.argv[1:])\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    launch = str(ROOT / "packaging" / "launch_tray.py")
    finished = subprocess.run([sys.executable, "-c", launched, launch, *given], capture_output=True, text=True)
    assert (finished.stdout, finished.stderr) == (f"{asked}\n", "")
