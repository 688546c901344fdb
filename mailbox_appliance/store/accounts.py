"""Connected mailboxes: who owns them, who may reach them, how their servers are logged in to, and how they are."""

import json
from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import NotFound, Unsupported
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.records import (
    Account,
    AccountCapabilities,
    AccountError,
    AccountStatus,
    Connection,
    Endpoint,
    MappedFolders,
)
from mailbox_appliance.security.tokens import new_id
from mailbox_appliance.store.database import Database
from mailbox_appliance.store.tables import ACCOUNTS

# An account, with the members it is granted to and the folders that play a role, in one row. Until its server has been
# reached for the first time, as after an upgrade, these are the ones that a person named.
_SELECT = """
SELECT a.id, a.email, a.display_name, a.provider, a.owner_member_id, a.shared_with_all,
  (SELECT json_group_array(g.member_id) FROM account_grants g WHERE g.account_id = a.id),
  a.status, a.error_code, a.error_message, a.error_fault,
  CASE WHEN EXISTS (SELECT 1 FROM folders f WHERE f.account = a.number) THEN
    (SELECT json_group_object(f.role, f.path) FROM folders f WHERE f.account = a.number AND f.role IS NOT NULL)
    ELSE a.mapped_folders END,
  a.capabilities, a.created_at, a.last_sync_at
FROM accounts a"""
_REACHED = """
(a.owner_member_id = :member OR a.shared_with_all OR EXISTS
  (SELECT 1 FROM account_grants g WHERE g.account_id = a.id AND g.member_id = :member))"""
# The same, begun at the member: however many mailboxes others have, theirs alone are looked at.
_LIST_REACHED = f"""{_SELECT} WHERE a.number IN (
  SELECT number FROM accounts WHERE owner_member_id = :member
  UNION ALL SELECT number FROM accounts WHERE shared_with_all = 1
  UNION ALL SELECT s.number FROM account_grants g JOIN accounts s ON s.id = g.account_id WHERE g.member_id = :member)
ORDER BY a.number"""

_SERVER = ("host", "port", "security", "username")
#: The columns of what is wrong with a mailbox.
TROUBLE = ("error_code", "error_message", "error_fault")
_SET_STATUS = "UPDATE accounts SET status = ?, error_code = ?, error_message = ?, error_fault = ?"
_FORGET = """
UPDATE accounts SET status = 'removed', id = ?, owner_member_id = NULL, email = '', display_name = NULL,
  sender_addresses = '[]',
  connection = '{}', secret = '{}', mapped_folders = '{}', shared_with_all = 0, error_code = NULL, error_message = NULL,
  error_fault = NULL WHERE number = ?"""


