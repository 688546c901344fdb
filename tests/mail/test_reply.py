"""The recipients of a reply, as a table of possible parents."""

import pytest

from mailbox_appliance.mail.reply import reply_recipients, reply_threading
from mailbox_appliance.model.messages import Address, Message
from tests.mail.parents import as_stored

OWN = ("me@example.com", "me@müller.example")


def parent(*fields: str) -> tuple[Message, dict[str, str]]:
    """Return a received message with these header fields."""
    return as_stored(("\r\n".join(fields) + "\r\n\r\nx").encode())


def people(text: str) -> tuple[Address, ...]:
    return tuple(Address(email=email) for email in text.split())


LIST = "List-Post: <https://lists.example.org/post>, <mailto:list@Example.org?subject=x>"
# fmt: off
CASES: list[tuple[list[str], dict[str, object], str, str]] = [
    # a reply goes to the writer
    (["From: a@x.example", "To: me@example.com, b@x.example"], {}, "a@x.example", ""),
    (["From: a@x.example", "Reply-To: r@x.example, s@x.example", "To: b@x.example"], {}, "r@x.example s@x.example", ""),
    (["From: a@x.example", "Reply-To: me@example.com", "To: b@x.example"], {}, "a@x.example", ""),
    (["From: a@x.example", "Reply-To: me@example.com, r@x.example", "To: b@x.example"], {},
     "me@example.com r@x.example", ""),
    (["Sender: s@x.example", "To: b@x.example"], {}, "s@x.example", ""),
    (["From: Mailer <>", "Reply-To: r@x.example", "To: b@x.example"], {}, "r@x.example", ""),
    (["From: me@example.com", "Reply-To: ME@example.com", "To: b@x.example"], {}, "b@x.example", ""),
    (["From: Mailer <>", "Reply-To: me@example.com", "To: b@x.example"], {}, "b@x.example", ""),
    (["From: ME@Example.com", "To: b@x.example, me@example.com", "Cc: c@x.example"], {},
     "b@x.example me@example.com", ""),
    (["From: me@example.com", "To: me@example.com"], {"everybody": True}, "me@example.com", ""),
    # everybody
    (["From: a@x.example", "To: me@example.com, b@x.example", "Cc: c@x.example"], {"everybody": True},
     "a@x.example b@x.example", "c@x.example"),
    (["From: a@x.example", "Reply-To: r@x.example", "To: b@x.example", "Cc: a@x.example"], {"everybody": True},
     "r@x.example b@x.example", "a@x.example"),
    (["From: me@example.com", "To: b@x.example", "Cc: c@x.example, Me@EXAMPLE.com"], {"everybody": True},
     "b@x.example", "c@x.example"),
    (["From: a@x.example", "To: b@X.example, b@x.EXAMPLE", "Cc: A@x.example, c@x.example, c@x.example"],
     {"everybody": True}, "a@x.example b@X.example", "c@x.example"),
    (["From: a@x.example", "To: me@xn--mller-kva.example, ME@MÜLLER.example", "Cc: me@example.com"],
     {"everybody": True}, "a@x.example", ""),
    (["From: a@bücher.example", "Cc: A@xn--bcher-kva.example"], {"everybody": True}, "a@bücher.example", ""),
    (["From: a@x.example", "To: undisclosed-recipients:;"], {"everybody": True}, "a@x.example", ""),
    # not only to the mailbox itself if there is anybody else
    (["From: a@x.example", "Reply-To: me@example.com", "To: me@example.com"], {"everybody": True}, "a@x.example", ""),
    (["From: a@x.example", "Reply-To: me@example.com", "To: b@x.example", "Cc: a@x.example, c@x.example"],
     {"everybody": True}, "a@x.example b@x.example", "c@x.example"),
    (["From: me@example.com", "Reply-To: me@example.com", "To: b@x.example, me@example.com"], {"everybody": True},
     "b@x.example", ""),
    (["From: me@example.com", "To: me@example.com", "Cc: c@x.example"], {"everybody": True}, "", "c@x.example"),
    (["From: me@example.com", "To: me@example.com", "Cc: c@x.example"], {"everybody": True, "cc": ()},
     "me@example.com", ""),
    # without a writer: the others
    (["From: Mailer <>", "To: me@example.com, b@x.example", "Cc: c@x.example"], {"everybody": True},
     "b@x.example", "c@x.example"),
    (["Cc: c@x.example"], {"everybody": True}, "", "c@x.example"),
    (["To: b@x.example"], {"to": people("z@x.example")}, "z@x.example", ""),
    (["To: b@x.example"], {"to": ()}, "", ""),
    # mail cannot be sent to some
    (["From: a@x.example", "To: b@[192.0.2.1]", "Cc: c@-x.example, d@x.example"], {"everybody": True},
     "a@x.example", "d@x.example"),
    # given recipients stay
    (["From: a@x.example", "Cc: c@x.example"], {"to": people("z@x.example")}, "z@x.example", ""),
    (["From: a@x.example", "To: b@x.example", "Cc: c@x.example, z@x.example"],
     {"to": people("z@x.example"), "everybody": True}, "z@x.example", "c@x.example"),
    (["From: a@x.example", "Cc: c@x.example"], {"cc": people("z@x.example")}, "a@x.example", "z@x.example"),
    (["From: a@x.example", "To: b@x.example", "Cc: c@x.example"], {"cc": people("a@x.example"), "everybody": True},
     "b@x.example", "a@x.example"),
    (["From: a@x.example", "Cc: c@x.example"], {"cc": (), "everybody": True}, "a@x.example", ""),
    (["From: a@-x.example", "Cc: c@x.example"], {"to": (), "everybody": True}, "", "c@x.example"),
    # a mailing list gets replies to all, and only these (RFC 2369 3.4)
    (["From: a@x.example", "To: me@example.com", LIST], {"everybody": True}, "a@x.example list@Example.org", ""),
    (["From: a@x.example", "To: me@example.com", LIST], {}, "a@x.example", ""),
    (["From: a@x.example", "To: LIST@example.org", LIST], {"everybody": True}, "a@x.example LIST@example.org", ""),
    (["From: a@x.example", "To: me@example.com", "Cc: list@example.org", LIST], {"everybody": True},
     "a@x.example", "list@example.org"),
    (["From: a@x.example", "Reply-To: list@example.org", "To: list@example.org", LIST], {"everybody": True},
     "list@example.org", ""),
    (["From: a@x.example", "List-Post: NO (closed)"], {"everybody": True}, "a@x.example", ""),
    (["From: a@x.example", "List-Post: <mailto:a%2Bb@x.example>"], {"everybody": True},
     "a@x.example a+b@x.example", ""),
    (["From: a@x.example", "List-Post: <mailto:b@[192.0.2.1]>"], {"everybody": True}, "a@x.example", ""),
    (["From: a@x.example", "List-Post: <mailto:b@x.example%0d%0aBcc:e@x.example>"], {"everybody": True},
     "a@x.example", ""),
]
# fmt: on


