"""Linux desktops and software centers accept the program's descriptions."""

import configparser
import subprocess
from xml.etree import ElementTree

from mailbox_appliance.tray import autostart
from tests.packaging.unit_files import ROOT

LINUX = ROOT / "packaging" / "linux"
ENTRY = LINUX / "mailbox-appliance.desktop"
METAINFO = LINUX / "mailbox-appliance.metainfo.xml"


def test_the_entry_is_valid_and_opens_the_tray() -> None:
    finished = subprocess.run(["desktop-file-validate", "--warn-kde", str(ENTRY)], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout + finished.stderr) == (0, "")
    entry = configparser.ConfigParser(interpolation=None)
    entry.optionxform = str  # type: ignore[assignment,method-assign]
    entry.read(ENTRY)
    assert entry["Desktop Entry"]["Exec"] == "mailbox-appliance tray --open"
    assert entry["Desktop Entry"]["Icon"] == "mailbox-appliance"


def test_the_description_for_software_centres_is_valid() -> None:
    finished = subprocess.run(["appstreamcli", "validate", "--no-net", str(METAINFO)], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout
    root = ElementTree.parse(METAINFO).getroot()
    assert root.findtext("launchable") == ENTRY.name
    assert root.findtext("project_license") == "Apache-2.0"
    # One reversed domain in everything that needs one.
    assert (root.findtext("id") or "").rpartition(".")[0] == autostart.LABEL.rpartition(".")[0]
