"""Log-ins as tests make them, from this computer or from elsewhere."""

import time
from collections.abc import Callable
from datetime import timedelta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.security.tokens import Kind as Prefix
from mailbox_appliance.security.tokens import hash_token, new_token
from mailbox_appliance.store.credentials import TokenKind
from tests.checked_client import PASSWORD, Answer, CheckedClient

LOGIN = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "laptop"}
WRONG = LOGIN | {"password": "not the password"}
_PREFIXES: dict[TokenKind, Prefix] = {"invitation": "mbxi", "password_reset": "mbxr", "console_link": "mbxc"}


def log_in(client: CheckedClient, body: object = LOGIN, peer: str = "127.0.0.1") -> Answer:
    """Ask for a session; from elsewhere by HTTPS."""
    return client.ask("POST", "/auth/login", body, peer=peer, secure=peer != "127.0.0.1")


def insist(ask: Callable[[], Answer]) -> Answer:
    """Ask until one is not told any more to come back in a moment."""
    until = time.monotonic() + 30
    while (answer := ask()).status == 429 and answer.headers["retry-after"] == "1":
        assert time.monotonic() < until, "it is busy for ever"
        time.sleep(0.01)
    return answer


def issue(appliance: Appliance, kind: TokenKind, member_id: str, lives_for: timedelta = timedelta(days=1)) -> str:
    """A token that is good once, as an administrator would hand it over."""
    token = new_token(_PREFIXES[kind])
    with appliance.store.database.transaction(durable=True):
        appliance.store.one_time_tokens.issue(kind, member_id, hash_token(token), lives_for)
    return token


def invite(appliance: Appliance, name: str = "bob") -> tuple[str, str]:
    """A new member who has no password yet: the id, and the token of the invitation."""
    with appliance.store.database.transaction(durable=True):
        member = appliance.store.members.add(name=name, email=f"{name}@example.org", role="member", password_hash=None)
    return member.id, issue(appliance, "invitation", member.id)


def recorded(appliance: Appliance, after: int = 0) -> list[tuple[str, str]]:
    """Action and outcome of the rows of the audit log, the oldest first."""
    rows = appliance.store.database.rows(
        "SELECT action, outcome FROM audit_events WHERE number > ? ORDER BY number", (after,)
    )
    return [(row[0], row[1]) for row in rows]
