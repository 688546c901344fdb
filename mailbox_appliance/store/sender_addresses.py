"""What mailboxes may send as: their own address, and others that their provider tells."""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.address import same_mailbox
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.records import Account, SenderAddress
from mailbox_appliance.store.database import Database

_TOLD = tuple[SenderAddress, ...]


class SenderAddresses:
    """Reads and writes these addresses."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list_of(self, account: Account) -> tuple[SenderAddress, ...]:
        """All of a mailbox, its own first. Raises NotFound."""
        told = self._get_from_provider(account.id)
        named = next((each.name for each in told if same_mailbox(each.email, account.email)), UNSET)
        own = SenderAddress(email=account.email, name=account.display_name or named, is_default=True)
        return (own, *(each for each in told if not same_mailbox(each.email, account.email)))

    def set_from_provider(self, account_id: str, told: Sequence[SenderAddress]) -> bool:
        """What a provider tells from now on; False where nothing is new, or the mailbox is gone. One transaction."""
        text = msgspec.json.encode(tuple(told)).decode()
        where = "id = ? AND sender_addresses <> ?"
        if self._database.value(f"SELECT 1 FROM accounts WHERE {where}", (account_id, text)) is None:
            return False
        with self._database.transaction():
            sql = f"UPDATE accounts SET sender_addresses = ? WHERE {where}"
            return self._database.change(sql, (text, account_id, text)) == 1

    def list_accounts(self) -> tuple[str, ...]:
        """The mailboxes whose provider can be asked."""
        sql = "SELECT id FROM accounts WHERE provider IN ('google', 'outlook') AND status <> 'removed' ORDER BY number"
        return tuple(row[0] for row in self._database.rows(sql))

    def _get_from_provider(self, account_id: str) -> tuple[SenderAddress, ...]:
        text = self._database.value("SELECT sender_addresses FROM accounts WHERE id = ?", (account_id,))
        if text is None:
            raise NotFound(what="mailbox")
        return decode_json(text, _TOLD)
