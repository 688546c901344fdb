from typing import Annotated

import msgspec
import pytest

from mailbox_appliance.mail.address import (
    EMAIL_PATTERN,
    domain_of,
    has_forbidden_characters,
    needs_smtputf8,
    same_mailbox,
    to_envelope_address,
)


class Email(msgspec.Struct):
    email: Annotated[str, msgspec.Meta(pattern=EMAIL_PATTERN)]


@pytest.mark.parametrize(
    ("email", "envelope"),
    [
        ("a@b", "a@b"),
        ("Ann.Lee+x@Example.COM", "Ann.Lee+x@example.com"),
        ("o'neil_{}|~!#$%&*/=?^`@x.example", "o'neil_{}|~!#$%&*/=?^`@x.example"),
        ("a@r3---sn.example", "a@r3---sn.example"),
        ("a@müller.example", "a@xn--mller-kva.example"),
        ("a@BÜCHER.example", "a@xn--bcher-kva.example"),
        ("a@xn--mller-kva.example", "a@xn--mller-kva.example"),
        ("用户@例子.example", "用户@xn--fsqu00a.example"),
        ("😀@x.example", "😀@x.example"),
        ("a@my_host.Example", "a@my_host.example"),
        ("a@_dmarc.x", "a@_dmarc.x"),
        ("l" * 64 + "@x.example", "l" * 64 + "@x.example"),
    ],
)
def test_accepted(email: str, envelope: str) -> None:
    msgspec.convert({"email": email}, Email)
    assert to_envelope_address(email) == envelope


@pytest.mark.parametrize(
    "email",
    [
        "",
        "a",
        "@b",
        "a@",
        "a@b@c",
        "a b@c",
        "a@b c",
        "a@b\n",
        "a@b\r",
        "\na@b",
        "a\0@b",
        "a\tb@c",
        "<a@b>",
        "a@b,c@d",
        "a,b@c",
        "a@.b",
        "a@b.",
        "a@b..c",
        'a"b@c',
        '"a b"@c',
        "a(b)@c",
        "a;b@c",
        "a:b@c",
        "a\\b@c",
        "a@[1.2.3.4]",
        "a@b/c",
        "a@b\u2028",
        "a\u200b@b",
        "a\u202eb@c",
        "a\u00a0b@c",
        "l" * 65 + "@x",
        "a@" + "d." * 130 + "x",
        "a\x85@b",
        "a\x7f@b",
    ],
)
def test_refused_by_the_pattern(email: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"email": email}, Email)
    with pytest.raises(ValueError):
        to_envelope_address(email)


@pytest.mark.parametrize(
    ("email", "envelope"),
    [
        ("a.@docomo.example", '"a."@docomo.example'),
        (".a@x.example", '".a"@x.example'),
        ("a..b@x.example", '"a..b"@x.example'),
        ('"a..b"@x.example', '"a..b"@x.example'),
        ('"a.b"@x.example', "a.b@x.example"),
    ],
)
def test_dots_in_wrong_places_are_not_asked_for_but_can_be_answered(email: str, envelope: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"email": email}, Email)
    assert to_envelope_address(email) == envelope
    assert same_mailbox(email, envelope)


@pytest.mark.parametrize(
    "email",
    [
        "a@-b.example",
        "a@b-.example",
        "a@" + "d" * 64,
        "a@ü" + "d" * 63,
        "ü" * 33 + "@b",
        "a@" + ("ü" * 20 + ".") * 11 + "x",
        "a@ü-.example",
        "=?x?Q?=0A?=@b",
        '"a b"@b',
        '"a\\"b"@b',
        '"@b',
        '""@b',
        "...@b",
        "." + "l" * 62 + "@b",  # too long with its quotes
        "." * 5_000 + '"@b',
    ],
)
def test_refused_in_smtp(email: str) -> None:
    with pytest.raises(ValueError):
        to_envelope_address(email)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("A@B.example", "a@b.EXAMPLE", True),
        ("a@müller.example", "A@xn--mller-kva.example", True),
        ("é@x", "e\u0301@x", True),
        ("a@b", "b@b", False),
        ("a@b", "a@c", False),
        ("a.b@c", "ab@c", False),
        ("nonsense", "NONSENSE", True),
    ],
)
def test_same_mailbox(first: str, second: str, same: bool) -> None:
    assert same_mailbox(first, second) == same


def test_only_a_local_part_needs_smtputf8() -> None:
    assert [needs_smtputf8(email) for email in ("a@b", "a@ü", "ü@b")] == [False, False, True]
    assert domain_of("a@b@c.example") == "c.example"


@pytest.mark.parametrize(
    ("text", "forbidden"),
    [
        ("Grüße 🎉 =?", False),
        ("a\tb", False),
        ("=?utf-8?Q?fine_=3D?=", False),
        ("=?utf-8?B?ZmluZQ==?=", False),
        ("=?x?y?z?=", False),
        ("a\rb", True),
        ("a\nb", True),
        ("a\0b", True),
        ("a\x1bb", True),
        ("a\x7fb", True),
        ("a\x85b", True),
        ("a\u2028b", True),
        ("a\u2029b", True),
        ("a\ud800b", True),
        ("x =?utf-8?Q?=0A?= y", True),
        ("=?utf-8?q?a=0dB?=", True),
        ("=?utf-8?Q?=00?=", True),
        ("=?utf-8?B?Cg==?=", True),
        ("=?utf-8?B?Cg?=", True),
        ("=?utf-8?b? C g ?=", True),
        ("=?utf-7?Q?+AAo-?=", True),
        ("=?utf-16le?B?CgA=?=", True),
        ("=?utf-8*en?Q?=0A?=", True),
        ("=?nonsense?Q?=0A?=", True),
        ("=?utf-8?Q?ok?==?utf-8?Q?=0A?=", True),
        ("=?utf-8?Q?=E2=80=A8?=", True),
    ],
)
def test_forbidden_in_header_fields(text: str, forbidden: bool) -> None:
    assert has_forbidden_characters(text) == forbidden
