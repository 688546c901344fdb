"""What shows an icon here: Windows' and macOS' own places for it, and on Linux what `linux_hosts` finds. Where nothing
does, a person is told why.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from mailbox_appliance.tray.host import Icon, NoTray, OnClick, OnOpen
from mailbox_appliance.tray.pystray_icon import PystrayIcon, image

#: Seconds. A desktop that has just been logged in to may start us before what shows icons.
PATIENCE = 10.0


def find(
    on_click: OnClick,
    on_open: OnOpen,
    environment: Mapping[str, str],
    *,
    patience: float = PATIENCE,
    platform: str = sys.platform,
) -> Icon:
    """The icon, not shown yet. On a desktop that shows none, waits for `patience` seconds; raises `NoTray`."""
    if platform in ("win32", "darwin"):
        return _system_icon(on_click, platform)
    if platform != "linux":
        raise NoTray(f"Tray icons are not known on this system ({platform}).")
    from mailbox_appliance.tray import linux_hosts

    return linux_hosts.find(on_click, on_open, environment, patience)


def _system_icon(on_click: OnClick, platform: str) -> Icon:
    """Neither system tells before the menu opens, so it shows what was known last."""
    try:
        import pystray

        if platform == "win32":
            # One & would underline the letter behind it.
            return PystrayIcon(pystray.Icon, image, on_click, escaped=lambda label: label.replace("&", "&&"))
        return PystrayIcon(pystray.Icon, image, on_click, in_thread=_main_thread())
    except Exception as error:
        # Whatever it is: no session with a screen, as over SSH, or a library that is not there.
        raise NoTray(f"This session has no place for a tray icon ({type(error).__name__}: {error}).") from error


def _main_thread() -> Callable[[Callable[[], None]], Any]:
    """macOS lets only its main thread change what is seen."""
    from importlib import import_module

    call_after: Callable[[Callable[[], None]], Any] = import_module("PyObjCTools.AppHelper").callAfter
    return call_after
