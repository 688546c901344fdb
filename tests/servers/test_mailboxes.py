"""The corpus is what it says, and mailboxes can be filled with it and changed."""

import imaplib
import statistics

from mailbox_appliance.mail.parse import parse_message
from tests.servers.corpus import Corpus
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD, wait_until


def test_the_corpus_is_the_same_each_time_and_of_the_sizes_of_real_mail() -> None:
    messages = list(Corpus("a@example.test", seed=3).messages(600))
    assert messages == list(Corpus("a@example.test", seed=3).messages(600))
    assert messages[0].source != next(Corpus("a@example.test", seed=4).messages(600)).source
    assert 2500 < statistics.median(len(message.source) for message in messages) < 5500
    assert 9_000 < statistics.mean(len(message.source) for message in messages) < 30_000
    assert [message.date for message in messages] == sorted(message.date for message in messages)


def test_the_corpus_has_of_everything() -> None:
    sources = [message.source for message in Corpus("a@example.test", largest_file=5000).messages(800)]
    parsed = [parse_message(source) for source in sources]
    assert sum(bool(each.attachments) for each in parsed) > 40
    assert sum(bool(each.in_reply_to) for each in parsed) > 200
    assert sum(bool(each.html) for each in parsed) > 300
    assert sum("List-Id" in each.headers or "list-id" in each.headers for each in parsed) > 100
    texts = " ".join(each.text or "" for each in parsed)
    assert all(word in texts for word in ("Größe", "książka", "Счёт", "合同", "会議", "회의"))
    broken = (b"charset=x-unknown", b'boundary="never"', b"this is no header field")
    assert any(sign in source for source in sources for sign in broken)


def test_folders_are_filled_before_anybody_opens_them(mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    written = mail_server.seed(user, {"INBOX": 40, "Projekte/Bücher": 20}, seed=7)
    with imaplib.IMAP4(mail_server.host, mail_server.imap_port, timeout=10) as client:
        client.login(user, PASSWORD)
        assert client.select("INBOX", readonly=True)[1] == [b"40"]
        sizes = [int(line.split()[-1][:-1]) for line in client.fetch("1:*", "(RFC822.SIZE)")[1]]  # type: ignore[union-attr]
        assert client.select('"Projekte/B&APw-cher"', readonly=True)[1] == [b"20"]
    assert sizes == [len(source) for source in mail_server.messages(user)]
    assert written == sum(sizes) + sum(map(len, mail_server.messages(user, "Projekte/Bücher")))


def test_a_folder_is_renumbered(mail_server: MailServer) -> None:
    user = mail_server.fresh_user()
    mail_server.seed(user, {"INBOX": 5})
    seen = []
    for _ in range(2):
        with imaplib.IMAP4(mail_server.host, mail_server.imap_port, timeout=10) as client:
            client.login(user, PASSWORD)
            client.select("INBOX")
            seen.append((client.response("UIDVALIDITY")[1], client.uid("SEARCH", "ALL")[1]))
            assert mail_server.connections(user) == 1
        wait_until(lambda: mail_server.connections(user) == 0, lambda: "it is still connected", 5)
        validity = mail_server.renumber(user)
    assert seen[0][0] != seen[1][0]
    assert seen[0][1] == [b"1 2 3 4 5"]
    assert seen[1][1] != seen[0][1]
    assert validity > int(seen[1][0][0] or 0)
