import pytest

from mailbox_appliance.mail.threads import (
    canonical_message_id,
    exact_message_ids,
    forward_subject,
    message_ids,
    reply_references,
    reply_subject,
    subject_key,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a@b>", "a@b"),
        ("<A@B>", "a@b"),
        (" <a@b> (comment)", "a@b"),
        ("a@b", "a@b"),
        ("<a\r\n @b>", "a@b"),
        ('<"A"@b>', "a@b"),
        ('<"a\\"b"@c>', 'a"b@c'),
        ("<no-at>", "no-at"),
        ("<>", None),
        ("", None),
        ("  ", None),
    ],
)
def test_canonical_message_id(text: str, expected: str | None) -> None:
    assert canonical_message_id(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a@b> <c@d>", ("<a@b>", "<c@d>")),
        ("<a@b><c@d>,<a@b>", ("<a@b>", "<c@d>")),
        ("<a\r\n\t@b>", ("<a@b>",)),
        ("Your message of Monday <a@b> by x@y", ("<a@b>",)),
        ("a@b c@d", ("<a@b>", "<c@d>")),
        ("<> < >", ()),
        ("nothing", ()),
        ("", ()),
        ("<" * 100 + "a@b>", ("<a@b>",)),
    ],
)
def test_message_ids(text: str, expected: tuple[str, ...]) -> None:
    assert message_ids(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<a@b> <c@d>,<a@b>", ("<a@b>", "<c@d>")),
        ("<  a@b\r\n > <c@d>", ("<a@b>", "<c@d>")),
        ("<a b@c> <d@e>", ("<d@e>",)),
        ("<a\r\n\t@b>", ()),
        ("a@b, c@d", ("<a@b>", "<c@d>")),
        ("<> < >", ()),
    ],
)
def test_message_ids_to_be_written(text: str, expected: tuple[str, ...]) -> None:
    assert exact_message_ids(text) == expected


@pytest.mark.parametrize(
    ("subject", "base"),
    [
        ("hello", "hello"),
        ("=?utf-8?Q?Re=3A_Gr=C3=BC=C3=9Fe?=", "Grüße"),  # step 1
        ("a\t b\r\n  c", "a b c"),
        ("hello (fwd) (FWD)  ", "hello"),  # step 2
        ("Re: hello", "hello"),  # step 3
        ("RE : re:Fw: FWD: hello", "hello"),
        ("Re[2]: hello", "hello"),
        ("[list] Re: [list] hello", "hello"),
        ("[list] hello", "hello"),  # step 4
        ("[list]", "[list]"),
        ("[a] [b] hello", "hello"),  # step 5
        ("[a] Re: [b] Fwd: hello (fwd)", "hello"),
        ("[fwd: Re: hello]", "hello"),  # step 6
        ("[Fwd: [fwd: hello (fwd)]]", "hello"),
        ("[fwd: hello] more", "[fwd: hello] more"),
        ("AW: WG: SV: hello", "hello"),
        ("Re：hello", "hello"),
        ("Regarding: hello", "Regarding: hello"),
        ("Re:", ""),
        ("", ""),
        ("[" * 5000, "[" * 2000),
    ],
)
def test_base_subject(subject: str, base: str) -> None:
    assert subject_key(subject)[0] == base.casefold()


@pytest.mark.parametrize(
    ("subject", "is_reply"),
    [
        ("hello", False),
        (" hello  you ", False),
        ("[list] hello", False),
        ("Regarding: hello", False),
        ("", False),
        ("Re: hello", True),
        ("[list] re: hello", True),
        ("=?utf-8?Q?AW=3A_Gr=C3=BC=C3=9Fe?=", True),
        ("hello (fwd) ", True),
        ("[Fwd: hello]", True),
        ("Re:", True),
    ],
)
def test_the_subject_of_a_reply(subject: str, is_reply: bool) -> None:
    assert subject_key(subject)[1] == is_reply


@pytest.mark.parametrize(
    ("subject", "reply"),
    [
        ("hello", "Re: hello"),
        ("Re: hello", "Re: hello"),
        ("re: RE: hello", "Re: hello"),
        ("Re[3]: hello", "Re: hello"),
        ("AW: Re: hello", "Re: hello"),
        ("Fwd: hello", "Re: Fwd: hello"),
        ("[list] hello", "Re: [list] hello"),
        ("Report: x", "Re: Report: x"),
        ("", "Re:"),
        ("Re: ", "Re:"),
    ],
)
def test_reply_subject(subject: str, reply: str) -> None:
    assert reply_subject(subject) == reply


@pytest.mark.parametrize(
    ("subject", "forward"),
    [
        ("hello", "Fwd: hello"),
        ("Fwd: hello", "Fwd: hello"),
        ("fw: FWD : hello", "Fwd: hello"),
        ("Fwd:hello", "Fwd: hello"),
        ("WG: TR: hello", "Fwd: hello"),
        ("Fwd： hello", "Fwd: hello"),
        ("Re: hello", "Fwd: Re: hello"),
        ("Re: Fwd: hello", "Fwd: Re: hello"),
        ("AW: WG: Re[2]: hello", "Fwd: AW: Re[2]: hello"),
        ("[list] Fw: hello", "Fwd: [list] hello"),
        ("[list]", "Fwd: [list]"),
        ("hello (fwd) (Fwd)", "Fwd: hello"),
        ("[Fwd: hello]", "Fwd: hello"),
        ("[Fwd: [fwd: Fw: hello (fwd)]]", "Fwd: hello"),
        ("Re: [Fwd: hello]", "Fwd: Re: hello"),
        ("[Fwd: hello] more", "Fwd: [Fwd: hello] more"),
        ("Forward: x", "Fwd: Forward: x"),
        ("x: fwd: y", "Fwd: x: fwd: y"),
        ("", "Fwd:"),
        ("Fwd: ", "Fwd:"),
        ("[" * 2000, "Fwd: " + "[" * 2000),
        ("[fwd:" * 300 + "x" + "]" * 300, "Fwd: x"),
    ],
)
def test_forward_subject(subject: str, forward: str) -> None:
    assert forward_subject(subject) == forward
    assert forward_subject(forward) == forward


@pytest.mark.parametrize(
    ("message_id", "references", "in_reply_to", "expected"),
    [
        ("<p>", (), (), ("<p>",)),
        ("<p>", ("<a>", "<b>"), ("<b>",), ("<a>", "<b>", "<p>")),
        ("<p>", (), ("<b>",), ("<b>", "<p>")),
        ("<p>", (), ("<b>", "<c>"), ("<p>",)),  # RFC 5322 3.6.4: only a single In-Reply-To serves as References
        ("<p>", ("<a>", "<p>", "<a>"), (), ("<a>", "<p>")),
        (None, ("<a>",), (), ("<a>",)),
        (None, (), (), ()),
        ("<p>", tuple(f"<{n}>" for n in range(100)), (), ("<0>", *(f"<{n}>" for n in range(52, 100)), "<p>")),
    ],
)
def test_reply_references(
    message_id: str | None, references: tuple[str, ...], in_reply_to: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert reply_references(message_id, references, in_reply_to) == expected
    assert len(expected) <= 50
