"""A restore does not lock out remote administrators: the certificate that clients pinned stays, and so do the HTTPS
settings. The backup's certificate is used only if there is none.
"""

from pathlib import Path

import pytest

from mailbox_appliance.store.backup.container import SectionName, open_container
from mailbox_appliance.store.files import DATABASE_FILE
from mailbox_appliance.store.restore.merge import merge_present
from mailbox_appliance.store.restore.restore import unpack_into_folder
from mailbox_appliance.store.store import Store
from tests.servers.fake_clock import FakeClock
from tests.store.restore.test_restore import LOCAL, back_up, complete, contents, lose, prepare, put_back, restore
from tests.store.restored import People, Restoring, closed_store

PAIR: tuple[SectionName, SectionName] = ("tls/cert.pem", "tls/key.pem")
Files = dict[str, bytes]
THEN: Files = {PAIR[0]: b"old certificate", PAIR[1]: b"old key"}
NOW: Files = {PAIR[0]: b"certificate", PAIR[1]: b"key"}


@pytest.fixture
def folder(tmp_path: Path, clock: FakeClock) -> Path:
    """A data directory with a closed store in it, and nothing else."""
    made = tmp_path / "data"
    closed_store(made, clock)
    return made


def put(folder: Path, files: Files) -> None:
    """Replace the files of the certificate."""
    for old in PAIR:
        (folder / old).unlink(missing_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)


def certificate(folder: Path) -> Files:
    """Return the files of the certificate, and all other files beside them."""
    return {name: content for name, content in contents(folder).items() if name.startswith("tls/")}


ONLY_CERTIFICATE: Files = {PAIR[0]: b"certificate"}
ONLY_KEY: Files = {PAIR[1]: b"key"}
# in the backup, at present, afterwards
CERTIFICATES: list[tuple[Files, Files, Files]] = [
    (THEN, NOW, NOW),
    (THEN, {}, THEN),
    (THEN, ONLY_CERTIFICATE, THEN),
    (THEN, ONLY_KEY, THEN),
    ({}, NOW, NOW),
    ({}, {}, {}),
    ({}, ONLY_CERTIFICATE, ONLY_CERTIFICATE),
    ({PAIR[0]: b"old certificate"}, NOW, NOW),
]


@pytest.mark.parametrize(("then", "now", "after"), CERTIFICATES)
@pytest.mark.parametrize("how", ["known", "lost", "another"])
def test_the_certificate_that_is_there_stays(
    folder: Path, clock: FakeClock, how: str, then: Files, now: Files, after: Files
) -> None:
    put(folder, then)
    file = back_up(folder, clock)
    put(folder, now)
    if how == "lost":
        (folder / DATABASE_FILE).unlink()
    elif how == "another":
        lose(folder, "no database")
    restore(folder, file, clock, is_known=how == "known")
    assert certificate(folder) == after
    for name in after:
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    if after:
        assert (folder / "tls").stat().st_mode & 0o777 == 0o700
    Store.open(folder, clock).close()


