"""The keychain of the operating system, which may be missing, locked, or waiting for an answer nobody gives.

It is asked in a child process with a deadline only: a keychain can name itself usable and yet block for ever on a
prompt, and what it loads (D-Bus) has no business in a process that serves. The child is this program again, with a
hidden command; question and answer, secrets among them, are one line of JSON each on its standard input and output.

    {"act": "find" | "put" | "remove", "name": "...", "secret": "...", "seconds": N}
        ->  {"found": "..." | null} | {"failed": "..."}
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from mailbox_appliance.system import processes

SERVICE = "mailbox-appliance"
#: The hidden command that the child is given; a bundle has no `python -c`.
COMMAND = "ask-keychain"
#: How many seconds the keychain has for an answer, where that is not named: somebody may have to type a password.
_DEADLINE, DEADLINE_VARIABLE = 30.0, "MAILBOX_APPLIANCE_KEYCHAIN_SECONDS"
_LONGEST_WAIT = 3600.0
#: Seconds until the child sees that nobody waits for it any more.
_LOOKS_EVERY = 0.25
_LONGEST = 256 * 1024


class KeyringUnavailable(Exception):
    """The keychain cannot be used; the text says why, as the end of a sentence: it is missing, locked, or silent."""


def find(name: str, *, environment: Mapping[str, str] | None = None, deadline: float | None = None) -> str | None:
    """The secret of this name, or None. On a desktop the user may be asked to unlock the keychain meanwhile.

    `deadline`: how many seconds it has, unless the environment names fewer.
    """
    found = _ask_child({"act": "find", "name": name}, environment, deadline)
    return found if isinstance(found, str) else None


def put(name: str, secret: str, *, environment: Mapping[str, str] | None = None, deadline: float | None = None) -> None:
    """Store a secret, replacing an earlier one, and see that it is given back."""
    _ask_child({"act": "put", "name": name, "secret": secret}, environment, deadline)


def remove(name: str, *, environment: Mapping[str, str] | None = None, deadline: float | None = None) -> None:
    """Forget a secret; one that is not there is forgotten already."""
    _ask_child({"act": "remove", "name": name}, environment, deadline)


def answer_question(question: bytes) -> bytes:
    """What the child does: ask the keychain, and block for as long as it does, or as it has."""
    try:
        asked = json.loads(question)
        # What a keychain has to say for itself does not belong into the answer.
        with contextlib.redirect_stdout(sys.stderr), _end_after(asked.pop("seconds", _DEADLINE)):
            outcome = {"found": _call_keyring(**asked)}
    except Exception as error:  # noqa: BLE001 - told to whoever asks, by its kind only
        outcome = {"failed": _REASONS.get(type(error).__name__, f"it failed ({type(error).__name__})")}
    return json.dumps(outcome).encode() + b"\n"


@contextlib.contextmanager
def _end_after(seconds: float) -> Iterator[None]:
    """End this process if it takes longer, or whoever asked has ended: then nobody needs what a prompt would bring."""
    # A second more, in which the one who asks tells of it.
    last, asker, is_over = time.monotonic() + seconds + 1, os.getppid(), threading.Event()

    def watch() -> None:
        while not is_over.wait(_LOOKS_EVERY):
            if time.monotonic() > last or os.getppid() != asker:  # on Windows it stays the same
                os._exit(1)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


_REASONS = {
    "KeyringLocked": "it is locked",
    "NoKeyringError": "there is none",
    "InitError": "it cannot be reached",
    "_DiscardingKeyring": "it does not return what was stored",
}


class _DiscardingKeyring(Exception):
    pass


class NoKeyringError(Exception):
    """Stands for keyring's own, where the keychain that is chosen is none that keeps anything."""


def _call_keyring(act: str, name: str, secret: str = "") -> str | None:
    import keyring
    from keyring.errors import PasswordDeleteError

    # Priority 0 is the one that always fails; those between are plain files, which we write better ourselves.
    if keyring.get_keyring().priority < 1:
        raise NoKeyringError
    if act == "remove":
        with contextlib.suppress(PasswordDeleteError):
            keyring.delete_password(SERVICE, name)
        return None
    if act == "put":
        keyring.set_password(SERVICE, name, secret)
    found = keyring.get_password(SERVICE, name)
    if act == "put" and found != secret:
        raise _DiscardingKeyring
    return found if act == "find" else None


def _ask_child(question: dict[str, str], environment: Mapping[str, str] | None, deadline: float | None) -> object:
    environment = os.environ if environment is None else environment
    seconds = min(_deadline_seconds(environment), _LONGEST_WAIT if deadline is None else deadline)
    try:
        child = subprocess.run(
            processes.own_command(COMMAND),
            env=processes.child_environment(environment),
            input=json.dumps({**question, "seconds": seconds}).encode() + b"\n",
            capture_output=True,
            timeout=seconds,
            creationflags=processes.NO_WINDOW,
        )
        outcome: dict[str, Any] = json.loads(child.stdout[:_LONGEST])
    except subprocess.TimeoutExpired as error:
        raise KeyringUnavailable(f"it did not respond within {seconds:g} seconds") from error
    except (OSError, ValueError) as error:
        raise KeyringUnavailable("the process that accesses it failed") from error
    if "failed" in outcome:
        raise KeyringUnavailable(str(outcome["failed"]))
    return outcome.get("found")


def _deadline_seconds(environment: Mapping[str, str]) -> float:
    try:
        return min(_LONGEST_WAIT, max(0.1, float(environment.get(DEADLINE_VARIABLE) or _DEADLINE)))
    except ValueError:
        return _DEADLINE
