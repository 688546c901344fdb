"""The icon over D-Bus: a tray host on a bus of its own shows it, opens its menu and clicks rows."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest
from jeepney import DBusAddress, HeaderFields, new_method_call, new_signal
from jeepney.bus import get_bus
from jeepney.io.blocking import open_dbus_connection, prep_socket

from mailbox_appliance.tray import display
from mailbox_appliance.tray.linux import icon
from mailbox_appliance.tray.view import SEPARATOR, Action, Icon, IconLook, MenuRow
from tests.servers.session_bus import SessionBus
from tests.servers.tray_watcher import ITEM, MENU, WATCHER, TrayHost

PATIENCE = 10.0
ROWS = (
    MenuRow("Everything is up to date", enabled=False),
    SEPARATOR,
    MenuRow("Open console", Action.OPEN_CONSOLE),
    MenuRow("ada_l@example.org & co: up to date", Action.SHOW_MAILBOXES),
    MenuRow("Allow remote access (HTTPS)", Action.SWITCH_HTTPS, checked=False),
    MenuRow("Start at login", Action.SWITCH_START_AT_LOGIN, checked=True),
    MenuRow("Restore…", Action.RESTORE, enabled=False),
    MenuRow("Quit", Action.QUIT),
)


class Tray:
    """An icon that runs in a thread, and the desktop that shows it."""

    def __init__(self, bus: SessionBus, host: TrayHost) -> None:
        self.bus, self.host = bus, host
        self.clicks = Queue[Action]()
        self.opened = threading.Event()
        self.on_click: Callable[[Action], None] = self.clicks.put
        self.on_open: Callable[[], None] = self.opened.set
        self.icon: Icon = display.find_icon(
            lambda action: self.on_click(action), lambda: self.on_open(), bus.environment
        )
        self.thread = threading.Thread(target=self.icon.run)

    def start(self, rows: Sequence[MenuRow] = ROWS, look: IconLook = IconLook.WELL) -> "Tray":
        """Show the icon, and wait until the desktop does."""
        self.icon.show(look, "Everything is up to date", rows)
        self.thread.start()
        self.host.wait_for_icon()
        return self

    def show(
        self, rows: Sequence[MenuRow] = ROWS, look: IconLook = IconLook.WELL, title: str = "Everything is up to date"
    ) -> None:
        """Change what the icon shows."""
        self.icon.show(look, title, rows)

    def told(self) -> list[str]:
        """Return all signals sent so far."""
        self.host.settle()
        return [signal.name for signal in self.host.signals]


@pytest.fixture
def tray(bus: SessionBus, host: TrayHost) -> Iterator[Tray]:
    """A tray that is not shown yet."""
    tray = Tray(bus, host)
    yield tray
    tray.icon.stop()
    if tray.thread.ident is None:
        tray.thread.start()
    tray.thread.join(PATIENCE)
    assert not tray.thread.is_alive(), "run has not returned"


# --- The visible icon ---


def test_a_desktop_sees_icon_title_and_menu(tray: Tray) -> None:
    item = tray.start().host.item()
    assert item["Id"] == "mailbox-appliance"
    assert item["Title"] == item["ToolTip"][2] == "Mailbox Appliance: Everything is up to date"
    assert (item["Status"], item["Category"], item["ItemIsMenu"]) == ("Active", "ApplicationStatus", False)
    assert [(width, height, len(pixels)) for width, height, pixels in item["IconPixmap"]] == [
        (size, size, size * size * 4) for size in (16, 22, 24, 32, 48, 64)
    ]
    middle = (22 * 3 + 11) * 4
    assert item["IconPixmap"][1][2][middle : middle + 4] == bytes((255, 0x01, 0x72, 0xAD)), "opacity comes first"


def test_rows_of_every_kind_are_seen_as_they_are_meant(tray: Tray) -> None:
    rows = tray.start().host.rows()
    assert [(row.label, row.enabled, row.checked, row.is_separator) for row in rows] == [
        ("Everything is up to date", False, None, False),
        ("", True, None, True),
        ("Open console", True, None, False),
        ("ada_l@example.org & co: up to date", True, None, False),
        ("Allow remote access (HTTPS)", True, False, False),
        ("Start at login", True, True, False),
        ("Restore…", False, None, False),
        ("Quit", True, None, False),
    ]


def test_a_click_by_label_does_what_the_row_is_for(tray: Tray) -> None:
    tray.start()
    for label, action in (
        ("Quit", Action.QUIT),
        ("ada_l@example.org & co: up to date", Action.SHOW_MAILBOXES),
        ("Start at login", Action.SWITCH_START_AT_LOGIN),
    ):
        tray.host.click(label)
        assert tray.clicks.get(timeout=PATIENCE) is action


def test_a_row_that_cannot_be_clicked_is_not(tray: Tray) -> None:
    host = tray.start().host
    for label in ("Restore…", "Everything is up to date"):
        host.call_menu("Event", "isvu", (host.row(label).id, "clicked", ("i", 0), 0))
    host.click("Quit")
    assert tray.clicks.get(timeout=PATIENCE) is Action.QUIT
    assert tray.clicks.empty()


def test_clicks_come_in_groups_and_alone_and_unknown_rows_are_named(tray: Tray) -> None:
    host = tray.start().host
    quit_row = host.row("Quit").id
    host.call_menu("Event", "isvu", (quit_row, "clicked", ("s", ""), 1))
    group = [(4711, "clicked", ("i", 0), 0), (quit_row, "hovered", ("i", 0), 0), (quit_row, "clicked", ("i", 0), 0)]
    assert host.call_menu("EventGroup", "a(isvu)", (group,)) == ([4711],)
    assert [tray.clicks.get(timeout=PATIENCE) for _ in range(2)] == [Action.QUIT, Action.QUIT]
    with pytest.raises(AssertionError, match="no row 4711"):
        host.call_menu("Event", "isvu", (4711, "clicked", ("i", 0), 0))


def test_a_click_on_the_icon_opens_the_console(tray: Tray) -> None:
    name, path = tray.start().host.icons[-1]
    tray.host.call(name, path, ITEM, "Activate", "ii", (3, 4))
    assert tray.clicks.get(timeout=PATIENCE) is Action.OPEN_CONSOLE
    for member, signature, body in (("ContextMenu", "ii", (1, 1)), ("Scroll", "is", (1, "vertical"))):
        tray.host.call(name, path, ITEM, member, signature, body)
    assert tray.clicks.empty()


def test_without_anything_to_open_the_icon_is_its_menu(tray: Tray) -> None:
    tray.start(
        (MenuRow("Start the appliance", Action.START), MenuRow("Open console", Action.OPEN_CONSOLE, enabled=False))
    )
    assert tray.host.item()["ItemIsMenu"] is True
    tray.host.call(*tray.host.icons[-1], ITEM, "Activate", "ii", (3, 4))
    assert tray.clicks.empty()


# --- Changes ---


def test_what_only_looks_otherwise_is_told_row_by_row_and_keeps_its_number(tray: Tray) -> None:
    tray.start()
    before = tray.host.rows()
    tray.host.signals.clear()
    changed = [*ROWS]
    changed[0] = MenuRow("A mailbox needs you", enabled=False)
    changed[5] = MenuRow("Start at login", Action.SWITCH_START_AT_LOGIN, checked=False)
    tray.show(changed)
    tray.host.wait_for("Start at login", checked=False)
    assert tray.told() == ["ItemsPropertiesUpdated"]
    updated, removed = tray.host.signals[0].body
    assert updated == [
        (before[0].id, {"label": ("s", "A mailbox needs you")}),
        (before[5].id, {"toggle-state": ("i", 0)}),
    ]
    assert removed == []
    assert [row.id for row in tray.host.rows()] == [row.id for row in before]


def test_a_new_row_is_a_new_layout_and_the_others_keep_their_numbers(tray: Tray) -> None:
    tray.start()
    before = {row.label: row.id for row in tray.host.rows()}
    tray.host.signals.clear()
    tray.show(
        (ROWS[0], MenuRow("1 message may not have been sent: review…", Action.SHOW_UNCERTAIN), *ROWS[1:-2], ROWS[-1])
    )
    tray.host.wait_for("1 message may not have been sent: review…")
    assert tray.told() == ["LayoutUpdated"]
    after = {row.label: row.id for row in tray.host.rows()}
    assert after.pop("1 message may not have been sent: review…") not in before.values()
    assert after == {label: number for label, number in before.items() if label != "Restore…"}


def test_a_click_meant_for_a_row_that_has_gone_reaches_no_other(tray: Tray) -> None:
    tray.start((MenuRow("Start the appliance", Action.START), MenuRow("Quit", Action.QUIT)))
    start = tray.host.row("Start the appliance").id
    tray.show((MenuRow("Stop the appliance", Action.STOP), MenuRow("Quit", Action.QUIT)))
    assert tray.host.call_menu("EventGroup", "a(isvu)", ([(start, "clicked", ("i", 0), 0)],)) == ([start],)
    assert tray.clicks.empty()


def test_nothing_new_is_not_told(tray: Tray) -> None:
    tray.start()
    tray.told()
    tray.host.signals.clear()
    for _ in range(3):
        tray.show(tuple(ROWS))
    assert tray.told() == []


def test_a_look_is_told_and_seen(tray: Tray) -> None:
    well = tray.start().host.item()["IconPixmap"]
    tray.host.signals.clear()
    tray.show(look=IconLook.ATTENTION, title="2 items need attention")
    assert tray.told() == ["NewTitle", "NewToolTip", "NewIcon", "NewAttentionIcon", "NewStatus"]
    item = tray.host.item()
    assert (item["Status"], item["Title"]) == ("NeedsAttention", "Mailbox Appliance: 2 items need attention")
    assert item["IconPixmap"] == item["AttentionIconPixmap"] != well


def test_a_menu_that_opens_has_fresh_rows(tray: Tray) -> None:
    tray.on_open = lambda: tray.show((MenuRow("Just looked", enabled=False), *ROWS[1:]))
    tray.start().host.open_menu()
    tray.host.wait_for("Just looked")


@pytest.mark.parametrize(
    ("member", "signature", "body"),
    [
        ("AboutToShow", "i", (0,)),
        ("AboutToShowGroup", "ai", ([0, 1],)),
        ("Event", "isvu", (0, "opened", ("i", 0), 0)),
        ("EventGroup", "a(isvu)", ([(0, "opened", ("i", 0), 0)],)),
    ],
)
def test_every_way_to_say_that_the_menu_opens_is_heard(
    tray: Tray, member: str, signature: str, body: Sequence[object]
) -> None:
    tray.start().host.call_menu(member, signature, body)
    assert tray.opened.wait(PATIENCE)


def test_what_is_shown_last_is_seen_whichever_threads_show(tray: Tray) -> None:
    tray.start()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: tray.show((MenuRow(f"row {number}", enabled=False), *ROWS[1:])), range(100)))
    tray.show((MenuRow("the last", enabled=False), *ROWS[1:]))
    tray.host.wait_for("the last")


# --- Notifications ---


def test_a_notification_is_shown_as_it_was_written(tray: Tray) -> None:
    tray.start().icon.notify("Backup made", "1 < 2 & <b>no tags</b>")
    notice = tray.host.wait_for_notice("Backup made")
    assert notice.text == "1 < 2 & <b>no tags</b>"


def test_where_nobody_shows_notifications_nothing_happens(bus: SessionBus) -> None:
    host = TrayHost(bus.address, notifications=False).start()
    tray = Tray(bus, host).start()
    tray.icon.notify("half of a pair \ud800 and a zero\0", "x" * 100_000)
    host.click("Quit")
    assert tray.clicks.get(timeout=PATIENCE) is Action.QUIT
    tray.icon.stop()
    tray.thread.join(PATIENCE)
    host.stop()


# --- Programs that come and go ---


def test_it_registers_again_when_what_shows_icons_comes_back(tray: Tray) -> None:
    tray.start()
    tray.host.stop()
    tray.show((MenuRow("Meanwhile", enabled=False), *ROWS[1:]))
    tray.host.start()
    tray.host.wait_for_icon()
    assert tray.host.labels()[0] == "Meanwhile"


def test_it_ends_with_the_session(tmp_path: Path) -> None:
    bus = SessionBus(tmp_path).start()
    host = TrayHost(bus.address).start()
    tray = Tray(bus, host).start()
    bus.stop()
    tray.thread.join(PATIENCE)
    assert not tray.thread.is_alive()
    tray.show(title="nobody sees it")
    tray.icon.notify("nobody", "reads it")
    tray.icon.stop()
    host.stop()


def test_stop_before_run_holds(tray: Tray) -> None:
    tray.icon.stop()
    tray.thread.start()
    tray.thread.join(PATIENCE)
    assert not tray.thread.is_alive()


def test_a_click_may_stop_it_and_the_icon_is_gone(tray: Tray) -> None:
    tray.on_click = lambda _: tray.icon.stop()
    tray.start().host.click("Quit")
    tray.thread.join(PATIENCE)
    tray.host.wait_until_gone()


def test_it_does_nothing_while_nothing_happens(tray: Tray) -> None:
    tray.start().told()
    before = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - before < 0.2  # a loop would take all of it


# --- Messages of other programs ---


@pytest.mark.parametrize(
    ("path", "interface", "member", "signature", "body"),
    [
        ("/StatusNotifierItem", ITEM, "Explode", "", ()),
        ("/MenuBar", MENU, "Explode", "", ()),
        ("/MenuBar", MENU, "GetLayout", "s", ("nonsense",)),
        ("/MenuBar", MENU, "GetLayout", "iias", (4711, -1, [])),
        ("/MenuBar", MENU, "GetProperty", "is", (4711, "label")),
        ("/MenuBar", MENU, "AboutToShow", "i", (4711,)),
        ("/nowhere", MENU, "GetLayout", "iias", (0, -1, [])),
        ("/StatusNotifierItem", "org.freedesktop.DBus.Properties", "Get", "ss", (ITEM, "Secret")),
        ("/StatusNotifierItem", "org.freedesktop.DBus.Properties", "Set", "ssv", (ITEM, "Title", ("s", "mine"))),
    ],
)
def test_what_makes_no_sense_is_refused(
    tray: Tray, path: str, interface: str, member: str, signature: str, body: tuple[object, ...]
) -> None:
    name, _path = tray.start().host.icons[-1]
    with pytest.raises(AssertionError):
        tray.host.call(name, path, interface, member, signature, body)
    assert tray.host.labels()[0] == "Everything is up to date"


def test_it_tells_what_it_can_be_asked(tray: Tray) -> None:
    name, path = tray.start().host.icons[-1]
    told = [
        tray.host.call(name, each, "org.freedesktop.DBus.Introspectable", "Introspect")[0]
        for each in ("/", path, "/MenuBar")
    ]
    assert '<node name="StatusNotifierItem"/><node name="MenuBar"/>' in told[0]
    assert all(f'<property name="{each}"' in told[1] for each in tray.host.item())
    assert '<method name="EventGroup"><arg type="a(isvu)" direction="in"/>' in told[2]
    tray.host.call(name, "/", "org.freedesktop.DBus.Peer", "Ping")


def test_a_message_with_a_field_of_a_later_protocol_is_passed_over(tray: Tray) -> None:
    name, _path = tray.start().host.icons[-1]
    socket = prep_socket(get_bus(tray.bus.address))
    with socket:
        hello = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
        socket.sendall(new_method_call(hello, "Hello").serialise(serial=1))
        odd = bytearray(
            new_method_call(DBusAddress("/MenuBar", name, MENU), "Event", "isvu", _click(tray)).serialise(serial=2)
        )
        at = odd.index(b"\x02\x01s\0")  # the interface, which a call may lack
        odd[at] = 77
        socket.sendall(odd)
        socket.sendall(
            new_method_call(DBusAddress("/MenuBar", name, MENU), "Event", "isvu", _click(tray)).serialise(serial=3)
        )
        assert tray.clicks.get(timeout=PATIENCE) is Action.QUIT


def test_a_signal_that_only_the_bus_may_send_is_passed_over_from_others(tray: Tray) -> None:
    name, _path = tray.start().host.icons[-1]
    before = len(tray.host.icons)
    with open_dbus_connection(tray.bus.address) as peer:
        for signature, body in (("s", ("x",)), (None, ()), ("sss", (WATCHER, "", ":1.1"))):
            for interface in ("a.b", "org.freedesktop.DBus"):
                signal = new_signal(DBusAddress("/x", interface=interface), "NameOwnerChanged", signature, body)
                signal.header.fields[HeaderFields.destination] = name
                peer.send(signal)
        peer.send(new_method_call(DBusAddress("/MenuBar", name, MENU), "Event", "isvu", _click(tray)))
        assert tray.clicks.get(timeout=PATIENCE) is Action.QUIT
    tray.host.settle()
    assert len(tray.host.icons) == before


def test_what_fails_over_one_message_does_not_end_it(tray: Tray, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _path = tray.start().host.icons[-1]
    with monkeypatch.context() as patched, open_dbus_connection(tray.bus.address) as peer:
        patched.setattr(icon, "_is_new_watcher", lambda signal: signal.body[1])
        signal = new_signal(DBusAddress("/x", interface="a.b"), "NameOwnerChanged", "s", ("x",))
        signal.header.fields[HeaderFields.destination] = name
        peer.send(signal)
        peer.send(new_method_call(DBusAddress("/MenuBar", name, MENU), "Event", "isvu", _click(tray)))
        assert tray.clicks.get(timeout=PATIENCE) is Action.QUIT


def _click(tray: Tray) -> tuple[object, ...]:
    return tray.host.row("Quit").id, "clicked", ("i", 0), 0
