"""A first sync: whole messages from a quick server, headers first from a slow one, and the same mirror in the end."""

import re
from collections.abc import Iterable, Sequence

import pytest

from mailbox_appliance.store.store import Store
from mailbox_appliance.sync import backlog, context, folder, mailbox
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.sync.mirrored import Mirror, connection_to, source

_COUNT = 400


@pytest.fixture
def mirror(
    mail_server: MailServer, store: Store, user: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> Mirror:
    # However busy this machine is, the server is quick, unless a test has it otherwise.
    monkeypatch.setattr(context, "_QUICK", 60.0)
    return Mirror(store, connection_to(mail_server, user, proxy.port), sync__poll_interval=600)


def _deliver(server: MailServer, user: str, count: int = _COUNT) -> None:
    server.deliver(user, *(source(f"m{number}", f"body {number}") for number in range(count - 1)))
    server.deliver(user, source("big", "the text", size=300_000))


def _requested(commands: Iterable[str], section: str) -> int:
    """The number of messages of which a section was requested."""
    found = [re.match(rf"UID FETCH (\S+) \(.*{section}", command) for command in commands]
    ranges = [part.split(":") for each in found if each for part in each[1].split(",")]
    return sum(int(ends[-1]) - int(ends[0]) + 1 for ends in ranges)


def _is_whole(mirror: Mirror, count: int = _COUNT) -> None:
    assert {one: message.text for one, message in mirror.messages("INBOX").items()} == {
        "big": "the text",
        **{f"m{number}": f"body {number}" for number in range(count - 1)},
    }


def _index_writes(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of messages that are written to the full-text index from now on."""
    written: list[int] = []
    change_many = store.database.change_many

    def note(sql: str, rows: Sequence[Sequence[object]]) -> None:
        if "message_index" in sql:
            written.extend(int(str(row[-1])) for row in rows)
        change_many(sql, rows)

    monkeypatch.setattr(store.database, "change_many", note)
    return written


def test_a_quick_server_is_asked_for_few_headers_and_each_older_message_is_indexed_once(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    _deliver(mail_server, user)
    written = _index_writes(mirror.store, monkeypatch)
    with mirror.running():
        mirror.wait_until_equal(mail_server, user)
        _is_whole(mirror)
    assert _requested(proxy.commands, r"HEADER\.FIELDS") <= 2 * folder.FEW + 1
    assert _requested(proxy.commands, r"BODY\.PEEK\[\]") == _COUNT - 1
    assert len(written) <= _COUNT + 2 * folder.FEW
    # All sizes at once, not a request for each batch.
    assert proxy.count(r"UID FETCH \S+ \(UID RFC822\.SIZE\)") <= 3


def test_a_slow_server_is_asked_for_all_headers_first(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context, "_QUICK", 0.0)
    _deliver(mail_server, user)
    with mirror.running():
        mirror.wait_until_equal(mail_server, user)
        _is_whole(mirror)
    fetches = [command for command in proxy.commands if command.startswith("UID FETCH")]
    headers = [at for at, command in enumerate(fetches) if "HEADER.FIELDS" in command]
    bodies = [at for at, command in enumerate(fetches) if "BODY.PEEK[]" in command]
    assert _requested(fetches, r"HEADER\.FIELDS") >= _COUNT
    assert headers[1] < bodies[1]  # The first bodies are the measurement.


def test_after_a_failure_headers_come_first(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "FIRST_RETRY", 0.01)
    monkeypatch.setattr(folder, "WHOLE_COUNT", 50)
    _deliver(mail_server, user)
    proxy.cut_at(r"FETCH (2\d\d|3[0-3]\d):\d+ .*BODY\.PEEK\[\]")
    with mirror.running():
        mirror.wait_until_equal(mail_server, user)
        _is_whole(mirror)
    assert proxy.cuts == 1
    assert _requested(proxy.commands, r"HEADER\.FIELDS") > 2 * folder.FEW + 100


def test_what_was_stored_before_a_cut_is_not_fetched_again(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "WHOLE_COUNT", 20)
    _deliver(mail_server, user)
    proxy.cut_at(r"FETCH 1\d\d:\d+ .*BODY\.PEEK\[\]")
    mirror.supervisor.start()
    mirror.wait_for_status("error")
    before = mirror.ids()
    assert len(before) >= 150
    state = next(one.state for one in mirror.store.folders.list(mirror.account_id) if one.path == "INBOX")
    assert state is not None
    assert state.uidnext == 1  # It counts as never synced.
    proxy.commands.clear()
    mirror.restart()
    mirror.wait_until_equal(mail_server, user)
    _is_whole(mirror)
    assert mirror.ids().items() >= before.items()
    assert _requested(proxy.commands, r"BODY\.PEEK\[\]") <= _COUNT - len(before) + 2 * folder.FEW
    mirror.supervisor.stop()


def test_messages_that_the_server_does_not_return_are_listed_by_their_headers(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "BATCH_COUNT", 60)
    _deliver(mail_server, user, 300)
    proxy.refuse(r"UID FETCH 100 .*BODY\.PEEK\[\]", answer="NO Cannot read this one")
    proxy.refuse(r"UID FETCH \d+:\d+ .*BODY\.PEEK\[\]", answer="NO Cannot read one of them")
    mirror.supervisor.start()
    mirror.wait_for(lambda: len(mirror.messages("INBOX")) == 300, "all of them")
    mirror.supervisor.stop()


def test_the_mirror_is_complete_before_the_position_is_stored(
    mail_server: MailServer, user: str, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    _deliver(mail_server, user)
    counts: list[int] = []
    set_state = mirror.store.folders.set_state

    def note(number: int, state: object) -> None:
        if getattr(state, "uidnext", 1) > 1:
            counts.append(mirror.store.mailbox_writer.count_in_folder(number))
        set_state(number, state)  # type: ignore[arg-type]

    monkeypatch.setattr(mirror.store.folders, "set_state", note)
    with mirror.running():
        mirror.wait_until_equal(mail_server, user)
    assert max(counts) == _COUNT
    assert set(counts) <= {0, _COUNT}  # The other folders are empty.


def test_large_messages_alone_do_not_keep_others_out_of_the_list(
    mail_server: MailServer, user: str, mirror: Mirror, proxy: FaultProxy
) -> None:
    count = 2 * folder.FEW + 20
    mail_server.deliver(user, *(source(f"m{number}", "the text", size=270_000) for number in range(count)))
    with mirror.running():
        mirror.wait_until_equal(mail_server, user)
    fetches = [command for command in proxy.commands if command.startswith("UID FETCH")]
    listing = [at for at, command in enumerate(fetches) if re.match(r"UID FETCH \S+[:,]\S+ .*HEADER\.FIELDS", command)]
    bodies = [at for at, command in enumerate(fetches) if "BODYSTRUCTURE" in command and "HEADER.FIELDS" not in command]
    assert bodies
    assert listing[-1] < bodies[0]


def test_a_mailbox_that_waits_for_its_turn_holds_no_messages_that_are_stored(
    mail_server: MailServer, user: str, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[backlog._StoringBatch] = []
    make = backlog._StoringBatch

    def note(*given: object) -> backlog._StoringBatch:
        batches.append(make(*given))  # type: ignore[arg-type]
        return batches[-1]

    monkeypatch.setattr(backlog, "_StoringBatch", note)
    _deliver(mail_server, user)
    with mirror.running():
        mirror.wait_until_equal(mail_server, user)
        assert batches
        assert all(not each.pending.sources for each in batches)
