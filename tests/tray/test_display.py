"""The state that the icon shows, and the time of polls."""

from pathlib import Path

import pytest

from mailbox_appliance.client.tokens import TokenStore
from mailbox_appliance.tray.autostart import Autostart, for_this_system
from mailbox_appliance.tray.display import TrayDisplay
from mailbox_appliance.tray.item_actions import DesktopLauncher, TrayParts
from mailbox_appliance.tray.service import ServiceProcess
from mailbox_appliance.tray.watcher import ApplianceWatcher


def test_the_home_is_read_by_a_look_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The menu works even if the home directory is on a network drive that does not answer."""
    reads: list[Autostart] = []

    def read(autostart: Autostart) -> bool:
        reads.append(autostart)
        return True

    monkeypatch.setattr(Autostart, "is_ours", property(read))
    tokens = TokenStore(tmp_path / "config", {"MAILBOX_APPLIANCE_KEYCHAIN": "off"})
    autostart = for_this_system({"HOME": str(tmp_path)}, tmp_path)
    parts = TrayParts(
        tmp_path, ApplianceWatcher(tmp_path, tokens, {}), ServiceProcess(tmp_path, {}), DesktopLauncher({}), autostart
    )
    showing = TrayDisplay(parts)
    showing.refresh()
    assert (showing.state.starts_at_login, reads) == (None, [])
    showing._poll()
    assert (showing.state.starts_at_login, reads) == (True, [autostart])
