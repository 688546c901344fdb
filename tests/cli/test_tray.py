"""The options of `tray`; for the icon itself see tests/tray."""

from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.__main__ import SERVICES
from tests.cli.conftest import CommandLine


def test_the_icon_is_for_an_appliance_of_this_computer(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Path] = []

    def show(data_dir: Path, *_: object, **__: Any) -> int:
        shown.append(data_dir)
        return 0

    cli.services |= SERVICES
    for name in ("run", "quit_tray"):
        monkeypatch.setattr(f"mailbox_appliance.tray.run.{name}", show)
    for more in ((), ("--open",), ("--quit",)):
        refused = cli("tray", *more, "--instance", "http://127.0.0.1:1")
        assert (refused.code, refused.error["code"]) == (2, "invalid_request")
        assert "--data-dir" in refused.error["message"]
    assert shown == []
    # The variable is for the commands that ask any appliance, and stands in the environment of a whole desktop.
    assert cli("tray", environment={"MAILBOX_APPLIANCE_INSTANCE": "http://127.0.0.1:1"}).code == 0
    assert shown == [cli.data_dir]
