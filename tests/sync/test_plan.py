"""Carrying out a plan makes both sides equal, and then there is nothing left to plan, whatever happened in between."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mailbox_appliance.model.sync import FlagChange, FolderChanges, FolderState
from mailbox_appliance.sync.plan import (
    ChangeFlags,
    FetchMessages,
    FolderMirror,
    RemoveMessages,
    ResetFolder,
    Step,
    is_settled,
    may_be_news,
    nothing_known,
    plan,
)

FLAGS = st.frozensets(st.sampled_from(["\\Seen", "\\Flagged", "$Work"]))
NOTHING: frozenset[str] = frozenset()


@dataclass
class Server:
    """A folder as a server keeps it, and what it tells, by each of the three ways to ask."""

    offers: str  # "qresync", "condstore" or "nothing"
    uidvalidity: int = 1
    uidnext: int = 1
    modseq: int = 1
    flags: dict[int, frozenset[str]] = field(default_factory=dict)
    changed_at: dict[int, int] = field(default_factory=dict)
    vanished_at: dict[int, int] = field(default_factory=dict)

    def touch(self, uid: int, flags: frozenset[str] | None) -> None:
        self.modseq += 1
        if flags is None:
            del self.flags[uid]
            self.vanished_at[uid] = self.modseq
        else:
            self.flags[uid] = flags
            self.changed_at[uid] = self.modseq

    def resettle(self) -> None:
        self.uidvalidity += 1
        self.flags = dict(enumerate(self.flags.values(), start=1))
        self.uidnext = len(self.flags) + 1
        self.changed_at, self.vanished_at = dict.fromkeys(self.flags, self.modseq), {}

    @property
    def state(self) -> FolderState:
        modseq = None if self.offers == "nothing" else self.modseq
        return FolderState(self.uidvalidity, self.uidnext, len(self.flags), modseq)

    def news(self, since: FolderState | None, known: int) -> FolderChanges:
        is_same = since is not None and since.uidvalidity == self.uidvalidity
        position = since.highestmodseq if since is not None and is_same else None
        if position is None or self.offers == "nothing":
            return FolderChanges(self.state, dict(self.flags), present=frozenset(self.flags))
        changed = {uid: flags for uid, flags in self.flags.items() if self.changed_at[uid] > position}
        if self.offers == "qresync":
            # RFC 7162 3.2.10: more may be named than what vanished since.
            return FolderChanges(self.state, changed, frozenset(self.vanished_at))
        new = sum(since is not None and uid >= since.uidnext for uid in self.flags)
        present = None if known + new == len(self.flags) else frozenset(self.flags)
        return FolderChanges(self.state, changed, present=present)


@dataclass
class Mirror:
    """What we have, and the steps as `folder` carries them out: the position is noted after the last."""

    state: FolderState | None = None
    flags: dict[int, frozenset[str]] = field(default_factory=dict)

    def catch_up(self, server: Server, most: int | None = None) -> tuple[Step, ...]:
        news = server.news(self.state, len(self.flags))
        spoken_of = news.changed.keys() | news.vanished
        some = {uid: flags for uid, flags in self.flags.items() if news.present is not None or uid in spoken_of}
        steps = plan(FolderMirror(self.state, some), news)
        for step in steps[:most]:
            self.carry_out(step, server)
        if most is None or most >= len(steps):
            self.state = news.state
        return steps

    def carry_out(self, step: Step, server: Server) -> None:
        match step:
            case ResetFolder():
                self.state, self.flags = step.state, {}
            case RemoveMessages():
                for uid in step.uids:
                    del self.flags[uid]
            case ChangeFlags():
                for change in step.changes:
                    assert self.flags[change.uid] != change.flags
                    self.flags[change.uid] = change.flags
            case FetchMessages():
                assert list(step.uids) == sorted(step.uids, reverse=True)
                for uid in step.uids:
                    assert uid not in self.flags
                    self.flags[uid] = server.flags[uid]


class History(RuleBasedStateMachine):
    """A folder in which things happen, while a mirror catches up, now and then only half."""

    @initialize(offers=st.sampled_from(["qresync", "condstore", "nothing"]), count=st.integers(0, 4))
    def begin(self, offers: str, count: int) -> None:
        self.server, self.mirror = Server(offers), Mirror()
        for _ in range(count):
            self.arrive(NOTHING)

    @rule(flags=FLAGS)
    def arrive(self, flags: frozenset[str]) -> None:
        self.server.uidnext += 1
        self.server.touch(self.server.uidnext - 1, flags)

    @precondition(lambda self: self.server.flags)
    @rule(data=st.data(), flags=FLAGS | st.none())
    def change_or_go(self, data: st.DataObject, flags: frozenset[str] | None) -> None:
        self.server.touch(data.draw(st.sampled_from(sorted(self.server.flags))), flags)

    @rule()
    def resettle(self) -> None:
        self.server.resettle()

    @rule(after=st.integers(0, 3))
    def break_off(self, after: int) -> None:
        self.mirror.catch_up(self.server, after)

    @rule()
    def catch_up(self) -> None:
        self.mirror.catch_up(self.server)
        assert self.mirror.flags == self.server.flags
        assert self.mirror.catch_up(self.server) == ()

    @invariant()
    def what_is_taken_for_unchanged_is(self) -> None:
        if not may_be_news(self.mirror.state, self.server.state):
            assert self.mirror.flags == self.server.flags


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)

uids = st.integers(1, 12)
states = st.builds(
    FolderState, st.integers(1, 2), st.integers(1, 20), st.integers(0, 12), st.none() | st.integers(1, 9)
)


@settings(max_examples=60)
@given(
    st.builds(FolderMirror, st.none() | states, st.dictionaries(uids, FLAGS)),
    st.builds(
        FolderChanges, states, st.dictionaries(uids, FLAGS), st.frozensets(uids), st.none() | st.frozensets(uids)
    ),
)
def test_news_that_contradict_themselves_are_planned_once(have: FolderMirror, news: FolderChanges) -> None:
    done = Mirror(have.state, dict(have.flags))
    there = dict.fromkeys(news.present or (), NOTHING) | dict(news.changed)
    server = Server("nothing", flags=there)
    for step in plan(have, news):
        done.carry_out(step, server)
    assert plan(FolderMirror(news.state, done.flags), news) == ()


def test_one_of_each() -> None:
    state, seen = FolderState(7, 10, 3), frozenset({"\\Seen"})
    have = FolderMirror(state, {1: NOTHING, 2: NOTHING, 3: seen})
    there = {2: seen, 3: seen, 8: NOTHING, 9: NOTHING}
    steps = (RemoveMessages((1,)), ChangeFlags((FlagChange(2, seen),)), FetchMessages((9, 8)))
    assert plan(have, FolderChanges(state, there, present=frozenset(there))) == steps
    assert plan(have, FolderChanges(state, {2: seen, 8: NOTHING, 9: NOTHING}, vanished=frozenset({1, 4}))) == steps


def test_what_is_there_and_was_lost_here_is_taken_in_again() -> None:
    state = FolderState(7, 10, 3, 5)
    assert plan(FolderMirror(state, {1: NOTHING}), FolderChanges(state, {}, present=frozenset({1, 2}))) == (
        FetchMessages((2,)),
    )


def test_another_uidvalidity_knows_nothing() -> None:
    have = FolderMirror(FolderState(7, 10, 1), {1: NOTHING})
    news = FolderChanges(FolderState(8, 2, 1, 44), {1: NOTHING}, present=frozenset({1}))
    assert plan(have, news) == (ResetFolder(FolderState(8, 1, 0, None)), FetchMessages((1,)))


def test_what_counts_as_news() -> None:
    reached, plain = FolderState(7, 10, 3, 55), FolderState(7, 10, 3)
    table = [
        (reached, reached, False, False),
        (reached, FolderState(8, 10, 3, 55), True, True),
        (reached, FolderState(7, 11, 3, 55), True, True),
        (reached, FolderState(7, 10, 2, 55), True, True),
        (reached, FolderState(7, 10, 3, 56), True, True),
        (reached, plain, True, True),
        (plain, plain, True, False),  # a server that tells no positions
        (FolderState(0, 10, 3, 55), FolderState(0, 10, 3, 55), True, False),
        (None, reached, True, True),
    ]
    for before, state, thorough, quick in table:
        assert (may_be_news(before, state), may_be_news(before, state, thorough=False)) == (thorough, quick), state


def test_what_is_settled() -> None:
    reached = FolderState(7, 10, 3, 55)
    assert [is_settled(state) for state in (None, nothing_known(reached), reached)] == [False, False, True]
