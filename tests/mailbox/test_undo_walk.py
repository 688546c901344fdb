"""Random bulk actions, changes by another client, and undos, at a real server, judged by what the server had.

The judge knows nothing of the record that the appliance keeps. It compares what the server had before the action, after
it, before the undo and after that. A message that the action changed, and that nobody touched since, must be as before
the action; every other message must be as right before the undo.
"""

import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.mailbox.bulk import Action
from mailbox_appliance.model.messages import MessageActionResult
from tests.mailbox.rig import Done, Rig, letter
from tests.servers.dovecot import MailServer

SEEDS = range(10)
ROUNDS = 10
FOLDERS = ("INBOX", "Archive", "Drafts", "Sent", "Trash", "Work")
FLAGS = ("\\Seen", "\\Flagged", "\\Answered", "Work", "todo")
ACTIONS: tuple[Action, ...] = (
    *("markRead", "markUnread", "star", "unstar", "archive", "trash", "untrash"),
    *("move", "move", "addLabels", "removeLabels", "delete"),
)

#: Folder, UID and flags of each message at the server, by subject.
Place = tuple[str, int, frozenset[str]]
Snapshot = dict[str, Place]


@dataclass
class Step:
    """A bulk action, what the server had before and after it, and what may be restored."""

    done: Done
    before: Snapshot
    after: Snapshot
    #: The subjects of the messages that it changed for certain.
    changed: set[str]