class Accounts:
    """Reads and writes mailboxes. Secrets leave only through `connection`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def get(self, account_id: str) -> Account:
        """The mailbox with this id. Raises NotFound."""
        row = self._database.row(f"{_SELECT} WHERE a.id = ?", (account_id,))
        if row is None:
            raise NotFound(what="mailbox")
        return _to_account(row)

    def find_reachable(self, account_id: str, member_id: str) -> Account | None:
        """The mailbox if this member may reach it: as owner, by a grant, or since it is shared with all."""
        row = self._database.row(f"{_SELECT} WHERE a.id = :id AND {_REACHED}", {"id": account_id, "member": member_id})
        return None if row is None else _to_account(row)

    def list_reachable(self, member_id: str) -> tuple[Account, ...]:
        """The mailboxes that this member may reach, the oldest first."""
        return tuple(map(_to_account, self._database.rows(_LIST_REACHED, {"member": member_id})))

    def list_all(self) -> tuple[Account, ...]:
        """Every mailbox, whoever reaches it, the oldest first."""
        rows = self._database.rows(f"{_SELECT} WHERE a.status <> 'removed' ORDER BY a.number")
        return tuple(map(_to_account, rows))

    def count(self) -> int:
        """How many mailboxes there are."""
        return int(self._database.value("SELECT count(*) FROM accounts WHERE status <> 'removed'"))

    def list_ids(self) -> tuple[str, ...]:
        """The ids of all mailboxes, the oldest first."""
        sql = "SELECT id FROM accounts WHERE status <> 'removed' ORDER BY number"
        return tuple(row[0] for row in self._database.rows(sql))

    def exists(self, email: str, owner_member_id: str) -> bool:
        """Whether this member has connected a mailbox with this email already."""
        sql = "SELECT 1 FROM accounts WHERE email = ? AND owner_member_id = ?"
        return self._database.value(sql, (email, owner_member_id)) is not None

    def find_own(self, email: str, owner_member_id: str) -> Account | None:
        """The mailbox with this email that this member has connected."""
        row = self._database.row(f"{_SELECT} WHERE a.email = ? AND a.owner_member_id = ?", (email, owner_member_id))
        return None if row is None else _to_account(row)

    def add(self, owner_member_id: str, display_name: str | None, connection: Connection) -> str:
        """A new mailbox, with its secrets; answers its id. Inside a transaction."""
        account_id = new_id("acc")
        query = ACCOUNTS.insert(
            id=account_id,
            owner_member_id=owner_member_id,
            email=connection.email,
            display_name=display_name,
            provider="imap",
            **_columns(connection),
            created_at=to_timestamp(self._clock.now()),
        )
        self._database.run(query)
        return account_id

    def rename(self, account_id: str, display_name: str | None) -> None:
        """What the mailbox is called from now on. Inside a transaction."""
        self._database.run(ACCOUNTS.update(display_name=display_name).where(ACCOUNTS.id == account_id))

    def set_access(self, account_id: str, *, shared_with_all: bool, member_ids: Collection[str]) -> None:
        """Who besides its owner may reach the mailbox from now on. Inside a transaction."""
        self._database.run(ACCOUNTS.update(shared_with_all=int(shared_with_all)).where(ACCOUNTS.id == account_id))
        self._database.change("DELETE FROM account_grants WHERE account_id = ?", (account_id,))
        rows = [(account_id, member_id) for member_id in member_ids]
        self._database.change_many("INSERT INTO account_grants VALUES (?, ?)", rows)

    def set_connection(self, account_id: str, connection: Connection) -> None:
        """How the mailbox's servers are reached from now on; its trouble is forgotten. Inside a transaction."""
        change = {**_columns(connection), "status": "connecting"} | dict.fromkeys(TROUBLE)
        self._database.run(ACCOUNTS.update(**change).where(ACCOUNTS.id == account_id))

    def remove(self, account_id: str) -> None:
        """Forget a mailbox: its secrets at once, what is mirrored of it bit by bit. Raises NotFound.

        Inside a transaction. Nobody finds it any more: what is left has another id, until `upkeep` has deleted it.
        """
        number = self._database.value("SELECT number FROM accounts WHERE id = ?", (account_id,))
        if number is None:
            raise NotFound(what="mailbox")
        self._database.change("DELETE FROM account_grants WHERE account_id = ?", (account_id,))
        self._database.change(_FORGET, (new_id("acc"), number))

    def get_connection(self, account_id: str) -> Connection:
        """How the mailbox's servers are reached, with the passwords.

        Raises NotFound, and Unsupported for one that is reached by its provider's sign-in (`oauth_logins`).
        """
        row = self._database.row("SELECT email, connection, secret, provider FROM accounts WHERE id = ?", (account_id,))
        if row is None:
            raise NotFound(what="mailbox")
        servers, secret = json.loads(row[1]), json.loads(row[2])
        if "imap" not in servers:
            raise Unsupported(reason="it is reached by its provider's sign-in, and has no password.")
        imap, smtp = servers["imap"], servers["smtp"]
        return Connection(row[0], _with(imap, secret["imapPassword"]), _with(smtp, secret["smtpPassword"]))

    def set_status(self, account_id: str, status: AccountStatus, error: AccountError | None = None) -> None:
        """How the mailbox is from now on, and why. One transaction of its own; a removed mailbox is passed over."""
        with self._database.transaction():
            self._database.change(f"{_SET_STATUS}, met_sending = 0 WHERE id = ?", (status, *_told(error), account_id))

    def note_refused_token(self, account_id: str, refresh_token: str, error: AccountError) -> bool:
        """Somebody must sign in to the mailbox anew, since its provider refuses this token. In one transaction.

        False where another one has taken its place meanwhile, or the mailbox is gone: then nothing is changed.
        """
        where = "id = ? AND json_extract(secret, '$.refreshToken') = ?"
        with self._database.transaction():
            values = ("reauth_required", *_told(error), account_id, refresh_token)
            return self._database.change(f"{_SET_STATUS}, met_sending = 0 WHERE {where}", values) == 1

    def note_refused_sending(self, account_id: str, error: AccountError) -> None:
        """Somebody must log in to the mailbox anew before it sends; what was said of reading it before stands.

        One transaction of its own.
        """
        where = "id = ? AND (status <> 'reauth_required' OR met_sending = 1)"
        with self._database.transaction():
            values = ("reauth_required", *_told(error), account_id)
            self._database.change(f"{_SET_STATUS}, met_sending = 1 WHERE {where}", values)

    def clear_refused_sending(self, account_id: str) -> None:
        """Make a mailbox `ready` again whose only trouble was that. One transaction of its own, where there is need."""
        where = "id = ? AND met_sending = 1 AND status = 'reauth_required'"
        if self._database.value(f"SELECT 1 FROM accounts WHERE {where}", (account_id,)):
            with self._database.transaction():
                values = ("ready", *_told(None), account_id)
                self._database.change(f"{_SET_STATUS}, met_sending = 0 WHERE {where}", values)

    def set_capabilities(self, account_id: str, capabilities: AccountCapabilities) -> None:
        """What the mailbox's server can do. One transaction of its own."""
        text = msgspec.json.encode(capabilities).decode()
        with self._database.transaction():
            self._database.change("UPDATE accounts SET capabilities = ? WHERE id = ?", (text, account_id))

    def mark_synced(self, account_id: str) -> None:
        """Note that the mirror is complete at this moment. One transaction of its own."""
        with self._database.transaction():
            at = to_timestamp(self._clock.now())
            self._database.change("UPDATE accounts SET last_sync_at = ? WHERE id = ?", (at, account_id))


