"""Carrying out a plan makes both sides equal, and then there is nothing left to plan."""

from hypothesis import given, settings
from hypothesis import strategies as st

from mailbox_appliance.records import FlagChange, FolderState
from mailbox_appliance.sync.plan import (
    ChangeFlags,
    Fetch,
    FolderMirror,
    Remove,
    Reset,
    ServerFolder,
    Step,
    is_unchanged,
    plan,
)

uids = st.integers(1, 12)
flag_sets = st.frozensets(st.sampled_from(["\\Seen", "\\Flagged", "$Work"]))
contents = st.dictionaries(uids, flag_sets)
states = st.builds(
    FolderState, st.integers(1, 3), st.integers(1, 20), st.integers(0, 12), st.none() | st.integers(1, 9)
)
mirrors = st.builds(FolderMirror, st.none() | states, contents)
servers = st.builds(ServerFolder, states, contents)


def carry_out(have: FolderMirror, server: ServerFolder, steps: tuple[Step, ...]) -> FolderMirror:
    state, flags = have.state, dict(have.flags)
    for step in steps:
        match step:
            case Reset():
                state, flags = step.state, {}
            case Remove():
                for uid in step.uids:
                    del flags[uid]
            case ChangeFlags():
                for change in step.changes:
                    assert change.uid in flags
                    flags[change.uid] = change.flags
            case Fetch():
                for uid in step.uids:
                    assert uid not in flags
                    flags[uid] = server.flags[uid]
    return FolderMirror(state, flags)


@settings(max_examples=60)
@given(mirrors, servers)
def test_the_steps_make_equal_and_then_nothing_is_left(have: FolderMirror, server: ServerFolder) -> None:
    done = carry_out(have, server, plan(have, server))
    assert done.flags == server.flags
    assert done.state is not None
    assert done.state.uidvalidity == server.state.uidvalidity
    assert plan(done, server) == ()


@settings(max_examples=60)
@given(mirrors, servers, st.integers(0, 4))
def test_a_plan_that_was_broken_off_is_taken_up(have: FolderMirror, server: ServerFolder, after: int) -> None:
    partly = carry_out(have, server, plan(have, server)[:after])
    assert carry_out(partly, server, plan(partly, server)).flags == server.flags
    assert not is_unchanged(partly.state, server.state) or partly.state == have.state


@settings(max_examples=60)
@given(mirrors, servers)
def test_the_newest_come_first(have: FolderMirror, server: ServerFolder) -> None:
    fetched = [uid for step in plan(have, server) if isinstance(step, Fetch) for uid in step.uids]
    assert fetched == sorted(fetched, reverse=True)


def test_one_of_each() -> None:
    state = FolderState(7, 10, 3)
    have = FolderMirror(state, {1: frozenset(), 2: frozenset(), 3: frozenset({"\\Seen"})})
    server = ServerFolder(state, {2: frozenset({"\\Seen"}), 3: frozenset({"\\Seen"}), 8: frozenset(), 9: frozenset()})
    assert plan(have, server) == (
        Remove((1,)),
        ChangeFlags((FlagChange(2, frozenset({"\\Seen"})),)),
        Fetch((9, 8)),
    )


def test_another_uidvalidity_forgets_everything() -> None:
    have = FolderMirror(FolderState(7, 10, 1), {1: frozenset()})
    server = ServerFolder(FolderState(8, 2, 1, 44), {1: frozenset()})
    assert plan(have, server) == (Reset(FolderState(8, 1, 0, None)), Fetch((1,)))


def test_what_counts_as_unchanged() -> None:
    reached = FolderState(7, 10, 3, 55)
    table = [
        (reached, True),
        (FolderState(8, 10, 3, 55), False),
        (FolderState(7, 11, 3, 55), False),
        (FolderState(7, 10, 2, 55), False),
        (FolderState(7, 10, 3, 56), False),
        (FolderState(7, 10, 3, None), False),
    ]
    assert [is_unchanged(reached, state) for state, _ in table] == [expected for _, expected in table]
    assert not is_unchanged(None, reached)
    assert not is_unchanged(FolderState(7, 10, 3), FolderState(7, 10, 3))  # a server that tells no positions
