"""Which providers put what is sent into Sent by themselves, so that a copy of ours would be a second one."""

from collections.abc import Collection

_PROVIDERS = frozenset({"google", "outlook"})
_SMTP_HOSTS = frozenset({"smtp.gmail.com", "smtp.googlemail.com", "smtp.office365.com", "smtp-mail.outlook.com"})
#: Offered by the IMAP servers of Google (developers.google.com/gmail/imap/imap-extensions).
_IMAP_FEATURE = "X-GM-EXT-1"


def files_sent_mail(provider: str, smtp_host: str, imap_features: Collection[str]) -> bool:
    """Whether the provider files a copy of what is sent. `imap_features`: capabilities, in upper case."""
    host = smtp_host.rstrip(".").lower()
    return provider in _PROVIDERS or host in _SMTP_HOSTS or _IMAP_FEATURE in imap_features
