"""Writes a data directory of format 4, with one of everything: `python -m tests.stores.make_format_4 DIR`."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.stores.make_format_3 import (
    HARD,
    PASSWORD,
    PLAIN,
    SCHEMA,
    SECRETS,
    Maker,
    answers,
    body,
    custom_key,
    envelope,
    main,
    named_key,
    put_log,
    put_mailboxes,
    put_people,
    revoked_key,
)

_CHANGES = """
PRAGMA user_version = 4;
DROP TABLE scheduled_sends;
ALTER TABLE rest_idempotency RENAME TO legacy_idempotency;
ALTER TABLE legacy_idempotency ADD COLUMN expires_at TEXT NOT NULL DEFAULT '';
ALTER TABLE api_keys ADD COLUMN supplemental_capabilities TEXT NOT NULL DEFAULT '[]';
CREATE TABLE delivery_operations (
  id TEXT PRIMARY KEY, account_id TEXT NOT NULL, credential_id TEXT, member_id TEXT NOT NULL,
  idempotency_key TEXT, request_hash TEXT, kind TEXT NOT NULL, status TEXT NOT NULL, message BLOB,
  envelope TEXT NOT NULL, message_id_header TEXT, result_id TEXT, result_thread_id TEXT, result_warnings TEXT,
  error_code TEXT, schedule_id TEXT, send_at TEXT, attempts INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL);
CREATE UNIQUE INDEX delivery_operations_key ON delivery_operations (credential_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
"""


def make(folder: Path, rows: int = 0, now: datetime | None = None) -> dict[str, Any]:
    """A data directory as of a moment; answers its plain secrets. `rows`: of the audit log, and of stored answers."""
    made = Maker.begin(folder, SCHEMA.read_text() + _CHANGES, now)
    tokens = put_people(made)
    put_mailboxes(made)
    made.put("api_keys", *custom_key(made, tokens["apiKey"]), "[]")
    made.put("api_keys", *named_key(made, tokens["readerKey"]), '["admin.members"]')
    made.put("api_keys", *revoked_key(made, tokens["revokedKey"]), "[]")
    for answer, hours in zip(answers(made, 0), (-23, -1, 1), strict=True):
        made.put("legacy_idempotency", *answer, made.ago(hours=hours))
    made.database.executemany(
        f"INSERT INTO legacy_idempotency VALUES ({', '.join('?' * 9)})",
        ((*answer, made.ago(hours=-21)) for answer in list(answers(made, rows))[3:]),
    )
    _put_operations(made)
    put_log(made, rows)
    made.close()
    return {**tokens, **SECRETS, "password": PASSWORD, "legacyRequests": {f"legacy-{n}": body(n) for n in (1, 2, 3)}}


def _put_operations(made: Maker) -> None:
    """Operations of every kind and status; the first two were scheduled sends of format 3."""
    later, past = made.ago(hours=-1), made.ago(hours=30)
    _put(made, 1, "scheduled", "queued", PLAIN % 1, schedule_id="sch_1", send_at=later)
    _put(made, 2, "scheduled", "failed", PLAIN % 2, schedule_id="sch_2", send_at=past, error_code="canceled")
    key: dict[str, object] = {"credential_id": "key_1", "request_hash": "1" * 64}
    known = {**key, "message_id_header": "<later-3@example.org>", "result_id": "msg_3", "result_thread_id": "thr_3"}
    warnings = json.dumps(["The copy is late."])
    _put(made, 3, "send", "succeeded", PLAIN % 3, idempotency_key="k-3", **known, result_warnings=warnings)
    _put(made, 4, "forward", "failed", None, idempotency_key="k-4", **key, error_code="recipient_rejected")
    _put(made, 5, "send", "sending", PLAIN % 5, idempotency_key="k-5", **key, attempts=1)
    _put(made, 6, "send", "uncertain", PLAIN % 6, idempotency_key="k-6", **key, attempts=1)
    tried: dict[str, object] = {"schedule_id": "sch_7", "send_at": made.ago(hours=-2), "attempts": 2}
    tried |= {"credential_id": "key_1", "idempotency_key": "k-7", "request_hash": "7" * 64}
    _put(made, 7, "scheduled", "queued", HARD, envelope=envelope("bob", "eve"), **tried)
    # A session that has ended since.
    own: dict[str, object] = {
        "credential_id": "ses_gone",
        "request_hash": "8" * 64,
        "schedule_id": "sch_8",
        "send_at": later,
    }
    _put(made, 8, "scheduled", "queued", PLAIN % 8, idempotency_key="k-8", **own)


def _put(made: Maker, number: int, kind: str, status: str, message: bytes | None, **given: object) -> None:
    row: dict[str, Any] = {"id": f"dlv_{number}", "account_id": "acc_1", "member_id": "mem_1", "kind": kind}
    row |= {"status": status, "message": message, "envelope": envelope("bob")}
    row |= {"created_at": made.ago(days=2, minutes=-number), "updated_at": made.ago(days=1, minutes=-number), **given}
    marks = ", ".join("?" * len(row))
    made.database.execute(f"INSERT INTO delivery_operations ({', '.join(row)}) VALUES ({marks})", list(row.values()))


if __name__ == "__main__":
    main(make)
