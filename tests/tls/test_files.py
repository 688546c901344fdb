"""The two files: read as one pair, and replaced so that either the old or the new pair exists, whatever happens."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from mailbox_appliance.errors import CertificateNotWritten, CertificateUnusable, Invalid
from mailbox_appliance.store import files as store_files
from mailbox_appliance.tls.files import CertificateFiles, pem_blocks
from mailbox_appliance.tls.generate import generate_certificate
from mailbox_appliance.tls.inspect import fingerprint, load_certificate
from mailbox_appliance.tls.validate import validate_certificate
from tests.tls.issued import NOW, authority, issued
from tests.tls.mounts import mounted

Pair = tuple[bytes, bytes]
NAMES = ("localhost",)


@pytest.fixture(scope="module")
def pairs() -> tuple[Pair, Pair]:
    """Return an old pair and a new one."""
    return generate_certificate(NAMES, NOW), generate_certificate(NAMES, NOW)


@pytest.fixture
def files(tmp_path: Path, pairs: tuple[Pair, Pair]) -> CertificateFiles:
    """Return a data directory with the old pair."""
    return laid_out(tmp_path / "data", pairs[0])


def laid_out(data_dir: Path, pair: Pair) -> CertificateFiles:
    found = CertificateFiles(data_dir)
    found.replace(*pair)
    return found


def names_in(files: CertificateFiles) -> set[str]:
    return {path.name for path in files.folder.iterdir()}


# --- made -------------------------------------------------------------------------------------------------------------


def test_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "not" / "there")
    assert not files.any_exists()
    assert files.ensure(NAMES, NOW)
    made = files.load()
    assert not files.ensure(NAMES, NOW)
    assert files.load() == made
    modes = [path.stat().st_mode & 0o777 for path in (files.folder, files.certificate, files.key)]
    assert modes == [0o700, 0o600, 0o600]
    assert names_in(files) == {"cert.pem", "key.pem"}


def test_of_many_at_once_one_makes_it(tmp_path: Path) -> None:
    made: list[bool] = []
    makers = [
        threading.Thread(target=lambda: made.append(CertificateFiles(tmp_path).ensure(NAMES, NOW))) for _ in range(8)
    ]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert sorted(made) == [False] * 7 + [True]


@pytest.mark.parametrize("left", ["cert.pem", "key.pem"])
def test_half_a_pair_is_not_made_whole(files: CertificateFiles, left: str) -> None:
    (missing,) = names_in(files) - {left}
    (files.folder / missing).unlink()
    with pytest.raises(CertificateUnusable, match=rf"{missing} is missing.*https import.*https rotate"):
        files.ensure(NAMES, NOW)
    assert names_in(files) == {left}


# --- read -------------------------------------------------------------------------------------------------------------


def as_link_to_nowhere(file: Path) -> None:
    file.unlink()
    file.symlink_to("/nowhere/privkey.pem")


def replaced_by_link(file: Path, target: Path) -> None:
    file.unlink()
    file.symlink_to(target)


def as_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def as_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def as_too_large(file: Path) -> None:
    file.write_bytes(bytes((1 << 20) + 1))


UNREADABLE: list[tuple[Callable[[Path], None], str]] = [
    (as_link_to_nowhere, r"key.pem is a link to a file that does not exist"),
    (as_directory, r"key.pem cannot be read \(Is a directory\)"),
    (as_pipe, r"key.pem cannot be read \(Not a regular file\)"),
    (as_too_large, "key.pem is larger than 1 MiB"),
]


@pytest.mark.parametrize(("spoil", "told"), UNREADABLE)
def test_what_cannot_be_read_is_told_and_left_alone(
    files: CertificateFiles, spoil: Callable[[Path], None], told: str
) -> None:
    spoil(files.key)
    for act in (files.load, lambda: files.ensure(NAMES, NOW)):
        with pytest.raises(CertificateUnusable, match=told):
            act()
    assert files.any_exists()


def test_where_a_link_leads_is_for_the_log_only(files: CertificateFiles) -> None:
    """Members learn that the certificate is not usable, but nothing about other folders of this computer."""
    as_link_to_nowhere(files.key)
    with pytest.raises(CertificateUnusable) as caught:
        files.load()
    assert "/nowhere" not in caught.value.message
    assert caught.value.where == "/nowhere/privkey.pem"


def test_a_link_is_followed_and_replaced_itself(files: CertificateFiles, pairs: tuple[Pair, Pair]) -> None:
    """Links as certbot keeps them."""
    theirs = files.folder.parent / "live"
    shutil.copytree(files.folder, theirs)
    for name in ("cert.pem", "key.pem"):
        (files.folder / name).unlink()
        (files.folder / name).symlink_to(theirs / name)
    assert files.load() == pairs[0]
    files.replace(*pairs[1])
    assert files.load() == pairs[1]
    assert not files.certificate.is_symlink()
    assert ((theirs / "cert.pem").read_bytes(), (theirs / "key.pem").read_bytes()) == pairs[0]


def test_every_change_is_seen(files: CertificateFiles, pairs: tuple[Pair, Pair]) -> None:
    theirs = files.folder.parent / "key.pem"
    shutil.copy(files.key, theirs)
    seen = [files.state()]
    for change in (
        lambda: files.replace(*pairs[1]),
        lambda: files.replace(*pairs[1]),
        lambda: files.certificate.write_bytes(b"short"),
        files.certificate.unlink,
        lambda: as_link_to_nowhere(files.key),
        lambda: replaced_by_link(files.key, theirs),
        lambda: theirs.write_bytes(b"short"),
    ):
        change()
        seen.append(files.state())
    assert len(set(seen)) == len(seen)
    assert files.state() == seen[-1]


def test_a_pair_that_is_replaced_while_it_is_read_is_one_pair(
    files: CertificateFiles, pairs: tuple[Pair, Pair]
) -> None:
    stop = threading.Event()

    def replace() -> None:
        while not stop.is_set():
            for pair in pairs:
                files.replace(*pair)

    other = threading.Thread(target=replace)
    other.start()
    try:
        seen = {CertificateFiles(files.folder.parent).load() for _ in range(100)}
    finally:
        stop.set()
        other.join()
    assert seen <= set(pairs)


# --- interrupted ------------------------------------------------------------------------------------------------------

#: For n = 1, 2, ...: prepares the directory and replaces the pair (or creates one), and is killed right before the n-th
#: step that changes a name. Prints how many steps there are.
DYING = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from mailbox_appliance.tls.files import CertificateFiles
root, old = Path(sys.argv[1]), sys.argv[2] == "old"
pairs = [((root / f"{n}.cert").read_bytes(), (root / f"{n}.key").read_bytes()) for n in ("old", "new")]

def run(fatal):
    files, steps = CertificateFiles(root / str(fatal)), 0
    if old:
        files.replace(*pairs[0])
    def watch(event, arguments):
        nonlocal steps
        if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "open", "os.listdir", "os.scandir"):
            steps += 1
            if steps == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    files.replace(*pairs[1], lambda certificate: (root / f"{fatal}.recorded").touch())
    return steps

fatal, ended = 0, None
while ended != 0:
    fatal += 1
    if not (child := os.fork()):
        run(fatal)
        os._exit(0)
    ended = os.waitpid(child, 0)[1]
print(fatal - 1)
"""