@pytest.mark.parametrize(("fields", "given", "to", "cc"), CASES)
def test_who_a_reply_goes_to(fields: list[str], given: dict[str, object], to: str, cc: str) -> None:
    found = reply_recipients(*parent(*fields), OWN, **given)  # type: ignore[arg-type]
    assert ([each.email for each in found.to], [each.email for each in found.cc]) == (to.split(), cc.split())


def test_names_stay() -> None:
    found = reply_recipients(
        *parent("From: Ann <a@x.example>", "Cc: =?utf-8?Q?J=C3=B6rg?= <j@x.example>"), OWN, everybody=True
    )
    assert (found.to, found.cc) == (
        (Address(email="a@x.example", name="Ann"),),
        (Address(email="j@x.example", name="Jörg"),),
    )


@pytest.mark.parametrize(
    ("fields", "given"),
    [
        (["To: b@x.example"], {}),
        (["From: Mailer <>", "To: b@x.example"], {}),
        (["From: Nobody:;", "To: b@x.example"], {}),
        (["From: nobody", "To: b@x.example"], {"cc": people("z@x.example")}),
        ([], {}),
        ([], {"everybody": True}),
        (["To: me@example.com"], {"everybody": True}),
        (["From: me@example.com"], {}),
        (["To: b@-x.example"], {"everybody": True}),
    ],
)
def test_mail_that_nobody_wrote_has_no_reply(fields: list[str], given: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Set `to`"):
        reply_recipients(*parent(*fields), OWN, **given)  # type: ignore[arg-type]


def test_who_is_left_out_is_told() -> None:
    fields = ["From: a@x.example", 'To: "john doe"@x.example, b@x.example', "Cc: J <c@[192.0.2.1]>, D <d@-x>"]
    everybody = reply_recipients(*parent(*fields), OWN, everybody=True)
    assert everybody.left_out == ('"john doe"@x.example', "c@[192.0.2.1]", "d@-x")
    assert reply_recipients(*parent(*fields), OWN).left_out == ()
    assert reply_recipients(*parent(*fields), OWN, everybody=True, cc=()).left_out == ('"john doe"@x.example',)
    assert reply_recipients(*parent(*fields), OWN, everybody=True, to=()).left_out == ("c@[192.0.2.1]", "d@-x")
    posted = [*fields[:1], "List-Post: <mailto:b@x.example%0d%0aBcc:e@x.example>"]
    assert reply_recipients(*parent(*posted), OWN, everybody=True).left_out == ()


@pytest.mark.parametrize("everybody", [False, True])
@pytest.mark.parametrize(
    "field",
    [
        "From: a@[192.0.2.1]",
        "From: a@x.example\r\nReply-To: r@x.example, b@-x.example",
        'From: "Doe, John" <john doe@x.example>',
        'From: "john doe"@x.example',
    ],
)
def test_whom_nobody_can_write_to_is_told(field: str, everybody: bool) -> None:
    with pytest.raises(ValueError, match=r"cannot be sent to the reply address .* Set `to`"):
        reply_recipients(*parent(field, "To: b@x.example"), OWN, everybody=everybody)


@pytest.mark.parametrize(
    ("fields", "in_reply_to", "references"),
    [
        (["Message-ID: <p@x>"], "<p@x>", ["<p@x>"]),
        (["Message-ID: <p@x>", "References: <a@x>\r\n <b@x>"], "<p@x>", ["<a@x>", "<b@x>", "<p@x>"]),
        (["Message-ID: <p@x>", "In-Reply-To: <b@x>"], "<p@x>", ["<b@x>", "<p@x>"]),
        (["Message-ID: <p@x>", "In-Reply-To: <b@x> <c@x>"], "<p@x>", ["<p@x>"]),
        (["Message-ID: p@x", "References: a@x"], "<p@x>", ["<a@x>", "<p@x>"]),
        (["References: <a@x>"], None, ["<a@x>"]),
        ([], None, []),
        (["Message-ID:\r\n <p@x>\r\n ", "References: <a@x>\r\n\t<b@x>"], "<p@x>", ["<a@x>", "<b@x>", "<p@x>"]),
        (["Message-ID: <a\tb\x0bc@x>", "References: <a@x>"], None, ["<a@x>"]),
        (["Message-ID: <p@x>", "References: <a b@x> <c@x> <d\x01e@x> <f@\r\n x>"], "<p@x>", ["<c@x>", "<p@x>"]),
        (["Message-ID: <p@x>", "In-Reply-To: <a b@x>"], "<p@x>", ["<p@x>"]),
        (["Message-ID: <a=?utf-8?Q?=0ABcc:?=@x>"], None, []),
        (
            ["Message-ID: <p@x>", "References: " + " ".join(f"<{n}@x>" for n in range(200))],
            "<p@x>",
            ["<0@x>", *(f"<{n}@x>" for n in range(152, 200)), "<p@x>"],
        ),
    ],
)
def test_what_ties_a_reply_to_its_parent(fields: list[str], in_reply_to: str | None, references: list[str]) -> None:
    found = reply_threading(parent(*fields)[1])
    assert (found.in_reply_to, list(found.references)) == (in_reply_to, references)
