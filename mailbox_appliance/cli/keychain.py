"""The keychain of the operating system, which may be missing, locked, or waiting for an answer nobody gives.

Whether it works is found out by a real round trip in a child process with a deadline: a keychain can name itself usable
and yet block for ever on a prompt. After that it is asked in a thread, and waited for with a deadline too.
"""

import queue
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping

SERVICE = "mailbox-appliance"
#: The hidden command that does the round trip; a frozen program has no `python -c`.
PROBE_COMMAND = "keychain-probe"


class KeychainSilent(Exception):
    """The keychain cannot be used: it is missing, locked, or does not answer."""


def works(environment: Mapping[str, str], deadline: float = 5.0) -> bool:
    """Whether a value can be stored, read back and removed within so many seconds."""
    program = [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "mailbox_appliance"]
    try:
        child = subprocess.run(
            [*program, PROBE_COMMAND],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=deadline,
        )
    except (subprocess.TimeoutExpired, OSError):
        return False
    return child.returncode == 0


def round_trip() -> bool:
    """Store a value that means nothing, read it, remove it. Blocks as long as the keychain does."""
    import keyring

    # Priority 0 is the backend that always fails; those between are plain files, which we write better ourselves.
    if keyring.get_keyring().priority < 1:
        return False
    name, value = f"probe-{secrets.token_hex(4)}", secrets.token_hex(8)
    keyring.set_password(SERVICE, name, value)
    same = keyring.get_password(SERVICE, name) == value
    keyring.delete_password(SERVICE, name)
    return same


def find(name: str, deadline: float = 30.0) -> str | None:
    """The secret of this name. On a desktop the user may be asked to unlock the keychain meanwhile."""

    def act() -> str | None:
        import keyring

        return keyring.get_password(SERVICE, name)

    return _within(deadline, act)


def put(name: str, secret: str, deadline: float = 30.0) -> None:
    """Store a secret, replacing an earlier one."""

    def act() -> None:
        import keyring

        keyring.set_password(SERVICE, name, secret)

    _within(deadline, act)


def remove(name: str, deadline: float = 30.0) -> None:
    """Forget a secret; one that is not there is forgotten already."""

    def act() -> None:
        import keyring
        from keyring.errors import PasswordDeleteError

        try:
            keyring.delete_password(SERVICE, name)
        except PasswordDeleteError:
            pass

    _within(deadline, act)


def _within(deadline: float, act: Callable[[], str | None]) -> str | None:
    """What the call returns. A call that blocks is left behind in its thread, which does not keep the process alive."""
    answers: queue.SimpleQueue[str | Exception | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put(act())
        except Exception as error:  # noqa: BLE001 - told to the caller below
            answers.put(error)

    threading.Thread(target=run, name="keychain", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline)
    except queue.Empty as error:
        raise KeychainSilent(f"it did not answer within {deadline:.0f} seconds") from error
    if isinstance(answer, Exception):
        raise KeychainSilent(type(answer).__name__) from answer
    return answer
