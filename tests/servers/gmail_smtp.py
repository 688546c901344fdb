"""Gmail's submission: what is accepted appears in Sent by itself, and at once in the boxes of recipients who are here.

It is a `ScriptedSmtp`: every step can be scripted.
(support.google.com/mail/answer/78892; developers.google.com/workspace/gmail/imap/xoauth2-protocol, "SMTP")
"""

import base64
import json
import re
from typing import TYPE_CHECKING

from tests.servers.gmail_mailbox import INBOX, SENT
from tests.servers.gmail_session import NO_TOKEN, token_in
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Accepted

if TYPE_CHECKING:
    from tests.servers.gmail import Gmail

WRONG = "535 5.7.8 Username and Password not accepted. For more information, go to double"
_FROM = re.compile(rb"^From:[^\r\n]*(?:\r\n[ \t][^\r\n]*)*", re.I | re.M)
_BCC = re.compile(rb"^Bcc:[^\r\n]*(?:\r\n[ \t][^\r\n]*)*\r\n", re.I | re.M)


class GmailSmtp(ScriptedSmtp):
    """The server that takes mail."""

    mechanisms = ("PLAIN", "XOAUTH2", "OAUTHBEARER")

    def __init__(self, gmail: "Gmail") -> None:
        super().__init__(
            user="anybody of Gmail's",
            extensions=("SIZE 35882577", "8BITMIME", "ENHANCEDSTATUSCODES", "SMTPUTF8"),
        )
        self._gmail = gmail

    def takes(self, mechanism: str, given: bytes) -> tuple[str, str]:
        """By password or by token, as IMAP."""
        text = given.decode("utf-8", "replace")
        if mechanism == "PLAIN":
            _, user, password = [*text.split("\0"), "", ""][:3]
            is_right = self._gmail.takes_password(user, password)
        else:
            user, token = token_in(text)
            is_right = self._gmail.takes_token(user, token)
        if is_right and not self._gmail.is_refused(user):
            return user.lower(), ""
        reason = base64.b64encode(json.dumps(NO_TOKEN).encode()).decode()
        return user.lower(), WRONG if mechanism == "PLAIN" else f"334 {reason}"

    def keep(self, message: Accepted) -> None:
        """File it in Sent, and deliver it here. One to oneself is one message with both labels."""
        super().keep(message)
        box = self._gmail.boxes[message.account]
        source = _by(message.source, box.addresses)
        delivered = _BCC.sub(b"", source, count=1)
        here = {address.lower() for address in message.recipients}
        if here & box.addresses:
            box.deliver(source, SENT, INBOX, flags=("\\Seen",))
        else:
            box.deliver(source, SENT, flags=("\\Seen",))
        for address in here - box.addresses:
            if address in self._gmail.boxes:
                self._gmail.boxes[address].deliver(delivered)


def _by(source: bytes, addresses: frozenset[str]) -> bytes:
    """A message from an address that the account has not: Gmail puts its own in the field."""
    head, end, body = source.partition(b"\r\n\r\n")
    found = _FROM.search(head)
    if found is None or any(address.encode() in found[0].lower() for address in addresses):
        return source
    own = min(addresses).encode()
    return head[: found.start()] + b"From: " + own + b"\r\nX-Google-Original-" + head[found.start() :] + end + body
