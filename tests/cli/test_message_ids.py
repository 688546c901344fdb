"""How many messages one command is about."""

import io

import pytest

from mailbox_appliance.cli.inputs import MAX_MESSAGES, read_messages
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.client.errors import Failure


def test_ten_thousand_messages_and_no_more() -> None:
    terminal = Terminal(io.BytesIO(), io.StringIO(), io.StringIO())
    named = tuple(f"m{number}" for number in range(MAX_MESSAGES))
    assert len(read_messages(terminal, (*named, "m0"), None)) == MAX_MESSAGES == 10_000  # each counts once
    with pytest.raises(Failure):
        read_messages(terminal, (*named, "m"), None)
