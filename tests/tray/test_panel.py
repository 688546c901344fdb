"""The icon in a real panel (XFCE's), on a virtual screen: it is visible, its menu opens, and rows react to the mouse.

If TRAY_PICTURES names a folder, pictures of the screen are kept there.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from mailbox_appliance.tray import display, menu
from mailbox_appliance.tray.state import AccessLevel, HttpsState, MailboxState, ServiceState, TrayState
from mailbox_appliance.tray.view import Action, IconLook, MenuRow
from tests.servers.tray_panel import NEEDED, PANEL, Colour, Panel

BLUE, AMBER, GREY = (0x01, 0x72, 0xAD), (0xFF, 0xB0, 0x00), (0x73, 0x78, 0x80)
PATIENCE = 10.0
WELL = TrayState(
    ServiceState.ANSWERS,
    url="http://127.0.0.1:7733",
    access=AccessLevel.ADMINISTRATOR,
    mailboxes=(MailboxState("ada_l@example.org", "ready"), MailboxState("support@example.org", "ready")),
    last_backup="2026-11-21T03:00:00Z",
    https=HttpsState(enabled=True, url="https://192.0.2.7:7734", fingerprint="sha256:" + "3b7f" * 16),
    starts_at_login=True,
)
NEEDY = TrayState(
    ServiceState.ANSWERS,
    url="http://127.0.0.1:7733",
    access=AccessLevel.ADMINISTRATOR,
    mailboxes=(MailboxState("ada_l@example.org", "reauth_required"), MailboxState("support@example.org", "ready")),
    uncertain=1,
    https=HttpsState(enabled=False),
    starts_at_login=False,
)
STOPPED = TrayState(ServiceState.STOPPED, starts_at_login=False)


@pytest.fixture
def panel(tmp_path: Path) -> Iterator[Panel]:
    if missing := [program for program in NEEDED if not os.access(program, os.X_OK)]:
        pytest.fail(f"not installed: {', '.join(missing)}; run scripts/setup", pytrace=False)
    panel = Panel(tmp_path)
    try:
        yield panel.start()
    finally:
        panel.stop()


def keep(panel: Panel, name: str) -> None:
    """Keep a picture of the screen, if requested."""
    if folder := os.environ.get("TRAY_PICTURES"):
        panel.picture().save(Path(folder, f"panel-{name}.png"))


def texts(rows: tuple[MenuRow, ...]) -> int:
    """Return how many of these rows have a text."""
    return sum(not row.is_separator for row in rows)


def test_the_icon_appears_its_menu_opens_and_a_row_is_clicked(panel: Panel) -> None:
    clicks, opened = Queue[Action](), threading.Event()
    icon = display.find_icon(clicks.put, opened.set, panel.environment)
    icon.show(menu.icon_look(WELL), menu.title_text(WELL), menu.menu_rows(WELL))
    running = threading.Thread(target=icon.run, daemon=True)
    running.start()
    try:
        seen: list[tuple[TrayState, Colour, str]] = [
            (WELL, BLUE, "well"),
            (NEEDY, AMBER, "needs"),
            (STOPPED, GREY, "stopped"),
        ]
        for state, colour, name in seen:
            icon.show(menu.icon_look(state), menu.title_text(state), menu.menu_rows(state))
            place = panel.wait_for(colour)
            assert place.bottom < PANEL
            panel.click(place.middle, button=3)
            rows = menu.menu_rows(state)
            lines = panel.wait_for_lines(texts(rows))
            keep(panel, name)
            assert opened.wait(PATIENCE), "the menu opened, and the program was not told"
            shown = [row for row in rows if not row.is_separator]
            at = next(at for at, row in enumerate(shown) if row.action is Action.QUIT)
            panel.click(lines[at].middle)
            assert clicks.get(timeout=PATIENCE) is Action.QUIT
            panel.wait_until_closed()
            opened.clear()
        icon.show(IconLook.WELL, menu.title_text(WELL), menu.menu_rows(WELL))
        place = panel.wait_for(BLUE)
        assert panel.find(AMBER) is None
        panel.click(place.middle)
        assert clicks.get(timeout=PATIENCE) is Action.OPEN_CONSOLE, "a click on the icon"
    finally:
        icon.stop()
        running.join(PATIENCE)
    panel.wait_until_gone(BLUE)
