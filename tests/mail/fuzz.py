"""Damage the hard messages at random, and check the results of reading them against rules that must always hold.

A message is identified by the seed of the run and its number, and can be created again from these.
"""

import argparse
import random
import resource
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mailbox_appliance.mail.html.analysis import Form, extract_visible
from mailbox_appliance.mail.parse import attachment_bytes, parse_message
from mailbox_appliance.model.messages import ParsedMessage
from tests.mail.test_corpus import CASES
from tests.mail.test_parse import BITS, sound

FORMS: tuple[Form, ...] = ("text", "markdown", "html")
LONGEST_SECONDS = 1.0  # processor time for one message
MOST_MEMORY = 64 << 20  # bytes by which a run may grow the process
_LONGEST_SOURCE = 100_000  # bytes of a damaged message; longer ones would only be slow
_HANGING = 20  # seconds of processor time

SOURCES = [case.source for case in CASES if len(case.source) <= _LONGEST_SOURCE]
TOKENS = [
    *BITS,
    *(b"\r\n\r\n", b"\r", b"\n", b"\r\n ", b"\t", b"--b\r\n", b"--b--\r\n", b"boundary=b", b'boundary=""', b"\\", b">"),
    *(b"Content-Type: multipart/mixed; boundary=b\r\n\r\n", b"Content-Type: message/rfc822\r\n\r\n", b"text/html"),
    *(b"Content-Transfer-Encoding: base64\r\n", b"Content-Transfer-Encoding: quoted-printable\r\n", b"format=flowed"),
    *(b"=?utf-8?B?", b"=?iso-2022-jp?B?", b"filename*0*=", b"name*1=", b"utf-8''", b"%", b"=\r\n", b"&#x0;", b"<!--"),
    *(b"<a href='", b"<style>", b"display:none", b"charset=utf-32", b"charset=iso-2022-kr", b"charset=hz", b"@", b","),
]  # fmt: skip
_packer = msgspec.msgpack.Decoder(ParsedMessage)


@dataclass
class Worst:
    """The slowest message so far."""

    seconds: float = 0.0
    number: int = -1
    size: int = 0


def message(seed: int, number: int) -> bytes:
    """Return a damaged message."""
    dice = random.Random(f"{seed}.{number}")
    source = bytearray(dice.choice(SOURCES))
    for _ in range(dice.choice((1, 1, 2, 3, 5, 10, 30))):
        dice.choice(MUTATIONS)(source, dice)
    return bytes(source)


def _flip(source: bytearray, dice: random.Random) -> None:
    if source:
        source[dice.randrange(len(source))] ^= 1 << dice.randrange(8)


def _cut(source: bytearray, dice: random.Random) -> None:
    at = _place(source, dice)
    del source[at : at + dice.choice((1, 2, 10, 100, 10_000))]


def _insert(source: bytearray, dice: random.Random) -> None:
    at = _place(source, dice)
    source[at:at] = dice.choice(TOKENS) * dice.choice((1, 1, 1, 2, 50))


def _replace(source: bytearray, dice: random.Random) -> None:
    at, token = _place(source, dice), dice.choice(TOKENS)
    source[at : at + len(token)] = token


