"""The child process of `sync.parser`: sources come in on stdin, what they say goes out on stdout.

A batch is a count, then each source behind its length. For each source the answer is a ParsedMessage as MessagePack,
behind its length; a length of 0 says that it could not be read. Counts and lengths are four bytes, the highest first.
It knows no store and no server, and ends when its stdin ends.
"""

import os
import struct
import sys
from typing import IO

import msgspec

from mailbox_appliance.mail.parse import parse
from mailbox_appliance.mail.searched import with_words
from mailbox_appliance.records import ParsedMessage

NUMBER = struct.Struct(">I")

_encoder = msgspec.msgpack.Encoder()


def main() -> None:
    """Answer batches until stdin ends. What fails is told on stderr without its text, which may quote a message."""
    answers = sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing but answers goes to stdout
    try:
        serve(sys.stdin.buffer, answers)
    except (EOFError, BrokenPipeError):
        pass
    except BaseException as error:  # noqa: BLE001 - the interpreter would print its text
        print(f"the parsing process ended with {type(error).__name__}", file=sys.stderr)  # noqa: T201
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer batch after batch. Raises EOFError when there is no more."""
    while True:
        sources = [read_block(requests) for _ in range(read_number(requests))]
        sources.reverse()
        while sources:
            write_block(answers, _answer(sources.pop()))
        answers.flush()


def read(source: bytes) -> ParsedMessage:
    """What a message says, and what is searched of it."""
    return with_words(parse(source))


def _answer(source: bytes) -> bytes:
    try:
        return _encoder.encode(read(source))
    except Exception:  # noqa: BLE001 - the appliance reads this one again, and logs what goes wrong
        return b""


def read_number(stream: IO[bytes]) -> int:
    """A count or length. Raises EOFError."""
    raw = stream.read(NUMBER.size)
    if len(raw) < NUMBER.size:
        raise EOFError
    number: int = NUMBER.unpack(raw)[0]
    return number


def read_block(stream: IO[bytes]) -> bytes:
    """Bytes behind their length. Raises EOFError."""
    length = read_number(stream)
    block = stream.read(length)
    if len(block) < length:
        raise EOFError
    return block


def write_block(stream: IO[bytes], block: bytes) -> None:
    """Bytes behind their length."""
    stream.write(NUMBER.pack(len(block)))
    stream.write(block)


if __name__ == "__main__":
    main()
