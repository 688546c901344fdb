"""What an operation answers, on its way to being shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mailbox_appliance.model.decoding import decode_untyped_json
from mailbox_appliance.operations.outgoing import LEFT_OUT

_encoder = msgspec.json.Encoder()


def plain(data: Any) -> Any:
    """An answer's data as JSON has it."""
    return decode_untyped_json(_encoder.encode(data))


def without_headers(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as tools show it: its header fields stay out, and its body comes by itself, part by part."""
    return {name: value for name, value in message.items() if name not in ("headers", "body")}


def parted(warnings: Sequence[str]) -> tuple[list[str], list[str]]:
    """Warnings in our words alone, and those that may quote a sender: the address that an answer goes to is theirs."""
    quoting = [one for one in warnings if "@" in one or one.startswith(LEFT_OUT)]
    return [one for one in warnings if one not in quoting], quoting
