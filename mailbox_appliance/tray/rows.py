"""What a menu is made of, whichever host shows it."""

from dataclasses import dataclass, field
from enum import Enum


class Action(Enum):
    """What a click asks for."""

    OPEN_CONSOLE = "open-console"
    SET_UP = "set-up"
    COPY_SETUP_CODE = "copy-setup-code"
    LOG_IN = "log-in"
    #: Ask the keychain again.
    UNLOCK = "unlock"
    SHOW_MAILBOXES = "show-mailboxes"
    SHOW_UNCERTAIN = "show-uncertain"
    BACK_UP = "back-up"
    RESTORE = "restore"
    SWITCH_HTTPS = "switch-https"
    COPY_FINGERPRINT = "copy-fingerprint"
    SWITCH_START_AT_LOGIN = "switch-start-at-login"
    OPEN_LOGS = "open-logs"
    START = "start"
    #: No click: the service that was started here has crashed.
    RESTART = "restart"
    STOP = "stop"
    QUIT = "quit"


@dataclass(frozen=True)
class Row:
    """One row of the menu. Without an action it only tells something; with rows below it opens a menu of its own."""

    label: str
    action: Action | None = None
    enabled: bool = True
    #: None: no box to tick.
    checked: bool | None = None
    rows: tuple["Row", ...] = field(default=())
    is_separator: bool = False


SEPARATOR = Row("", is_separator=True)
