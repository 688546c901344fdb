"""Messages that name each other are one thread, in whatever order they arrive, and its ID is that of the oldest."""

import itertools

import pytest

from mailbox_appliance.model.messages import ParsedMessage
from mailbox_appliance.store.mailbox_writer import PendingCopy
from mailbox_appliance.store.store import Store
from tests.store.mail import Mailbox, fetched, parsed

CONVERSATION = {
    "root": parsed("<root@x>"),
    "reply": parsed("<reply@x>", in_reply_to=["<root@x>"]),
    "answer": parsed("<answer@x>", references=["<root@x>", "<reply@x>"], in_reply_to=["<reply@x>"]),
    "aside": parsed("<aside@x>", references=["<reply@x>"]),
}


@pytest.mark.parametrize("order", list(itertools.permutations(CONVERSATION)), ids="-".join)
def test_a_conversation_is_one_thread_in_any_order(store: Store, mailbox: Mailbox, order: tuple[str, ...]) -> None:
    added = [mailbox.add(uid, CONVERSATION[name], after=uid) for uid, name in enumerate(order)]
    threads = {mailbox.thread_of(message_id) for message_id in added}
    assert len(threads) == 1
    page, following = store.messages.list_thread(mailbox.id, threads.pop(), after=None, limit=4)
    assert ([message.id for message in page], following) == (added, None), "oldest first"


def test_the_oldest_thread_keeps_its_id(store: Store, mailbox: Mailbox) -> None:
    first = mailbox.thread_of(mailbox.add(1, parsed("<1@x>")))
    second = mailbox.thread_of(mailbox.add(2, parsed("<2@x>")))
    other = mailbox.thread_of(mailbox.add(3, parsed("<3@x>")))
    assert len({first, second, other}) == 3
    joined = mailbox.thread_of(mailbox.add(4, parsed("<4@x>", references=["<2@x>", "<1@x>"])))
    assert joined == first
    assert store.database.rows("SELECT id FROM threads ORDER BY number") == [(first,), (other,)]
    assert len(store.messages.list_thread(mailbox.id, first, after=None, limit=9)[0]) == 3


#: Two messages, and whether they belong together.
PAIRS: list[tuple[ParsedMessage, ParsedMessage, bool]] = [
    (parsed("<A@X.example>"), parsed("<b@x>", references=["<a@x.example>"]), True),
    (parsed('<"a"@x>'), parsed("<b@x>", references=["<a@x>"]), True),
    (parsed("<b@x>", references=["<gone@x>"]), parsed("<c@x>", references=["<gone@x>"]), True),
    (parsed("<a@x>"), parsed("<a@x>"), True),
    (parsed(None), parsed(None), False),
    (parsed(""), parsed(""), False),
    (parsed("<a@x>"), parsed("<b@x>"), False),
    (parsed("<a@x>"), parsed("<b@x>", references=["<>", ""]), False),
]


@pytest.mark.parametrize(("one", "other", "together"), PAIRS)
def test_what_belongs_together(mailbox: Mailbox, one: ParsedMessage, other: ParsedMessage, together: bool) -> None:
    threads = {mailbox.thread_of(mailbox.add(1, one)), mailbox.thread_of(mailbox.add(2, other, "Sent"))}
    assert (len(threads) == 1) == together


def test_mailboxes_have_threads_of_their_own(store: Store, mailbox: Mailbox) -> None:
    other = Mailbox(store)
    assert mailbox.thread_of(mailbox.add(1, parsed("<a@x>"))) != other.thread_of(other.add(1, parsed("<a@x>")))


def test_a_thread_is_read_in_pages(store: Store, mailbox: Mailbox) -> None:
    added = [mailbox.add(uid, parsed(f"<{uid}@x>", references=["<0@x>"]), after=uid) for uid in range(5)]
    thread = mailbox.thread_of(added[0])
    found: list[str] = []
    after: int | None = None
    while len(found) < 9:
        page, after = store.messages.list_thread(mailbox.id, thread, after=after, limit=2)
        found += [message.id for message in page]
        if after is None:
            break
    assert found == added


def add_pending(mailbox: Mailbox, message: ParsedMessage, thread: str) -> str:
    copy = PendingCopy("msg_ours", thread)
    with mailbox.store.database.transaction():
        mailbox.store.mailbox_writer.add_pending(mailbox.folder("Sent"), fetched(0), message, copy)
    return mailbox.thread_of("msg_ours")


def test_a_promised_thread_is_kept_where_there_is_none(mailbox: Mailbox) -> None:
    assert add_pending(mailbox, parsed("<ours@x>"), "thr_promised") == "thr_promised"


def test_a_reply_of_ours_goes_to_the_thread_it_answers(mailbox: Mailbox) -> None:
    thread = mailbox.thread_of(mailbox.add(1, parsed("<a@x>")))
    assert add_pending(mailbox, parsed("<ours@x>", references=["<a@x>"]), "thr_promised") == thread


def test_a_promised_thread_that_is_there_already_is_joined(mailbox: Mailbox) -> None:
    thread = mailbox.thread_of(mailbox.add(1, parsed(None)))
    assert add_pending(mailbox, parsed("<ours@x>"), thread) == thread


def test_more_names_than_tell_anything_are_passed_over(store: Store, mailbox: Mailbox) -> None:
    many = parsed("<a@x>", references=[f"<{number}@x>" for number in range(1000)])
    mailbox.add(1, many)
    assert store.database.value("SELECT count(*) FROM thread_links") == 100


# --- by subject -----------------------------------------------------------------------------------------------------

DAY = 86_400