def test_links_of_the_operators_stay_links(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    put(folder, THEN)
    file = back_up(folder, clock)
    put(folder, {})
    for name in PAIR:
        (folder / name).symlink_to(tmp_path / Path(name).name)
    (tmp_path / "cert.pem").write_bytes(b"renewed")  # and the key is missing at the moment
    restore(folder, file, clock)
    assert [(folder / name).readlink() for name in PAIR] == [tmp_path / Path(name).name for name in PAIR]


@pytest.mark.parametrize("moved", [(), ("key.pem",), ("cert.pem", "key.pem")])
def test_a_pair_that_counts_already_but_is_not_in_its_place_stays(
    folder: Path, clock: FakeClock, moved: tuple[str, ...]
) -> None:
    """An interrupted `tls/files.py` leaves this state: the pair in `tls/.next` is the current one."""
    put(folder, THEN)
    file = back_up(folder, clock)
    put(folder, {})
    (folder / "tls" / ".next").mkdir()
    for name in ("cert.pem", "key.pem"):
        (folder / "tls" / ("" if name in moved else ".next") / name).write_bytes(b"new")
    before = certificate(folder)
    restore(folder, file, clock)
    assert certificate(folder) == before


@pytest.mark.parametrize("left", [("cert.pem",), ("key.pem",), ()])
@pytest.mark.parametrize("is_back", [False, True])
def test_half_a_pair_that_was_left_over_does_not_count_beside_the_restored_one(
    folder: Path, clock: FakeClock, left: tuple[str, ...], *, is_back: bool
) -> None:
    put(folder, THEN)
    file = back_up(folder, clock)
    put(folder, {})
    (folder / "tls" / ".next").mkdir()
    for name in left:
        (folder / "tls" / ".next" / name).write_bytes(b"left")
    prepared = prepare(folder, file, clock)
    restored = complete(prepared, clock)
    assert certificate(folder) == THEN
    if is_back:
        put_back(prepared, restored)
        assert certificate(folder) == {f"tls/{name}": b"left" for name in left}
    assert not (folder / "tls" / ".next").exists()


def test_what_is_replaced_is_kept_with_the_pair_that_counts(folder: Path, clock: FakeClock) -> None:
    """The key has moved, and its certificate has not yet: an interrupted `tls/files.py` leaves this state."""
    put(folder, {PAIR[0]: b"old certificate", PAIR[1]: b"new key"})
    (folder / "tls" / ".next").mkdir()
    (folder / "tls" / ".next" / "cert.pem").write_bytes(b"new certificate")
    store = Store.open(folder, clock)
    made = store.backups.find(store.backups.create("manual").id)
    store.close()
    kept = restore(folder, made, clock).kept
    assert kept is not None
    for file in (made, kept):
        found = open_container(file)
        assert [found.read(name) for name in PAIR] == [b"new certificate", b"new key"]


def test_one_that_is_made_while_the_restore_is_prepared_stays(folder: Path, clock: FakeClock) -> None:
    put(folder, THEN)
    file = back_up(folder, clock)
    put(folder, {})
    prepared = prepare(folder, file, clock)
    put(folder, NOW)
    complete(prepared, clock)
    assert certificate(folder) == NOW


@pytest.mark.parametrize(
    ("then", "now"), [(THEN, NOW), (THEN, {}), (THEN, ONLY_KEY), ({}, NOW), (THEN, ONLY_CERTIFICATE)]
)
@pytest.mark.parametrize("is_rotated", [False, True])
def test_what_the_restored_one_brought_goes_where_it_is_put_back(
    folder: Path, clock: FakeClock, then: Files, now: Files, *, is_rotated: bool
) -> None:
    put(folder, then)
    file = back_up(folder, clock)
    put(folder, now)
    prepared = prepare(folder, file, clock)
    restored = complete(prepared, clock)
    rotated: Files = {PAIR[0]: b"rotated", PAIR[1]: b"rotated"}
    if is_rotated and len(now) == 2:
        put(folder, rotated)
    put_back(prepared, restored)
    assert certificate(folder) == (rotated if is_rotated and len(now) == 2 else now)


def test_elsewhere_it_is_that_of_the_backup(folder: Path, clock: FakeClock, tmp_path: Path) -> None:
    put(folder, THEN)
    file = back_up(folder, clock)
    put(folder, NOW)
    unpack_into_folder(file, tmp_path / "there", clock)
    assert certificate(tmp_path / "there") == THEN


# --- HTTPS settings ---------------------------------------------------------------------------------------------------

Values = dict[str, object]
OFF: Values = {}
ON: Values = {"server.https": True, "server.https_port": 9443, "server.https_host": "192.0.2.1"}
OTHERWISE: Values = {"server.https": False, "server.https_port": 0}


def say(store: Store, values: Values) -> None:
    """Replace the stored HTTPS settings, and one other setting."""
    with store.database.transaction():
        for name in ON:
            store.stored_settings.remove(name)
        for name, value in values.items():
            store.stored_settings.put(name, value)
        store.stored_settings.put("server.hsts_days", len(values))


@pytest.mark.parametrize(("then", "now"), [(OFF, ON), (ON, OFF), (ON, OTHERWISE), (OTHERWISE, ON), (ON, ON)])
@pytest.mark.parametrize("is_known", [True, False], ids=["present", "none"])
def test_https_is_offered_as_now(restoring: Restoring, then: Values, now: Values, *, is_known: bool) -> None:
    store, _ = restoring.run(
        lambda store, _people, _clock: say(store, then),
        lambda store, _people, _clock: say(store, now),
        with_present=is_known,
    )
    found = {name: value for name, value in store.stored_settings.get_all().items() if name in ON}
    assert found == (now if is_known else then)
    assert store.stored_settings.find("server.hsts_days") == len(then)


def test_so_it_is_where_each_of_the_two_went_its_own_way(tmp_path: Path) -> None:
    def here(store: Store, people: People, clock: FakeClock) -> None:
        say(store, ON)
        with store.database.transaction():
            store.audit.record(LOCAL, "settings.update", ("member", people.ada))

    def there(store: Store, people: People, clock: FakeClock) -> None:
        say(store, OTHERWISE)
        with store.database.transaction():
            store.audit.record(LOCAL, "settings.update", ("member", people.bob))

    for backed_up, present, after in ((here, there, OTHERWISE), (there, here, ON)):
        restoring = Restoring(tmp_path / str(len(after)))
        store, _ = restoring.run_forked(lambda *_: None, backed_up, present)
        assert restoring.carried.relation == "forked"
        assert {name: value for name, value in store.stored_settings.get_all().items() if name in ON} == after
        store.close()


def test_so_it_is_where_another_store_was_before(restoring: Restoring, tmp_path: Path) -> None:
    """The HTTPS settings belong to the computer."""
    store, _ = restoring.run(lambda store, _people, _clock: say(store, OTHERWISE), lambda *_: None, with_present=False)
    other = Store.open(tmp_path / "other", restoring.clock, store.key_file)
    say(other, ON)
    other.close()
    carried = merge_present(store.database, tmp_path / "other" / DATABASE_FILE, store.key, restoring.clock.now())
    assert carried.relation == "stranger"
    assert {name: value for name, value in store.stored_settings.get_all().items() if name in ON} == ON
