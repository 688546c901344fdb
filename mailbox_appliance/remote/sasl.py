"""Sign in to IMAP and SMTP servers with an access token: SASL OAUTHBEARER if the server offers it, otherwise XOAUTH2.

A server that refuses a token first sends the reason (JSON) in a challenge. It answers the sign-in command only after
the client has sent one more line. (RFC 7628 3.1 and 3.2.3; developers.google.com/workspace/gmail/imap/xoauth2-protocol;
learn.microsoft.com, how-to-authenticate-an-imap-pop-smtp-application-by-using-oauth)
"""

import re
from collections.abc import Collection
from typing import Literal

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.remote import errors
from mailbox_appliance.remote.errors import SERVER_NAMES, RemoteFault, Reply, ServerName, malformed_fault, named_fault

Mechanism = Literal["OAUTHBEARER", "XOAUTH2"]
#: Bytes of a challenge that are read.
_MOST_CHALLENGE_BYTES = 2000
# RFC 6750 2.1, and characters that a protocol line cannot contain.
_TOKEN = re.compile(r"[\x21-\x7e]+")


class TokenLogin:
    """One attempt to sign in with an access token. It computes the client's lines; the caller sends them."""

    def __init__(self, endpoint: Endpoint, offered: Collection[str], server: ServerName) -> None:
        """Choose the mechanism. `offered`: the server's mechanisms, in upper case.

        Raises RemoteFault if the server accepts no access tokens.
        """
        self.mechanism: Mechanism = "OAUTHBEARER" if "OAUTHBEARER" in offered else "XOAUTH2"
        if self.mechanism not in offered:
            name = SERVER_NAMES[server]
            reason = f"The {name} server does not accept the provider's sign-in now (XOAUTH2). Try again later."
            raise RemoteFault(server, "unsupported", reason)
        self._server, self._host = server, endpoint.host
        # RFC 7628 3.2.3 requires one character to acknowledge a refusal, XOAUTH2 none.
        last = b"\x01" if self.mechanism == "OAUTHBEARER" else b""
        self._responses = [_first_response(self.mechanism, endpoint.username, endpoint.token or ""), last, None]
        self._challenge = ""

    def next_response(self, challenge: bytes = b"") -> bytes | None:
        """Return the client's next line. `challenge`: the line that the server sent before it.

        1. The first call returns the line with the token.
        2. The second call returns a line that acknowledges the server's refusal.
        3. The third call returns None: the caller must cancel the exchange.

        Further calls raise RemoteFault.
        """
        if not self._responses:
            raise malformed_fault(self._server)
        if challenge:
            self._challenge = challenge[:_MOST_CHALLENGE_BYTES].decode("utf-8", "replace")
        return self._responses.pop(0)

    def fault_of_refusal(self, text: str, reply: Reply | None = None) -> RemoteFault:
        """Return the fault for a refused sign-in. `text`: the server's reply to the sign-in command.

        The fault is found from this text and from the challenge that the server sent before it.
        """
        name = errors.fault_name_of_reply(self._server, f"{text} {self._challenge}", host=self._host, by_token=True)
        return named_fault(name or "token_refused", self._server, reply)


def _first_response(mechanism: Mechanism, user: str, token: str) -> bytes:
    if not _TOKEN.fullmatch(token) or "\x01" in user:
        raise RemoteFault(
            "oauth", "malformed", "The provider issued an access token that servers cannot accept. Sign in again."
        )
    if mechanism == "XOAUTH2":
        return f"user={user}\x01auth=Bearer {token}\x01\x01".encode()
    name = user.replace("=", "=3D").replace(",", "=2C")  # RFC 5801 4: a saslname
    return f"n,a={name},\x01auth=Bearer {token}\x01\x01".encode()