def grouped(mailbox: Mailbox, messages: dict[str, tuple[float, ParsedMessage]], order: tuple[str, ...]) -> set[str]:
    """Return the threads of messages that arrive in this order, each as the sorted names of its messages."""
    threads: dict[str, list[str]] = {}
    ids = {}
    for uid, name in enumerate(order, 1):
        days, message = messages[name]
        ids[name] = mailbox.add(uid, message, after=days * DAY)
    for name, message_id in ids.items():
        threads.setdefault(mailbox.thread_of(message_id), []).append(name)
    return {" ".join(sorted(names)) for names in threads.values()}


#: Senders, days and subjects of messages, and their threads, in whatever order they arrive.
BY_SUBJECT: dict[str, tuple[dict[str, tuple[float, ParsedMessage]], set[str]]] = {
    "a reply without references": (
        {"a": (0, parsed("<a@x>", subject="Hello")), "b": (1, parsed("<b@x>", subject="RE: hello"))},
        {"a b"},
    ),
    "two replies, and one to nobody knows what": (
        {
            "a": (0, parsed("<a@x>", subject="Hello")),
            "b": (1, parsed("<b@x>", subject="Re: Hello")),
            "c": (2, parsed("<c@x>", subject="AW: [list] Hello")),
            "d": (3, parsed("<d@x>", subject="Fwd: Hello", references=["<gone@x>"])),
        },
        {"a b c d"},
    ),
    "originals": (
        {"a": (0, parsed("<a@x>", subject="Invoice")), "b": (1, parsed("<b@x>", subject="Invoice"))},
        {"a", "b"},
    ),
    "too late": (
        {"a": (0, parsed("<a@x>", subject="Hello")), "b": (31, parsed("<b@x>", subject="Re: Hello"))},
        {"a", "b"},
    ),
    "late, but not after the last": (
        {
            "a": (0, parsed("<a@x>", subject="Hello")),
            "b": (25, parsed("<b@x>", subject="Re: Hello", in_reply_to=["<a@x>"])),
            "c": (50, parsed("<c@x>", subject="Re: Hello", in_reply_to=["<b@x>"])),
        },
        {"a b c"},
    ),
    "an original that came after the reply": (
        {"a": (5, parsed("<a@x>", subject="Hello")), "b": (1, parsed("<b@x>", subject="Re: Hello"))},
        {"a", "b"},
    ),
    "no subject": ({"a": (0, parsed("<a@x>", subject="")), "b": (1, parsed("<b@x>", subject="Re:"))}, {"a", "b"}),
    "two conversations of one subject": (
        {
            "a": (0, parsed("<a@x>", subject="Lunch")),
            "b": (1, parsed("<b@x>", subject="Re: Lunch", in_reply_to=["<a@x>"])),
            "c": (2, parsed("<c@x>", subject="Lunch")),
            "d": (3, parsed("<d@x>", subject="Re: Lunch", in_reply_to=["<c@x>"])),
        },
        {"a b", "c d"},
    ),
}
#: In some orders the last of these cannot be known: a reply arrives before the message it names.
_NEWEST_OR_OLDEST_FIRST = {"two conversations of one subject"}


@pytest.mark.parametrize("name", BY_SUBJECT)
def test_what_belongs_together_by_subject(store: Store, name: str) -> None:
    messages, expected = BY_SUBJECT[name]
    names = tuple(messages)
    orders = [names, names[::-1]] if name in _NEWEST_OR_OLDEST_FIRST else list(itertools.permutations(names))
    for order in orders:
        assert grouped(Mailbox(store), messages, order) == expected, order
        assert together(Mailbox(store), messages, order) == expected, f"{order} in one batch"


def together(mailbox: Mailbox, messages: dict[str, tuple[float, ParsedMessage]], order: tuple[str, ...]) -> set[str]:
    """Do the same for messages in one batch."""
    batch = [(fetched(uid, after=messages[name][0] * DAY), messages[name][1]) for uid, name in enumerate(order, 1)]
    ids = mailbox.store.mailbox_writer.add_headers(mailbox.folder(), batch)
    threads: dict[str, list[str]] = {}
    for name, message_id in zip(order, ids, strict=True):
        threads.setdefault(mailbox.thread_of(message_id), []).append(name)
    return {" ".join(sorted(names)) for names in threads.values()}


def test_a_reply_goes_to_the_newest_thread_of_its_subject(mailbox: Mailbox) -> None:
    mailbox.add(1, parsed("<a@x>", subject="Report"))
    second = mailbox.add(2, parsed("<b@x>", subject="Report"), after=10 * DAY)
    answer = mailbox.add(3, parsed("<c@x>", subject="Re: Report"), after=11 * DAY)
    assert mailbox.thread_of(answer) == mailbox.thread_of(second)
    # The thread has its first message, so another original begins another one.
    third = mailbox.add(4, parsed("<d@x>", subject="Report"), after=10.5 * DAY)
    assert mailbox.thread_of(third) not in (mailbox.thread_of(second), mailbox.thread_of(answer))


def test_subjects_do_not_join_mailboxes(store: Store, mailbox: Mailbox) -> None:
    other = Mailbox(store)
    first = mailbox.thread_of(mailbox.add(1, parsed("<a@x>", subject="Hello")))
    assert other.thread_of(other.add(1, parsed("<b@x>", subject="Re: Hello"), after=1)) != first


def test_a_reply_of_ours_goes_by_its_subject_too(mailbox: Mailbox) -> None:
    thread = mailbox.thread_of(mailbox.add(1, parsed("<a@x>", subject="Hello"), after=-DAY))
    assert add_pending(mailbox, parsed("<ours@x>", subject="Re: Hello"), "thr_promised") == thread
