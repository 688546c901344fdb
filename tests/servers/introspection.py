"""What a mail server asks about an access token (RFC 7662), answered from a list of tokens, or by whoever gave them."""

import secrets
from collections.abc import Callable
from json import dumps
from urllib.parse import parse_qs

from tests.servers.listener import Answered, Asked, HttpListener


class Introspection(HttpListener):
    """The server, for plain HTTP on the loopback interface."""

    def __init__(self) -> None:
        super().__init__(self._introspect, "introspection")
        self._users: dict[str, str] = {}
        #: Whose a token is, where it is none of the list; None: nobody's.
        self.ask: Callable[[str], str | None] = lambda _: None
        #: How often it was asked.
        self.count = 0

    def give(self, user: str, length: int = 40) -> str:
        """A token of so many characters that is good for this user."""
        token = secrets.token_hex(length // 2)
        self._users[token] = user
        return token

    def _introspect(self, asked: Asked) -> Answered:
        self.count += 1
        token = parse_qs(asked.body.decode())["token"][0]
        user = self._users.get(token) or self.ask(token)
        told = {"active": False} if user is None else {"active": True, "username": user}
        return 200, dumps(told).encode(), {"Content-Type": "application/json"}
