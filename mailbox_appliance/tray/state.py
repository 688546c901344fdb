"""What the tray knows of the appliance at one moment; `watching` finds it out, `menu` and `notices` follow from it."""

from dataclasses import dataclass
from enum import Enum

from mailbox_appliance.system.crashes import Crash


class Service(Enum):
    """How the appliance of the data directory is."""

    STOPPED = "stopped"
    STARTING = "starting"
    ANSWERS = "answers"
    #: It answers that it cannot serve now, as while a restore replaces its store.
    RESTS = "rests"
    #: It has answered, and ends.
    STOPPING = "stopping"
    #: A process owns the data directory and does not answer.
    SILENT = "silent"


class Access(Enum):
    """What the tray may ask for."""

    #: Nobody has logged in on this computer, or the log-in has ended.
    NOBODY = "nobody"
    #: The log-in lies in a keychain that is locked, or does not answer.
    LOCKED = "locked"
    MEMBER = "member"
    ADMINISTRATOR = "administrator"


@dataclass(frozen=True)
class Mailbox:
    """One mailbox: its address, the status of the API, and why it is not well (an error code), if so."""

    email: str
    status: str
    error: str | None = None
    progress: str | None = None


@dataclass(frozen=True)
class Https:
    """Whether other computers are let in, where, and the fingerprint of the certificate (`sha256:HEX`)."""

    enabled: bool
    url: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class Outcome:
    """How something ended that the audit log tells of: its entry's id, and whether it succeeded."""

    id: str
    succeeded: bool


@dataclass(frozen=True)
class State:
    """Everything that a menu and a notice are made from. What the log-in may not ask for is None."""

    service: Service
    #: Where the console is; None while nothing answers.
    url: str | None = None
    #: What the first set-up asks for, while nobody has been set up.
    setup_code: str | None = None
    access: Access = Access.NOBODY
    mailboxes: tuple[Mailbox, ...] = ()
    uncertain: int = 0
    queued: int = 0
    warnings: tuple[str, ...] = ()
    #: Whether a backup is being made, by whomever.
    is_backing_up: bool = False
    #: When the newest backup was made (RFC 3339, UTC); None: there is none, or it is not for this member.
    last_backup: str | None = None
    #: How the newest backup and the newest restore ended, for administrators.
    backup: Outcome | None = None
    restore: Outcome | None = None
    https: Https | None = None
    #: The last crash, until an administrator dismisses it.
    last_crash: Crash | None = None
    #: Why it did not start when it was last asked to.
    not_started: str | None = None
    #: Whether the tray starts when this user logs in; None where that cannot be had here.
    starts_at_login: bool | None = None
    #: Whether a service manager (systemd) keeps the appliance running, so that stopping it is not the tray's business.
    is_kept: bool = False