def _repeat(source: bytearray, dice: random.Random) -> None:
    at = _place(source, dice)
    piece = bytes(source[at : at + dice.choice((1, 5, 50, 500, 5000))])
    source[at:at] = piece * min(dice.choice((1, 2, 10, 1000)), 200_000 // (len(piece) or 1))


def _move(source: bytearray, dice: random.Random) -> None:
    at = _place(source, dice)
    piece = source[at : at + dice.choice((5, 50, 500))]
    del source[at : at + len(piece)]
    to = _place(source, dice)
    source[to:to] = piece


def _swap_lines(source: bytearray, dice: random.Random) -> None:
    lines = source.split(b"\r\n")
    first, second = dice.randrange(len(lines)), dice.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    source[:] = b"\r\n".join(lines)


def _change_boundaries(source: bytearray, dice: random.Random) -> None:
    old, new = dice.choice(((b"--b", b"--c"), (b"boundary=b", b"boundary=a"), (b"--a", b"--b"), (b"--b--", b"--b")))
    source[:] = source.replace(old, new, dice.choice((1, -1)))


def _change_line_breaks(source: bytearray, dice: random.Random) -> None:
    source[:] = source.replace(b"\r\n", dice.choice((b"\n", b"\r", b"\n\r", b"\r\r\n", b"\0")), dice.choice((1, -1)))


def _change_encoding(source: bytearray, dice: random.Random) -> None:
    names = (b"base64", b"quoted-printable", b"8bit", b"x-new")
    source[:] = source.replace(dice.choice(names), dice.choice(names))


def _change_charset(source: bytearray, dice: random.Random) -> None:
    names = (
        b"utf-8",
        b"us-ascii",
        b"iso-2022-jp",
        b"utf-16",
        b"utf-7",
        b"gb2312",
        b"hz-gb-2312",
        b"windows-1252",
        b"x",
    )
    source[:] = source.replace(dice.choice(names), dice.choice(names))


def _wrap(source: bytearray, dice: random.Random) -> None:
    head = dice.choice(
        (b"Content-Type: multipart/mixed; boundary=w\r\n\r\n--w\r\n", b"Content-Type: message/rfc822\r\n\r\n")
    )
    source[:0] = head * dice.choice((1, 1, 10, 150))


def _join(source: bytearray, dice: random.Random) -> None:
    other = dice.choice(SOURCES)[:20_000]
    at = _place(source, dice)
    source[at:] = other[dice.randrange(len(other) + 1) :]


def _place(source: bytearray, dice: random.Random) -> int:
    """Return a position, often in the header, which holds most of the content that is read."""
    return dice.randrange(min(len(source), dice.choice((100, 500, len(source)))) + 1)


MUTATIONS = (
    *(_flip, _cut, _insert, _insert, _replace, _repeat, _move, _swap_lines, _change_boundaries, _change_line_breaks),
    *(_change_encoding, _change_charset, _wrap, _join),
)


def check(source: bytes) -> None:
    """Read a message. Raises AssertionError if the result breaks a rule."""
    read = parse_message(source)
    sound(read)
    assert _packer.decode(msgspec.msgpack.encode(read)) == read  # as the parsing process returns it
    assert len(read.attachments) <= 1000
    assert len(read.snippet) <= 201
    for form in FORMS if read.html else ():
        extract_visible(read.html or "", form)[0].encode()  # no lone surrogates
    for listed in read.attachments[:3]:
        assert len(attachment_bytes(source, listed.part) or b"") == listed.size_bytes


def run(seed: int, numbers: Sequence[int]) -> tuple[Worst, int]:
    """Read these messages. Returns the slowest one, and by how many bytes the process grew. Raises AssertionError with
    the number of the message.
    """
    signal.signal(signal.SIGVTALRM, _hangs)
    worst, before = Worst(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in numbers:
        source = message(seed, number)
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, _HANGING)
        try:
            parse_message(source)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            seconds = time.process_time() - start
            check(source)
        except Exception as error:
            raise AssertionError(f"seed {seed}, message {number}: {error!r}") from error
        if seconds > worst.seconds:
            worst = Worst(seconds, number, len(source))
    return worst, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def main(arguments: Sequence[str]) -> int:
    """Run `scripts/fuzz`. Returns 0 if all messages were read within bounds."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="Reads damaged messages.")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one message, written to `fuzzed.eml`, then read")
    options = parser.parse_args(arguments)
    numbers = range(options.count) if options.only is None else [options.only]
    if options.only is not None:
        Path("fuzzed.eml").write_bytes(message(options.seed, options.only))
    run(options.seed, range(min(200, options.count)))  # loads tables and caches
    start = time.monotonic()
    worst, growth = run(options.seed, numbers)
    print(
        f"{len(numbers)} messages in {time.monotonic() - start:.0f} s; the slowest, number {worst.number} of"
        f" {worst.size} bytes, took {worst.seconds:.3f} s; the process grew by {growth / (1 << 20):.1f} MiB"
    )
    return 0 if worst.seconds <= LONGEST_SECONDS and growth <= MOST_MEMORY else 1


def _hangs(*_: object) -> None:
    raise TimeoutError(f"not read within {_HANGING} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
