"""The preview of a message is read back from its bytes."""

from mailbox_appliance.mail.compose import compose
from mailbox_appliance.mail.preview import preview_of
from mailbox_appliance.model.messages import (
    Address,
    OutgoingAttachment,
    OutgoingMessage,
    PreviewedAttachment,
    SendPreview,
)
from tests.mail.test_compose import DATE, MESSAGE_ID

ALICE = Address(email="alice@example.com", name="Alice")


def preview(**fields: object) -> SendPreview:
    message = OutgoingMessage(**({"sender": ALICE} | fields))  # type: ignore[arg-type]
    return preview_of("acc_1", compose(message, message_id=MESSAGE_ID, date=DATE), "5f1d")


def test_everything_that_would_go_out() -> None:
    bob, carol = Address(email="bob@example.org", name="Größe, B."), Address(email="carol@bücher.example")
    file = OutgoingAttachment("ü.pdf", "application/pdf", b"1234")
    found = preview(
        to=(bob,), cc=(carol,), bcc=(ALICE,), subject="Grüße", text="Grüße", html="<b>x</b>", attachments=(file,)
    )
    assert found == SendPreview(
        account_id="acc_1",
        from_="alice@example.com",
        to=(bob,),
        cc=(Address(email="carol@xn--bcher-kva.example"),),
        bcc=(ALICE,),
        subject="Grüße",
        attachments=(PreviewedAttachment(filename="ü.pdf", mime_type="application/pdf", size_bytes=4),),
        body_text_chars=5,
        body_html_chars=8,
        preview_digest="5f1d",
    )


def test_a_text_made_from_html_counts() -> None:
    found = preview(to=(ALICE,), html="<p>Hello</p>")
    assert (found.body_text_chars, found.body_html_chars) == (5, 12)


def test_next_to_nothing() -> None:
    found = preview(bcc=(ALICE,))
    assert (found.to, found.cc, found.bcc, found.subject) == ((), (), (ALICE,), "")
    assert (found.body_text_chars, found.body_html_chars, found.attachments) == (0, 0, ())
