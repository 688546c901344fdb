"""Real interactive shells on terminals of their own, for what happens when somebody presses Tab."""

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

#: How each shell is told to begin without anybody's configuration, and to show its line when ^O is pressed.
_ARGUMENTS = {"bash": ("bash", "--norc", "--noprofile", "-i"), "zsh": ("zsh", "-f", "-i")}
_SHOW = {
    "bash": r"""bind 'set enable-bracketed-paste off'; bind '"\C-x": insert-completions'
        bind -x '"\C-o": printf "\n<<%s>>\n" "$READLINE_LINE"'""",
    "zsh": r"""unsetopt zle_bracketed_paste prompt_cr prompt_sp; autoload -Uz compinit; compinit -u -D
        show() { print -r -- $'\n'"<<$BUFFER>>"; BUFFER=; }; zle -N show; bindkey '^O' show""",
}
_PATIENCE = 20.0


class Shell:
    """One shell; `line` types keys and answers with what then stands in its line."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str], setup: str) -> None:
        self._ours, theirs = pty.openpty()
        settings = termios.tcgetattr(theirs)
        settings[3] &= ~termios.ECHO
        termios.tcsetattr(theirs, termios.TCSANOW, settings)
        self._process = subprocess.Popen(
            _ARGUMENTS[name],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env={
                **environment,
                "TERM": "dumb",
                "PS1": "",
                "INPUTRC": "/dev/null",
                "HISTFILE": "",
                "ZDOTDIR": str(folder),
            },
            start_new_session=True,
        )
        os.close(theirs)
        self._is_bash = name == "bash"
        self.heard = ""
        # In a file: a terminal takes 4,096 characters of a line at most.
        (folder / "setup").write_text(f"{_SHOW[name]}\n{setup}\n")
        self._type(". ./setup; echo rea''dy\n")
        self._until("ready")

    def __enter__(self) -> "Shell":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait(60)
        os.close(self._ours)

    def line(self, keys: str) -> str:
        """What stands in the line after these keys (`\\t` is Tab; in bash ^X puts in all that is possible)."""
        self._type(f"{keys}\x0f")
        shown = self._until(">>").rpartition("<<")[2].partition(">>")[0]
        if self._is_bash:
            self._type("\x05\x15")  # ^E ^U: an empty line for the next
        return shown

    def _type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def _until(self, mark: str) -> str:
        heard, deadline = "", time.monotonic() + _PATIENCE
        while mark not in heard:
            if not select.select([self._ours], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"the shell does not say {mark!r}: {heard!r}")
            heard += os.read(self._ours, 65536).decode(errors="replace")
        self.heard += heard
        return heard
