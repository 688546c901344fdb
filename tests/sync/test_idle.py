"""What a server tells in IDLE: all of it is heeded that may be news, and nothing makes us ask without an end."""

import re
import time

import pytest

from mailbox_appliance.store.store import Store
from tests.remote.odd_server import Peer, odd_server
from tests.sync.mirrored import Mirror, connection_to_port, source


class _Inbox:
    """A server with an inbox, and what it tells as each IDLE begins; afterwards nothing."""

    def __init__(self, told: list[str]) -> None:
        self.told, self.idles, self.messages = told, 0, 0

    def play(self, peer: Peer) -> None:
        """For one client."""
        peer.log_in()
        while command := peer.hear():
            tag, _, command = command.partition(" ")
            if command == "IDLE":
                self._idle(peer)
            elif not command:
                return
            else:
                peer.say(*self._answers(command))
            peer.say(f"{tag} OK done")

    def _idle(self, peer: Peer) -> None:
        told = self.told[self.idles] if self.idles < len(self.told) else ""
        self.idles += 1
        self.messages = 1 if told == "* 1 EXISTS" else self.messages
        peer.say("+ idling", *([told] if told else []))
        assert peer.hear() in ("DONE", "")

    def _answers(self, command: str) -> list[str | bytes]:
        numbers = f"{self.messages} EXISTS", "OK [UIDVALIDITY 7] so", f"OK [UIDNEXT {self.messages + 1}] so"
        if command.startswith("LIST"):
            return ['* LIST () "/" INBOX']
        if command.startswith("STATUS"):
            return [f"* STATUS INBOX (MESSAGES {self.messages} UIDNEXT {self.messages + 1} UIDVALIDITY 7)"]
        if command.startswith(("EXAMINE", "SELECT")):
            return [f"* {each}" for each in numbers]
        if found := re.match("UID FETCH .*?(BODY.PEEK(.*?\\]))?(<.*>)?\\)$", command) if self.messages else None:
            return self._message(found[2])
        return []

    def _message(self, section: str | None) -> list[str | bytes]:
        begin = '* 1 FETCH (UID 1 FLAGS () INTERNALDATE "01-Jan-2024 00:00:00 +0000" RFC822.SIZE 90'
        if section is None:
            return [f"{begin})"]
        text = source("new")
        return [f"{begin} BODY{section} {{{len(text)}}}", text + b")\r\n"]


def test_what_is_told_as_idle_begins_is_heeded_also_after_a_false_alarm(store: Store) -> None:
    inbox = _Inbox(["* 0 EXISTS", "* 1 EXISTS"])
    with odd_server(inbox.play) as port:
        mirror = Mirror(store, connection_to_port(port), sync__poll_interval=600)
        with mirror.running(is_ready=False):
            mirror.wait_for(lambda: "new" in mirror.messages(), "the new mail")


@pytest.mark.parametrize("told", ["* 0 EXISTS", "* 5 EXISTS"])
def test_a_server_that_repeats_itself_is_not_asked_again_and_again(store: Store, told: str) -> None:
    inbox = _Inbox([told] * 1000)
    with odd_server(inbox.play) as port:
        mirror = Mirror(store, connection_to_port(port), sync__poll_interval=600)
        with mirror.running(is_ready=False):
            mirror.wait_for(lambda: inbox.idles >= 2, "the second IDLE")
            time.sleep(0.1)
            assert inbox.idles == 2
