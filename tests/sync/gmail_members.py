"""Those who use an appliance with a mailbox of Gmail: they change messages, and send some, through whatever happens."""

import http.client
import random
import time
from collections import Counter

from tests.servers.gmail_mailbox import SENT, GmailMailbox, Letter, header_of
from tests.servers.running import Answer
from tests.sync.gmail_mirrored import MirroredGmail
from tests.sync.gmail_rival import LABELS

_PATIENCE = 60


class Members:
    """People at the appliance. What they ask for while it is away is lost; what they send, they insist on."""

    _ACTIONS = ("archive", "star", "unstar", "markRead", "markUnread", "addLabels", "removeLabels", "trash", "untrash")

    def __init__(self, made: MirroredGmail, seed: int) -> None:
        self._appliance, self._path, self._address = made.appliance, f"/accounts/{made.account_id}", made.user
        self._chance = random.Random(seed)
        self._seed = seed
        self.answers: list[Answer] = []
        self.sent: list[str] = []

    def act(self, count: int) -> None:
        """Do something to some messages, so many times."""
        for _ in range(count):
            folder = self._chance.choice(("inbox", "inbox", "trash", "archive"))
            listed = self._ask("GET", f"{self._path}/messages?folder={folder}&limit=50")
            ids = [each["id"] for each in listed.data["items"]] if listed and listed.status == 200 else []
            some = self._chance.sample(ids, min(len(ids), self._chance.randint(1, 4)))
            wanted = {"messageIds": some, "action": self._chance.choice(self._ACTIONS), "labels": [LABELS[0], "ours"]}
            if some and (answer := self._ask("POST", f"{self._path}/messages/actions", wanted)):
                assert answer.status != 500, answer
                self.answers.append(answer)

    def send(self, count: int) -> list[str]:
        """Send so many messages, some of them to oneself; their subjects."""
        first = len(self.sent)
        for number in range(first, first + count):
            subject = f"sent {self._seed}-{number}"
            to = self._address if number % 3 == 0 else "friend@example.test"
            body = {"to": [{"email": to}], "subject": subject, "body": {"text": "hello"}}
            key = f"gmail-proof-{self._seed}-{number}"
            answer = self._insist(f"{self._path}/send", body, key)
            assert answer.status == 200, answer
            self.sent.append(subject)
        return self.sent[first:]

    def check_sent(self, box: GmailMailbox, left_alone: list[str]) -> None:
        """None is there twice, wherever others put it; what they left alone is in Sent once."""
        everywhere = Counter(map(_subject, box.letters.values()))
        twice = [subject for subject in self.sent if everywhere[subject] > 1]
        assert not twice, f"more than once: {twice}"
        in_sent = Counter(_subject(letter) for letter in box.letters.values() if SENT in letter.labels)
        missing = [subject for subject in left_alone if not in_sent[subject]]
        assert not missing, f"not in Sent: {missing}"

    def _insist(self, path: str, body: object, key: str) -> Answer:
        end = time.monotonic() + _PATIENCE
        while (answer := self._ask("POST", path, body, key)) is None:
            assert time.monotonic() < end, "the appliance does not come back"
            time.sleep(0.05)
        return answer

    def _ask(self, method: str, path: str, body: object = None, key: str | None = None) -> Answer | None:
        """The answer, or None where the appliance is away."""
        try:
            if key is None:
                return self._appliance.ask(method, path, body)
            return self._appliance.ask(method, path, body, Idempotency_Key=key)
        except (OSError, http.client.HTTPException, ValueError):
            return None


def _subject(letter: Letter) -> str:
    return str(header_of(letter.source).get("Subject", ""))
