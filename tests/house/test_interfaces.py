"""The comparison of what users see: it reads every interface of a build, and names each line that differs."""

from pathlib import Path

from tests.house.interfaces import ROOT, Build, compare, read_interfaces


def test_every_interface_is_read_and_a_difference_is_named(tmp_path: Path) -> None:
    found = read_interfaces(Build(ROOT, tmp_path))
    assert {"help", "help emails send", "help store rekey", "openapi.json", "tools.json", "metrics"} <= set(found)
    assert len(found) > 100
    assert '"operationId": "sendEmail"' in found["openapi.json"]
    assert '"name": "send_email"' in found["tools.json"]
    assert "mailbox_appliance_build_info" in found["metrics"]
    assert compare(found, found) == []
    changed = found | {"help": found["help"].replace("serve", "run"), "metrics": ""}
    lines = compare(found, changed)
    assert "--- before: help" in lines
    assert "--- before: metrics" in lines
    assert any(line.startswith("+  run ") for line in lines)
