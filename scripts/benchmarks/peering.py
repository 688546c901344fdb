"""Our list view beside that of Cyrus (JMAP), our searches beside those of notmuch, over the same mail, in turns."""

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from benchmarks import peers, stage
from benchmarks.asking import Asker
from benchmarks.cyrus import cyrus
from benchmarks.figures import Figure, spread
from benchmarks.mailboxes import connect, dovecot, seeded, wait_until_complete
from benchmarks.options import OPTIONS
from tests.servers.corpus import Corpus
from tests.servers.dovecot import MailServer

_MESSAGES, _VIEWS, _ROUNDS = 20_000, 60, 15


def measure() -> Iterator[Figure]:
    """All three have the same messages; ours come from Dovecot, the others read files."""
    peers.need("notmuch")
    count = OPTIONS.scaled(_MESSAGES, least=2000)
    with stage.scratch() as folder, dovecot(folder) as server, stage.appliance(folder / "data") as running:
        user = seeded(server, count)
        corpus = Corpus(user)
        with Asker(running) as asker:
            account = connect(running, server, user)
            wait_until_complete(asker, account)
            yield _list_views(folder, asker, account, corpus, count)
            yield from _searches(_indexed(folder, server, user), asker, account, corpus.vocabulary.words)


def _list_views(folder: Path, asker: Asker, account: str, corpus: Corpus, count: int) -> Figure:
    ours, theirs = [], []
    path = f"/accounts/{account}/messages?folder=inbox&limit=50"
    with cyrus(folder / "cyrus", "ada", corpus.messages(count)) as jmap:
        seen = {each["subject"] for each in jmap.newest(50)} & {each["subject"] for each in asker.data(path)["items"]}
        assert len(seen) > 20, "the two do not show the same mail"
        for _ in range(_VIEWS):
            ours += asker.milliseconds([path])
            began = time.perf_counter()
            jmap.newest(50)
            theirs.append((time.perf_counter() - began) * 1000)
    ratio = statistics.median(ours) / statistics.median(theirs)
    return Figure(
        "list view of 50 over Cyrus JMAP",
        ratio,
        1,
        "at most",
        "x",
        f"{spread(ours, '.1f')} ms",
        f"{spread(theirs, '.1f')} ms",
    )


def _indexed(folder: Path, server: MailServer, user: str) -> Path:
    """Dovecot's files where notmuch may put its index beside them."""
    mail = folder / "notmuch"
    for part in ("cur", "new", "tmp"):
        (mail / "mail" / part).mkdir(parents=True)
    for file in (server.maildir(user) / "cur").iterdir():
        os.link(file, mail / "mail" / "cur" / file.name)
    peers.notmuch_new(mail)
    return mail


def _searches(mail: Path, asker: Asker, account: str, words: list[str]) -> Iterator[Figure]:
    queries = {
        "rare word": words[9000],
        "common word": words[40],
        "two words": f"{words[60]} {words[900]}",
        "phrase": f'"{words[3]} {words[10]}"',
        "from:": "from:kowalski",
        "subject:": f"subject:{words[70]}",
    }
    for name, query in queries.items():
        path = f"/accounts/{account}/messages?q={quote(query)}&limit=50"
        found = len(asker.data(path)["items"])
        ours, theirs = [], []
        for _ in range(_ROUNDS):
            ours += asker.milliseconds([path])
            took, others = peers.notmuch_search(mail, query)
            theirs.append(took * 1000)
        assert found, f"{query}: nothing found"
        assert others, f"{query}: notmuch found nothing"
        ratio = statistics.median(ours) / statistics.median(theirs)
        said = f"{spread(ours, '.1f')} ms, {found} found"
        beside = f"{spread(theirs, '.1f')} ms, {others} found"
        yield Figure(f"search over notmuch: {name}", ratio, 1, "at most", "x", said, beside)
