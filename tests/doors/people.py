"""Everybody who may ask, from where, and what they may aim at."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Origin:
    """Where a request comes from."""

    name: str
    peer: str
    is_local: bool
    is_secure: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


HERE = Origin("here", "127.0.0.1", is_local=True)
ELSEWHERE = (
    Origin("elsewhere", "192.0.2.1", is_local=False),
    Origin("elsewhere by HTTPS", "192.0.2.1", is_local=False, is_secure=True),
    Origin("through a proxy here", "127.0.0.1", is_local=False, headers={"X-Forwarded-For": "192.0.2.7"}),
)


@dataclass(frozen=True)
class Credential:
    """What somebody comes with. `none`: nothing that is good; `stored`: a key's; `scope`: names of mailboxes."""

    name: str
    kind: Literal["none", "session", "api_key", "operator"]
    token: str
    member: str = ""
    is_admin: bool = False
    is_suspended: bool = False
    stored: frozenset[str] = frozenset()
    scope: frozenset[str] | None = None


@dataclass(frozen=True)
class Mailbox:
    """A mailbox, by the names of those who reach it."""

    name: str
    id: str
    owner: str
    granted: tuple[str, ...] = ()
    is_shared: bool = False


@dataclass(frozen=True)
class Aim:
    """What a request names: the values of its path, and what is behind them."""

    name: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    is_there: bool = True
    is_in_a_mailbox: bool = False
    mailbox: Mailbox | None = None
    #: Whether it is a member, or a session of one, who is an admin.
    is_admin: bool = False
    #: Who sent it, and whether it is sent later.
    sender: str = ""
    is_scheduled: bool = False


@dataclass(frozen=True)
class World:
    """Credentials, and for each parameter of a path what may stand there. `mailboxes` has one that is not there."""

    credentials: tuple[Credential, ...]
    mailboxes: tuple[Aim, ...]
    others: Mapping[str, tuple[Aim, ...]]

    def aims(self, parameters: tuple[str, ...]) -> Iterator[Aim]:
        """Everything that may stand in a path with these parameters."""
        if "accountId" not in parameters:
            yield from self._filled(parameters, Aim())
            return
        for box in self.mailboxes:
            yield from self._filled(tuple(name for name in parameters if name != "accountId"), box)

    def _filled(self, parameters: tuple[str, ...], so_far: Aim) -> Iterator[Aim]:
        if not parameters:
            yield so_far
            return
        first, *rest = parameters
        for aim in self.others.get(first, (Aim(values={first: "unknown"}),)):
            yield from self._filled(tuple(rest), _both(so_far, aim))


def _both(one: Aim, other: Aim) -> Aim:
    return Aim(
        name=" ".join(filter(None, (one.name, other.name))),
        values={**one.values, **other.values},
        is_there=one.is_there and other.is_there,
        is_in_a_mailbox=one.is_in_a_mailbox,
        mailbox=one.mailbox,
        is_admin=one.is_admin or other.is_admin,
        # What lies in another mailbox is not there in this one.
        sender=other.sender if one.mailbox == other.mailbox else "",
        is_scheduled=other.is_scheduled and one.mailbox == other.mailbox,
    )
