"""Starting this program and others, installed by pip and as a bundle."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mailbox_appliance.cli.commands.admin import SECRET_VARIABLE, TOKEN_VARIABLE
from mailbox_appliance.cli.context import PASSWORD_VARIABLE
from mailbox_appliance.store.key import PASSPHRASE_VARIABLE
from mailbox_appliance.system import processes
from mailbox_appliance.tray.login import TOKEN_VARIABLE as TOKEN

ROOT = Path(__file__).resolve().parents[2]
GIVEN = {"PATH": "/bin", "LD_LIBRARY_PATH": "/unpacked", "_PYI_APPLICATION_HOME_DIR": "/unpacked"}
ORIGINAL = {"LD_LIBRARY_PATH_ORIG": "/own"}


@pytest.fixture
def bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)


def test_installed_it_is_a_module_wherever_it_is_started_from(tmp_path: Path) -> None:
    (tmp_path / "mailbox_appliance").mkdir()
    (tmp_path / "mailbox_appliance" / "__init__.py").write_text("raise SystemExit('not this one')")
    environment = processes.child_environment({"PATH": "/bin", "PYTHONPATH": str(tmp_path)})
    told = subprocess.run(
        processes.own_command("--version"), env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert told.stdout.startswith("mailbox-appliance "), told.stderr
    assert processes.foreign_environment(GIVEN) == GIVEN
    assert processes.detached_environment(GIVEN) == processes.child_environment(GIVEN)


@pytest.mark.usefixtures("bundle")
def test_a_bundle_is_its_own_program() -> None:
    assert processes.own_command("serve", "--port", "0") == [sys.executable, "serve", "--port", "0"]


@pytest.mark.usefixtures("bundle")
def test_children_of_a_bundle_share_what_is_unpacked_unless_they_outlive_it() -> None:
    shared = {"PATH": "/bin", "_PYI_APPLICATION_HOME_DIR": "/unpacked"}
    assert processes.child_environment(GIVEN) == shared
    assert processes.detached_environment(GIVEN) == {**shared, "PYINSTALLER_RESET_ENVIRONMENT": "1"}


@pytest.mark.usefixtures("bundle")
def test_others_do_not_load_the_libraries_of_a_bundle() -> None:
    assert processes.foreign_environment(GIVEN) == {"PATH": "/bin"}
    assert processes.foreign_environment({**GIVEN, **ORIGINAL}) == {"PATH": "/bin", "LD_LIBRARY_PATH": "/own"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere a program that runs is not replaced")
def test_a_bundle_whose_file_is_another_one_by_now_knows_it(tmp_path: Path) -> None:
    asked = """if True:
        import os, sys
        from mailbox_appliance.system import processes
        told = [processes.is_bundle_replaced()]
        sys.frozen = True
        told.append(processes.is_bundle_replaced())
        os.unlink(sys.executable)
        print([*told, processes.is_bundle_replaced()])
    """
    python = shutil.copy(Path(sys.executable).resolve(), tmp_path / "python")
    environment = {"PYTHONHOME": sys.base_prefix, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([str(python), "-c", asked], env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == "[False, False, True]", done.stderr


OURS = {"MAILBOX_APPLIANCE_DATA_DIR": "/data", "MAILBOX_APPLIANCE_KEYCHAIN": "off"}


def secrets_of_ours() -> dict[str, str]:
    """Return our variables that hold a secret."""
    named = (TOKEN, PASSPHRASE_VARIABLE, PASSWORD_VARIABLE, SECRET_VARIABLE, TOKEN_VARIABLE)
    given = ("NEW_PASSPHRASE", "MAILBOX_PASSWORD", "GOOGLE_CLIENT_SECRET", "OUTLOOK_CLIENT_SECRET", "LINK")
    return dict.fromkeys((*named, *(f"MAILBOX_APPLIANCE_{name}" for name in given)), "secret")


def test_others_are_told_no_secret_of_ours() -> None:
    assert processes.foreign_environment({**OURS, "TOKEN": "theirs", **secrets_of_ours()}) == {
        **OURS,
        "TOKEN": "theirs",
    }


@pytest.mark.usefixtures("bundle")
def test_others_are_told_none_by_a_bundle_either() -> None:
    assert processes.foreign_environment({**OURS, **secrets_of_ours()}) == OURS
