"""A receiver of webhooks. What it gets is verified by the library of the standard, as receivers do it."""

import queue
import ssl
from dataclasses import dataclass, field
from typing import Any, Self

from standardwebhooks import Webhook

from tests.servers.listener import Answered, Asked, HttpListener

OK: Answered = (200, b"{}", {})


@dataclass
class Receiver:
    """Answers requests as it is told, at first with 200, and keeps them."""

    context: ssl.SSLContext | None = None
    #: The next answers; without any: 200. An exception ends the connection.
    answers: list[Answered | Exception] = field(default_factory=list)
    got: "queue.Queue[Asked]" = field(default_factory=queue.Queue)

    def __enter__(self) -> Self:
        self._listener = HttpListener(self._answer, "receiver", self.context).start()
        self.url = f"{self._listener.url.replace('localhost', '127.0.0.1')}/hook"
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.stop()

    def _answer(self, asked: Asked) -> Answered:
        self.got.put(asked)
        answer = self.answers.pop(0) if self.answers else OK
        if isinstance(answer, Exception):
            raise answer
        return answer

    def next(self, secret: str, timeout: float = 20) -> tuple[str, dict[str, Any]]:
        """The ID and the verified body of the next request."""
        asked = self.got.get(timeout=timeout)
        assert asked.headers["content-type"] == "application/json"
        verified: dict[str, Any] = Webhook(secret).verify(asked.body, dict(asked.headers))
        return asked.headers["webhook-id"], verified
