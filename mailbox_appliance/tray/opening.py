"""What of others is opened from the menu: a browser, a folder, a terminal; and what is put into the clipboard.

Nothing of it is waited for longer than it takes to see that it has begun, and none is left as a zombie. What cannot be
opened is told by False: there may be no browser, and no clipboard, on a bare desktop.
"""

import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance.system import ownership, processes

#: Seconds after which what was started and goes on counts as opened.
_BEGINS_WITHIN = 3.0
_BROWSERS = (
    ("xdg-open",),
    ("gio", "open"),
    ("x-www-browser",),
    ("sensible-browser",),
    ("firefox",),
    ("chromium",),
    ("google-chrome",),
)
_FILES = (("xdg-open",), ("gio", "open"))
#: Terminals, and what stands before the command in each.
_TERMINALS = (
    ("xdg-terminal-exec",),
    ("x-terminal-emulator", "-e"),
    ("gnome-terminal", "--"),
    ("konsole", "-e"),
    ("xfce4-terminal", "-x"),
    ("mate-terminal", "-x"),
    ("ptyxis", "--"),
    ("kgx", "--"),
    ("foot",),
    ("kitty",),
    ("alacritty", "-e"),
    ("xterm", "-e"),
)
#: A variable without which there is none -> clipboards that read what is to lie in them.
_CLIPBOARDS = (
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
)
_CLIPBOARD_OF: dict[str, tuple[str, ...]] = {"darwin": ("pbcopy",), "win32": ("clip",)}
_AND_STAY = '"$@"; printf "\\nPress Enter to close this window. "; read -r _'
_IN_TERMINAL = 'on run told\ntell application "Terminal"\nactivate\ndo script (item 1 of told)\nend tell\nend run'


@dataclass(frozen=True)
class Opening:
    """Opens things as the desktop of this environment does."""

    environment: Mapping[str, str]
    platform: str = sys.platform

    def open_browser(self, address: Callable[[], str]) -> bool:
        """Show an address in a browser: in that of BROWSER, else in the one that the desktop prefers.

        It is asked for anew for each that is tried: one that has failed may have used a link that is good once.
        """
        named = [_words(part) for part in self.environment.get("BROWSER", "").split(os.pathsep)]
        return self._try_viewers(named, address) or self._show_in_any(_BROWSERS, address)

    def open_folder(self, folder: Path) -> bool:
        """Show a folder."""
        return self._show_in_any(_FILES, lambda: str(folder))

    def open_file(self, file: Path) -> bool:
        """Show a text file."""
        return self._show_in_any(_FILES, lambda: str(file))

    def open_terminal(self, command: Sequence[str]) -> bool:
        """Run a command of ours in a terminal, which stays until somebody has read it."""
        if self.platform == "win32":
            # With /s it is the outer quotes that cmd takes away, and no others.
            line = f'cmd /s /k "{" ".join(map(_quoted, command))}"'
            return self._start_and_check(line, getattr(subprocess, "CREATE_NEW_CONSOLE", 0))
        if self.platform == "darwin":
            return self._start_any([("osascript", "-e", _IN_TERMINAL, shlex.join(command))])
        staying = ("sh", "-c", _AND_STAY, "sh", *command)
        named = [(name, "-e")] if (name := self.environment.get("TERMINAL")) else []
        return self._start_any([(*terminal, *staying) for terminal in (*named, *_TERMINALS)])

    def copy_to_clipboard(self, text: str) -> bool:
        """Put a text into the clipboard."""
        named = _CLIPBOARD_OF.get(self.platform)
        ways = [named] if named else [command for name, command in _CLIPBOARDS if self.environment.get(name)]
        return any(self._send_text(command, text) for command in ways)

    def _show_in_any(self, ways: Sequence[tuple[str, ...]], what: Callable[[], str]) -> bool:
        if self.platform == "win32":
            return _shown_by_windows(what())
        return self._try_viewers([("open",)] if self.platform == "darwin" else ways, what)

    def _try_viewers(self, ways: Sequence[Sequence[str]], what: Callable[[], str]) -> bool:
        return any(self._start_and_check(_showing(way, what())) for way in ways if self._is_there(way))

    def _is_there(self, way: Sequence[str]) -> bool:
        return bool(way) and shutil.which(way[0], path=self.environment.get("PATH")) is not None

    def _start_any(self, commands: Sequence[Sequence[str]]) -> bool:
        """Start the first of these programs that is there and does not refuse."""
        return any(self._start_and_check(command) for command in commands if command)

    def _start_and_check(self, command: Sequence[str], creationflags: int = 0) -> bool:
        child = self._start_program(command, subprocess.DEVNULL, creationflags)
        if child is None:
            return False
        try:
            return child.wait(_BEGINS_WITHIN) == 0
        except subprocess.TimeoutExpired:
            threading.Thread(target=child.wait, name=f"child-{child.pid}", daemon=True).start()
            return True

    def _send_text(self, command: Sequence[str], text: str) -> bool:
        child = self._start_program(command, subprocess.PIPE)
        if child is None:
            return False
        try:
            child.communicate(text.encode(), _BEGINS_WITHIN)
        except (subprocess.TimeoutExpired, OSError):
            child.kill()
            child.wait()
        return child.returncode == 0

    def _start_program(
        self, command: Sequence[str], stdin: int, creationflags: int = 0
    ) -> "subprocess.Popen[bytes] | None":
        """A program of others in a session of its own, which no Ctrl-C of ours reaches; None where it is not there."""
        with suppress(OSError):
            return subprocess.Popen(
                command,
                env=processes.foreign_environment(self.environment),
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=self.platform != "win32",
                creationflags=creationflags,
                umask=ownership.original_umask(),
            )
        return None


def show_in_browser(address: str, environment: Mapping[str, str]) -> bool:
    """Show an address in a browser, for a command that has one to show; False where there is none."""
    return Opening(environment).open_browser(lambda: address)


def _words(part: str) -> list[str]:
    """A command of BROWSER; none where its quotes do not close."""
    try:
        return [word for word in shlex.split(part) if word != "&"]
    except ValueError:
        return []


def _quoted(argument: str) -> str:
    """A path or a word for cmd, which obeys an & outside of quotes; a backslash before the last quote is doubled."""
    ending = argument[len(argument.rstrip("\\")) :]
    return f'"{argument}{ending}"'


def _showing(way: Sequence[str], what: str) -> list[str]:
    """A command with what it is to show: in the place of `%s`, else behind it."""
    return [word.replace("%s", what) for word in way] if any("%s" in word for word in way) else [*way, what]


def _shown_by_windows(what: str) -> bool:
    if sys.platform == "win32":
        with suppress(OSError):
            os.startfile(what)  # noqa: S606 - an address or a folder of ours
            return True
    return False