@dataclass
class Walk:
    """One walk. `names`: the subjects by message ID."""

    rig: Rig
    chance: random.Random
    names: dict[str, str] = field(default_factory=dict)
    restored: int = 0
    left: int = 0

    def begin(self) -> None:
        """Fill the mailbox."""
        self.rig.server.make_folder(self.rig.user, "Work")
        for number in range(12):
            self.put(f"m{number}")
        self.rig.follow()
        self.names = {self.rig.id(subject): subject for subject in self.look()}

    def deliver(self, subject: str) -> None:
        """Put a message into some folder, and mirror it."""
        self.put(subject)
        self.rig.follow()
        self.names[self.rig.id(subject)] = subject

    def put(self, subject: str) -> None:
        """Put a message with some flags into some folder."""
        flags = " ".join(self.some(FLAGS))
        folder = self.chance.choice(FOLDERS[:5])
        self.rig.server.deliver(self.rig.user, letter(subject), folder=folder, flags=flags)

    def some(self, choices: tuple[str, ...]) -> list[str]:
        """Return some of these, often none."""
        return self.chance.sample(choices, self.chance.choice((0, 0, 1, 1, 2, 3)))

    def look(self) -> Snapshot:
        """Return what the server has."""
        found: Snapshot = {}
        for folder in (listed.path for listed in self.rig.direct.list_folders()):
            self.rig.direct.examine(folder)
            flags = self.rig.direct.fetch_flags()
            for one in self.rig.direct.fetch_messages(sorted(flags)):
                found[parse_message(one.source).subject] = (folder, one.uid, flags[one.uid])
        return found

    def act(self) -> Step | None:
        """Apply an action to some messages, sometimes over a connection that breaks."""
        before, action = self.look(), self.chance.choice(ACTIONS)
        ids = self.chance.sample(sorted(self.names), self.chance.randint(1, 6))
        folder = self.chance.choice(("INBOX", "Sent", "Work", "Drafts")) if action == "move" else None
        if folder is not None and self.rig.store.folders.find(self.rig.account_id, folder) is None:
            return None
        self.hurt()
        result = self.rig.act(action, ids, folder=folder, labels="todo Later" if action.endswith("Labels") else "")
        self.rig.proxy.heal()
        after = self.look()
        changed = {
            subject
            for subject in (self.names[each] for each in result.succeeded_ids)
            if action != "delete" and before.get(subject) != after.get(subject)
        }
        return Step(self.rig.done, before, after, changed)

    def hurt(self) -> None:
        """Sometimes, break the connection at the next change."""
        if self.chance.random() < 0.1:
            command = self.chance.choice(("STORE", "MOVE", "FETCH"))
            self.rig.proxy.cut_at(command, moment=self.chance.choice(("before", "after")))

    def interfere(self) -> None:
        """Change something as another client."""
        now, direct = self.look(), self.rig.direct
        subject = self.chance.choice(sorted(now))
        folder, uid, flags = now[subject]
        what = self.chance.randint(0, 9)
        if what < 4:
            flag = self.chance.choice(FLAGS)
            add, remove = ((), {flag}) if flag in flags else ({flag}, ())
            direct.store_flags(folder, [uid], add=frozenset(add), remove=frozenset(remove))
        elif what < 6:
            direct.move(folder, [uid], self.chance.choice([each for each in FOLDERS[:5] if each != folder]))
        elif what == 6:  # away and back: a new UID, and otherwise the same
            other = self.chance.choice([each for each in FOLDERS[:5] if each != folder])
            (there,) = direct.move(folder, [uid], other).values()
            assert there is not None
            direct.move(other, [there], folder)
        elif what == 7:
            direct.expunge(folder, [uid])
        elif what == 8:
            self.deliver(f"m{len(self.names)}")
        elif "Work" in {listed.path for listed in direct.list_folders()}:
            self.rig.server.doveadm("mailbox", "delete", "-u", self.rig.user, "Work")
        else:
            self.rig.server.make_folder(self.rig.user, "Work")
        if self.chance.random() < 0.4:
            self.rig.follow()

    def undo(self, step: Step) -> None:
        """Undo an action, and judge."""
        now = self.look()
        self.hurt()
        result = self.rig.undo(step.done)
        self.rig.proxy.heal()
        then = self.look()
        self.judge(step, result, now, then)

    def judge(self, step: Step, result: MessageActionResult, now: Snapshot, then: Snapshot) -> None:
        """Check every message of the mailbox."""
        failed = {self.names[each.message_id]: each.code for each in result.failed}
        restored, uncertain = (
            {self.names[each] for each in ids} for ids in (result.succeeded_ids, result.uncertain_ids)
        )
        told = [*failed, *restored, *uncertain]
        assert sorted(told) == sorted(step.changed), "each message that the action changed is named once, and no other"
        for subject in now.keys() | then.keys():
            if subject in uncertain:
                assert _state(then[subject]) in (_state(now[subject]), _state(step.before[subject]))
            elif subject in restored:
                assert _state(then[subject]) == _state(step.before[subject])
                assert _state(now[subject]) == _state(step.after[subject]), "only what is as the action left it"
            else:
                assert then.get(subject) == now.get(subject), (subject, failed.get(subject))
        for subject, code in failed.items():
            is_untouched = now.get(subject) == step.after[subject]
            excuses = {"folder_not_found", "provider_unavailable"} if is_untouched else {code}
            assert code in excuses, (subject, code)
            assert code != "folder_not_found" or step.before[subject][0] == "Work"
        self.restored += len(restored)
        self.left += len(failed)


def _state(place: Place) -> tuple[str, frozenset[str]]:
    """Return the folder and the flags, without the UID and the case of keywords."""
    folder, _, flags = place
    return folder, frozenset(flag.lower() for flag in flags)


@pytest.mark.parametrize("seed", SEEDS)
def test_only_what_is_as_the_action_left_it_is_restored(seed: int, tmp_path: Path, mail_server: MailServer) -> None:
    rig = Rig(tmp_path / "data", mail_server)
    try:
        walk = Walk(rig, random.Random(seed))
        walk.begin()
        steps: list[Step] = []
        for _ in range(ROUNDS):
            if (step := walk.act()) is not None:
                steps.append(step)
            for _ in range(walk.chance.choice((0, 1, 2, 4))):
                walk.interfere()
            while steps and walk.chance.random() < 0.7:
                walk.undo(steps.pop(walk.chance.randrange(len(steps))))
        while steps:
            walk.undo(steps.pop())
        rig.follow()
        assert rig.agrees(*(folder.path for folder in rig.store.folders.list(rig.account_id)))
        assert walk.restored
        for message_id, subject in walk.names.items():
            assert subject not in walk.look() or rig.id(subject) == message_id
    finally:
        rig.close()
