"""Data directories in a known state, to be acted on and spoilt."""

import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox, parsed
from tests.store.restored import accept, populate
from tests.store_proof.children import command, run

#: Small real stores of formats 3 and 4.
STORES = Path(__file__).parents[1] / "stores"
_SPARE = ("INSERT INTO meta VALUES ('large', hex(zeroblob(40000)))", "DELETE FROM meta WHERE name = 'large'")


def make_store(folder: Path, *, spare: bool = False) -> Path:
    """A store of this format with something in every corner, stopped cleanly; `spare`: with room to be given back."""
    store = Store.open(folder)
    boxes = [Mailbox(store), Mailbox(store)]
    for number in range(12):
        box = boxes[number % 2]
        text = f"Message {number} of the store that survives. " + "Lighthouse quokka umbrella. " * 40
        message = parsed(f"<{number}@proof.example>", subject=f"Proof {number}", text=text)
        box.add(number + 1, message)
    with store.database.transaction():
        store.database.change("INSERT INTO settings VALUES ('of.a.newer.release', '{\"kept\": true}')")
        store.database.change(
            "INSERT INTO legacy_idempotency VALUES ('key_1', 'legacy-1', ?, 200, '{}', '2099-01-01T00:00:00.000Z')",
            ("0" * 64,),
        )
    for number in range(6):
        store.audit.record(SYSTEM_ACTOR, "member.update" if number % 2 else "start")
    for sql in _SPARE if spare else ():
        with store.database.transaction():
            store.database.change(sql)
    (folder / "config.toml").write_text("[server]\nport = 8025\n")
    store.close()
    return folder


def leave_log(folder: Path, *sql: str) -> None:
    """Write to a plain store, and leave its log beside it as a process does that is killed."""
    connection = sqlite3.connect(folder / "mailbox.db")
    try:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        for one in sql:
            connection.execute(one)
        connection.commit()
        saved = {suffix: (folder / f"mailbox.db{suffix}").read_bytes() for suffix in ("", "-wal")}
    finally:
        connection.close()
    for suffix, content in saved.items():
        (folder / f"mailbox.db{suffix}").write_bytes(content)


def make_restorable(folder: Path) -> Path:
    """A store with a backup, since which a key was revoked, a password changed, and mail sent and accepted."""
    store = Store.open(make_store(folder))
    people = populate(store)
    soon = datetime.now(UTC) + timedelta(days=3)
    sent, _ = accept(store, people, "sent-since"), accept(store, people, "not-due-yet", send_at=soon)
    store.close()
    made = run(command(folder, ["backup", "create"]), folder)
    assert made.code == 0, made
    store = Store.open(folder)
    with store.database.transaction():
        store.database.change("UPDATE delivery_operations SET status = 'succeeded' WHERE id = ?", (sent,))
        store.database.change("UPDATE api_keys SET revoked_at = created_at WHERE id = ?", (people.key,))
        store.database.change("UPDATE members SET password_hash = 'ada-2' WHERE id = ?", (people.ada,))
        store.audit.record(SYSTEM_ACTOR, "api_key.revoke", ("api_key", people.key))
        store.database.change("INSERT INTO settings VALUES ('made.since', '1')")
        store.database.change("DELETE FROM messages WHERE number = 3")
    accept(store, people, "accepted-since", send_at=soon)
    store.close()
    return folder


def make_old_store(folder: Path, number: int) -> Path:
    """A store of an older release, whose last words lie in its log."""
    copy(STORES / f"format{number}", folder)
    leave_log(folder, "INSERT INTO settings VALUES ('hot', '1')", "UPDATE members SET name = name || ' (hot)'")
    return folder


def copy(template: Path, target: Path) -> Path:
    """The same directory at another place, links as links."""
    return Path(shutil.copytree(template, target, symlinks=True))


def snapshot(folder: Path, *, but: frozenset[str] = frozenset({"lock"})) -> dict[str, tuple[object, ...]]:
    """All that can be seen of a directory: names, modes, times of files, bytes."""
    found: dict[str, tuple[object, ...]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        if path.name in but:
            continue
        status = path.lstat()
        is_file = path.is_file() and not path.is_symlink()
        # The time of a folder changes when `lock` is made in it.
        found[str(path.relative_to(folder))] = (
            (status.st_mode, status.st_mtime_ns, path.read_bytes()) if is_file else (status.st_mode,)
        )
    return found