@pytest.mark.parametrize("before", ["old", "none"])
def test_killed_at_every_step(tmp_path: Path, pairs: tuple[Pair, Pair], before: str) -> None:
    for name, pair in zip(("old", "new"), pairs, strict=True):
        (tmp_path / f"{name}.cert").write_bytes(pair[0])
        (tmp_path / f"{name}.key").write_bytes(pair[1])
    argv = [sys.executable, "-c", DYING, str(tmp_path), before]
    steps = int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout)
    assert steps > 15
    seen = []
    for fatal in range(1, steps + 1):
        files = CertificateFiles(tmp_path / str(fatal))
        left = files.load() if files.any_exists() else None
        assert left in (pairs[0] if before == "old" else None, pairs[1]), fatal
        assert left != pairs[1] or (tmp_path / f"{fatal}.recorded").exists(), "a change without a row"
        seen.append(left == pairs[1])
        made = files.ensure(NAMES, NOW)
        assert (made, files.load() == left) == (left is None, left is not None)
        assert names_in(files) == {"cert.pem", "key.pem"}
    assert seen == sorted(seen)
    assert {*seen} == {False, True}


REPLACING = """
import sys
from pathlib import Path
from mailbox_appliance.tls.files import CertificateFiles
root = Path(sys.argv[1])
CertificateFiles(root / "data").replace((root / "new.cert").read_bytes(), (root / "new.key").read_bytes())
"""


def test_each_step_is_on_the_disk_before_the_next(tmp_path: Path, pairs: tuple[Pair, Pair]) -> None:
    """Otherwise a power failure could keep a later step without an earlier one: the new key without its certificate."""
    files, record = laid_out(tmp_path / "data", pairs[0]), tmp_path / "record"
    (tmp_path / "new.cert").write_bytes(pairs[1][0])
    (tmp_path / "new.key").write_bytes(pairs[1][1])
    calls = "trace=fsync,rename,renameat,renameat2,rmdir,unlinkat"
    argv = ["strace", "-f", "-y", "-qq", "-s", "500", "-o", str(record), "-e", calls, sys.executable, "-c", REPLACING]
    subprocess.run([*argv, str(tmp_path)], check=True)
    seen = [line.partition(" ")[2].strip() for line in record.read_text().splitlines() if str(files.folder) in line]
    assert files.load() == pairs[1]
    steps = [step for line in seen if (step := step_of(line, files.folder))]
    decided = steps.index("rename .next")
    assert steps[:decided] == [
        "sync .next.making/.cert.pem.new",
        "rename .next.making/cert.pem",
        "sync .next.making",
        "sync .next.making/.key.pem.new",
        "rename .next.making/key.pem",
        "sync .next.making",
    ]
    assert steps[decided:] == [
        "rename .next",
        "sync .",
        "rename key.pem",
        "rename cert.pem",
        "sync .",
        "remove .next",
        "sync .",
    ]


