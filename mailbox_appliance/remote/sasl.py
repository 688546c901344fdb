"""Logging in with an access token, the same for IMAP and SMTP: SASL OAUTHBEARER, where it is offered, and XOAUTH2.

A server that refuses a token says why in a challenge (JSON) and waits: only after one more line of ours come its answer
to the command, and the next command's turn.
(RFC 7628 3.1 and 3.2.3; developers.google.com/workspace/gmail/imap/xoauth2-protocol; learn.microsoft.com,
how-to-authenticate-an-imap-pop-smtp-application-by-using-oauth)
"""

import re
from collections.abc import Collection
from typing import Literal

from mailbox_appliance.model.accounts import Endpoint
from mailbox_appliance.remote import errors
from mailbox_appliance.remote.errors import SERVER_NAMES, RemoteFault, Reply, ServerName, malformed_fault, named_fault

Mechanism = Literal["OAUTHBEARER", "XOAUTH2"]
#: What a server is heard to say in a challenge.
_MOST_CHALLENGE_BYTES = 2000
# RFC 6750 2.1, and what a line of the protocol could not have.
_TOKEN = re.compile(r"[\x21-\x7e]+")


class TokenLogin:
    """One try to log in with an endpoint's token: what to answer to each challenge of the server."""

    def __init__(self, endpoint: Endpoint, offered: Collection[str], server: ServerName) -> None:
        """`offered`: the server's mechanisms, in upper case. Raises RemoteFault where it takes no tokens."""
        self.mechanism: Mechanism = "OAUTHBEARER" if "OAUTHBEARER" in offered else "XOAUTH2"
        if self.mechanism not in offered:
            name = SERVER_NAMES[server]
            reason = f"The {name} server offers no login with the provider's sign-in now (XOAUTH2). Try again later."
            raise RemoteFault(server, "unsupported", reason)
        self._server, self._host = server, endpoint.host
        # RFC 7628 3.2.3 wants one character as the acknowledgement of a refusal, XOAUTH2 none.
        last = b"\x01" if self.mechanism == "OAUTHBEARER" else b""
        self._responses = [_first_response(self.mechanism, endpoint.username, endpoint.token or ""), last, None]
        self._challenge = ""

    def next_response(self, challenge: bytes = b"") -> bytes | None:
        """What is said next: first the token, which no challenge asks for; then that a refusal was heard.

        None where the server still goes on asking: break it off. Raises RemoteFault where it asks after that, too.
        """
        if not self._responses:
            raise malformed_fault(self._server)
        if challenge:
            self._challenge = challenge[:_MOST_CHALLENGE_BYTES].decode("utf-8", "replace")
        return self._responses.pop(0)

    def fault_of_refusal(self, text: str, reply: Reply | None = None) -> RemoteFault:
        """What it means that the server has refused, in its answer to the command or in its challenge before."""
        name = errors.fault_name_of_reply(self._server, f"{text} {self._challenge}", host=self._host, by_token=True)
        return named_fault(name or "token_refused", self._server, reply)


def _first_response(mechanism: Mechanism, user: str, token: str) -> bytes:
    if not _TOKEN.fullmatch(token) or "\x01" in user:
        raise RemoteFault(
            "oauth", "malformed", "The provider gave an access token that no server takes. Sign in again."
        )
    if mechanism == "XOAUTH2":
        return f"user={user}\x01auth=Bearer {token}\x01\x01".encode()
    name = user.replace("=", "=3D").replace(",", "=2C")  # RFC 5801 4: a saslname
    return f"n,a={name},\x01auth=Bearer {token}\x01\x01".encode()