def _columns(connection: Connection) -> dict[str, str]:
    servers = {"imap": _plain(connection.imap), "smtp": _plain(connection.smtp)}
    secrets = {"imapPassword": connection.imap.password, "smtpPassword": connection.smtp.password}
    return {"connection": json.dumps(servers), "secret": json.dumps(secrets)}


def _told(error: AccountError | None) -> tuple[str | None, str | None, str | None]:
    """As TROUBLE."""
    if error is None:
        return None, None, None
    return error.code, error.message, None if error.fault is UNSET else error.fault


def _plain(endpoint: Endpoint) -> dict[str, object]:
    return {name: getattr(endpoint, name) for name in _SERVER}


def _with(server: dict[str, Any], password: str) -> Endpoint:
    """What is stored of a server; an upgraded store may say more of it than we know."""
    return Endpoint(**{name: server[name] for name in _SERVER}, password=password)


def _to_account(row: Sequence[Any]) -> Account:
    roles = json.loads(row[11])
    error = None if row[8] is None else AccountError(code=row[8], message=row[9] or "", fault=row[10] or UNSET)
    return Account(
        id=row[0],
        email=row[1],
        display_name=row[2],
        provider=row[3],
        owner_member_id=row[4],
        shared_with_all=bool(row[5]),
        granted_member_ids=tuple(json.loads(row[6])),
        status=row[7],
        error=error,
        folders=MappedFolders(**{role: roles.get(role) for role in ("sent", "drafts", "trash", "archive", "spam")}),
        capabilities=decode_json(row[12], AccountCapabilities),
        created_at=row[13],
        last_sync_at=row[14],
    )