def step_of(line: str, folder: Path) -> str:
    """Return the step of a line of strace in the certificate's folder: the system call and the name there."""
    call = line.partition("(")[0]
    names = re.findall(rf"{re.escape(str(folder))}/?([^\">]*)", line)
    what = {"fsync": "sync", "rmdir": "remove", "unlinkat": "remove"}.get(call, "rename")
    return f"{what} {names[-1] or '.'}"


def test_a_pair_is_looked_at_and_recorded_before_it_counts(files: CertificateFiles, pairs: tuple[Pair, Pair]) -> None:
    rows: list[bytes] = []
    with pytest.raises(CertificateUnusable):
        files.replace(pairs[1][0], authority().key, rows.append)
    assert rows == []
    files.replace(*pairs[1], lambda certificate: rows.append(files.load()[0] + certificate))
    assert rows == [pairs[0][0] + pairs[1][0]]


@pytest.mark.parametrize("fails", [False, True])
def test_what_changes_while_it_is_looked_at_is_looked_at_again(
    files: CertificateFiles, pairs: tuple[Pair, Pair], *, fails: bool
) -> None:
    turns = iter((True, False))

    def look(certificate: Path, key: Path) -> Pair:
        first = certificate.read_bytes()
        if next(turns):
            files.replace(*pairs[1])
            if fails:
                raise files.unusable_error("They do not fit.")
        return first, key.read_bytes()

    assert files.read_consistently(look) == pairs[1]


def test_what_breaks_it_off_leaves_nothing(files: CertificateFiles, pairs: tuple[Pair, Pair]) -> None:
    def refuse(certificate: bytes) -> None:
        assert certificate == pairs[1][0]
        raise KeyError

    with pytest.raises(KeyError):
        files.replace(*pairs[1], refuse)
    assert (files.load(), names_in(files)) == (pairs[0], {"cert.pem", "key.pem"})


def test_what_does_not_fit_is_not_written(files: CertificateFiles, pairs: tuple[Pair, Pair]) -> None:
    weak = issued(key="1024")
    for pair in ((pairs[1][0], authority().key), (weak.pem, weak.key), (b"", b"")):
        with pytest.raises(CertificateUnusable):
            files.replace(*pair)
    assert (files.load(), names_in(files)) == (pairs[0], {"cert.pem", "key.pem"})


def test_a_directory_in_the_way_is_told(files: CertificateFiles, pairs: tuple[Pair, Pair]) -> None:
    as_directory(files.key)
    with pytest.raises(CertificateNotWritten, match=r"key\.pem: it is a directory; move it away"):
        files.replace(*pairs[1])
    assert names_in(files) == {"cert.pem", "key.pem"}
    assert files.certificate.read_bytes() == pairs[0][0]


# --- disks (as root) --------------------------------------------------------------------------------------------------


def test_a_disk_that_fills_up_at_any_step(tmp_path: Path, pairs: tuple[Pair, Pair]) -> None:
    """With every number of free pages up to eight, and the same for files and folders."""
    outcomes = []
    for option in ("size=32k,nr_inodes=64", "size=1m,nr_inodes=12"):
        with mounted("-t", "tmpfs", "-o", f"{option},mode=700", "tmpfs", str(tmp_path)):
            files = laid_out(tmp_path / "data", pairs[0])
            for left in range(8):
                leave(tmp_path, left)
                try:
                    files.replace(*pairs[1])
                    assert files.load() == pairs[1]
                    outcomes.append("new")
                    clear(tmp_path)
                    files.replace(*pairs[0])
                except CertificateNotWritten as error:
                    assert files.load() == pairs[0]
                    outcomes.append(
                        error.message.removeprefix(f"The certificate could not be written to {files.folder}: ")
                    )
                clear(tmp_path)
                assert names_in(files) == {"cert.pem", "key.pem"}
    assert {*outcomes} == {"new", "the disk is full; free some space and try again. Nothing was changed."}


def leave(disk: Path, left: int) -> None:
    """Fill a disk so that this many pages or files are left."""
    ballast = disk / "ballast"
    ballast.mkdir()
    number = 0
    while (room := os.statvfs(disk)).f_bfree > left and room.f_ffree > left:
        (ballast / str(number)).write_bytes(bytes(room.f_bsize) if room.f_blocks < 100 else b"")
        number += 1


