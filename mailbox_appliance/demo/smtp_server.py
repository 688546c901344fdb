"""The embedded SMTP server of the demo.

It stores mail from signed-in users in their Maildir folders; no mail leaves.
"""

import asyncio
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from mailbox_appliance.demo import maildir

#: Mail to this name is accepted and delivered to its other recipients; then the connection drops without a reply.
LOST = "lost"
LARGEST_MESSAGE = 40 * 1024 * 1024


async def start_smtp_server(folder: Path, passwords: Mapping[str, str]) -> asyncio.Server:
    """Start an SMTP server on a free port of 127.0.0.1. `passwords`: by user name.

    `folder/NAME` is the mailbox of NAME.
    """
    rules = _DeliveryRules(folder, passwords)

    def answer() -> SMTP:
        return SMTP(
            rules,
            hostname="localhost",
            ident="demo",
            data_size_limit=LARGEST_MESSAGE,
            auth_require_tls=False,
            authenticator=rules.sign_in,
        )

    return await asyncio.get_running_loop().create_server(answer, "127.0.0.1", 0)


class _DeliveryRules:
    """The rules of the server for sign-in, senders, recipients and delivery to local mailboxes.

    Users may send only from their own address (RFC 6409 6.1).
    """

    def __init__(self, folder: Path, passwords: Mapping[str, str]) -> None:
        self._folder, self._passwords = folder, passwords
        self._lost = {f"{LOST}@{name.rpartition('@')[2]}" for name in passwords}

    def sign_in(
        self, _server: SMTP, _session: Session, _envelope: Envelope, _mechanism: str, given: LoginPassword
    ) -> AuthResult:
        """Check user name and password, and return the result for the library."""
        name = given.login.decode("utf-8", "replace").lower()
        right = hmac.compare_digest(self._passwords.get(name, "").encode(), given.password)
        # handled=False: the library sends the reply.
        return AuthResult(success=right and name in self._passwords, handled=False, auth_data=name)

    async def handle_MAIL(  # noqa: N802 - the library's name
        self, _server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if not session.authenticated:
            return "530 5.7.0 Authentication required"
        user: object = session.auth_data
        if address.lower() != user:
            return "553 5.7.1 Sender address is not yours"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        return "250 2.1.0 OK"

    async def handle_RCPT(  # noqa: N802 - the library's name
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        name = address.lower()
        if name not in self._passwords and name not in self._lost:
            domains = {user.rpartition("@")[2] for user in self._passwords}
            known = name.rpartition("@")[2] in domains
            return "550 5.1.1 No such user" if known else "550 5.7.1 The demo does not send mail to other computers"
        envelope.rcpt_tos.append(name)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)  # noqa: S101 - decode_data is off
        for name in dict.fromkeys(envelope.rcpt_tos):
            if name not in self._lost:
                maildir.add_message(self._folder / name, "INBOX", _trace_fields(envelope, name) + envelope.content)
        if self._lost & set(envelope.rcpt_tos):
            _hang_up(server)
            return "421 4.4.2 Nobody reads this"
        return "250 2.0.0 Delivered"


def _trace_fields(envelope: Envelope, recipient: str) -> bytes:
    """The header fields that a delivering server adds (RFC 5321 4.4)."""
    now = format_datetime(datetime.now(UTC))
    return (
        f"Return-Path: <{envelope.mail_from}>\r\n"
        f"Received: from localhost by localhost (demo) with ESMTPA\r\n for <{recipient}>; {now}\r\n"
    ).encode()


def _hang_up(server: Any) -> None:
    server.transport.abort()
