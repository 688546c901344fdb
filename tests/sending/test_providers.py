"""Whether the provider or the appliance files copies in the Sent folder."""

import pytest

from mailbox_appliance.sending.sent_copies import files_sent_mail


@pytest.mark.parametrize(
    ("provider", "smtp_host", "features", "expected"),
    [
        ("imap", "mail.example.org", {"IMAP4REV1", "IDLE"}, False),
        ("google", "mail.example.org", set(), True),
        ("outlook", "mail.example.org", set(), True),
        ("imap", "smtp.gmail.com", set(), True),
        ("imap", "SMTP.GoogleMail.com.", set(), True),
        ("imap", "smtp.office365.com", set(), True),
        ("imap", "smtp-mail.outlook.com", set(), True),
        ("imap", "smtp.gmail.com.example.org", set(), False),
        ("imap", "notsmtp.gmail.com", set(), False),
        ("imap", "relay.example.org", {"IMAP4REV1", "X-GM-EXT-1"}, True),
    ],
)
def test_who_files_by_itself(provider: str, smtp_host: str, features: set[str], expected: bool) -> None:
    assert files_sent_mail(provider, smtp_host, features) is expected