def clear(disk: Path) -> None:
    shutil.rmtree(disk / "ballast", ignore_errors=True)


def test_a_file_that_is_a_mount_stays_and_its_pair_counts(files: CertificateFiles, pairs: tuple[Pair, Pair]) -> None:
    """The key is mounted, as in a container."""
    given = files.folder.parent / "given"
    shutil.copy(files.key, given)
    with mounted("--bind", str(given), str(files.key)):
        with pytest.raises(CertificateNotWritten, match="busy"):
            files.replace(*pairs[1])
        assert (files.load(), names_in(files)) == (pairs[0], {"cert.pem", "key.pem"})


def test_a_disk_that_may_only_be_read(files: CertificateFiles, pairs: tuple[Pair, Pair]) -> None:
    folder = str(files.folder)
    with mounted("--bind", folder, folder):
        subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True, capture_output=True)
        with pytest.raises(CertificateNotWritten, match="Read-only file system"):
            files.replace(*pairs[1])
        assert not files.ensure(NAMES, NOW)
        assert files.load() == pairs[0]


def test_who_keeps_both_has_a_pair_whenever_they_look(files: CertificateFiles, pairs: tuple[Pair, Pair]) -> None:
    """The reader copies both files, as a backup does, and knows nothing of TLS."""
    is_over = threading.Event()

    def replace() -> None:
        for turn in range(60):
            files.replace(*pairs[turn % 2])
        is_over.set()

    replacing = threading.Thread(target=replace)
    replacing.start()
    seen = set()
    while not is_over.is_set():
        seen.add(tuple(store_files.read_certificate(files.folder.parent).values()))
    replacing.join()
    assert seen <= set(pairs)
    files.key.unlink()
    assert store_files.read_certificate(files.folder.parent) == {"tls/cert.pem": pairs[1][0]}


# --- PEM blocks of a text, and that a long text of nonsense takes no time ---


A, B = b"-----BEGIN A-----\nx\n-----END A-----", b"-----BEGIN B C-----\r\ny\r\n-----END B C-----"
FOUND: dict[str, tuple[bytes, list[tuple[bytes, bytes]]]] = {
    "nothing": (b"", []),
    "one": (A, [(b"A", A)]),
    "two, and text around": (b"1" + A + b"2\n" + B + b"3", [(b"A", A), (b"B C", B)]),
    "no end": (A[:-1], []),
    "another's end": (b"-----BEGIN C-----\n" + B + A, [(b"A", A)]),
    "a begin that is none": (b"-----BEGIN a-----\n-----BEGIN -----\n-----BEGIN A B\n" + A, [(b"A", A)]),
    "no line of its own": (b"-----BEGIN A-----x-----END A-----" + B, [(b"B C", B)]),
    "a label of 40": (A.replace(b"A", b"A" * 40), [(b"A" * 40, A.replace(b"A", b"A" * 40))]),
    "a longer one": (A.replace(b"A", b"A" * 41), []),
    "cut off before another": (b"-----BEGIN A-----\n" + A, [(b"A", b"-----BEGIN A-----\n" + A)]),
}


@pytest.mark.parametrize("name", FOUND)
def test_which_there_are(name: str) -> None:
    text, found = FOUND[name]
    assert list(pem_blocks(text)) == found


#: A MiB each of text at which a search would start again and again.
LONG = {
    "begin": b"-----BEGIN A-----\n",
    "begin of a certificate": b"-----BEGIN CERTIFICATE-----\n",
    "begin and another's end": b"-----BEGIN A-----\n-----END B-----\n",
    "begin without a label": b"-----BEGIN ",
    "end": b"-----END A-----\n",
    "a block": A + b"\n",
    "dashes": b"-----",
    "BEGIN": b"BEGIN ",
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_text_of_nonsense_takes_no_time(tmp_path: Path, name: str) -> None:
    """No other request is served during the check, so it must be fast."""
    own, text = issued(), LONG[name] * ((1 << 20) // len(LONG[name]) - 200)
    files = CertificateFiles(tmp_path)
    files.replace(own.pem, own.key)
    files.certificate.write_bytes(text)
    began = time.process_time()
    for certificate, key in ((text, own.key), (own.pem, text)):
        with pytest.raises(Invalid):
            validate_certificate(certificate, key, NOW)
    with pytest.raises(ValueError, match="no PEM certificate"):
        fingerprint(text)
    with pytest.raises(CertificateUnusable):
        load_certificate(files)
    files.certificate.write_bytes(own.pem + text)
    with suppress(CertificateUnusable):  # OpenSSL alone judges what follows a certificate
        assert load_certificate(files).facts.fingerprint == fingerprint(own.pem)
    assert time.process_time() - began < 1
