"""Idempotency keys from before there were delivery operations: for 24 hours they answer as they did then."""

import msgspec

from mailbox_appliance.clock import Clock, to_timestamp
from mailbox_appliance.errors import IdempotencyConflict
from mailbox_appliance.model.decoding import decode_json
from mailbox_appliance.model.records import LegacyResponse, LegacySend
from mailbox_appliance.store.database import Database


class _Envelope(msgspec.Struct, frozen=True):
    data: LegacySend
    warnings: tuple[str, ...] = ()


class LegacyKeys:
    """Reads the answers that were stored."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def find(self, credential_id: str, idempotency_key: str, request_hash: str) -> LegacyResponse | None:
        """The answer that this key was given, or None where there is none or its time is over.

        Raises IdempotencyConflict where it was another request.
        """
        row = self._database.row(
            "SELECT request_hash, status, response_body FROM legacy_idempotency WHERE credential_id = ?"
            " AND idempotency_key = ? AND expires_at > ?",
            (credential_id, idempotency_key, to_timestamp(self._clock.now())),
        )
        if row is None:
            return None
        if row[0] != request_hash:
            raise IdempotencyConflict(operation="")
        envelope = decode_json(row[2], _Envelope)
        return LegacyResponse(row[1], envelope.data, envelope.warnings)
