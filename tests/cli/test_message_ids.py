"""How many messages one command is about."""

import io

import pytest

from mailbox_appliance.cli.message_ids import MOST, chosen
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.client.errors import Failure


def test_ten_thousand_messages_and_no_more() -> None:
    terminal = Terminal(io.BytesIO(), io.StringIO(), io.StringIO())
    named = tuple(f"m{number}" for number in range(MOST))
    assert len(chosen(terminal, (*named, "m0"), None)) == MOST == 10_000  # each counts once
    with pytest.raises(Failure):
        chosen(terminal, (*named, "m"), None)
