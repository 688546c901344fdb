"""How the double of Microsoft Graph answers: status, body, header fields."""

import json

from tests.servers.graph_script import Says
from tests.servers.listener import Answered
from tests.servers.oauth_answers import WORDS


class Refused(Exception):
    """A request that is not done."""

    def __init__(self, says: Says) -> None:
        super().__init__()
        self.says = says


def in_json(status: int, value: object) -> Answered:
    return status, json.dumps(value).encode(), {"Content-Type": "application/json"}


def error(says: Says) -> Answered:
    if says.status < 400:
        return says.status, b"", says.headers
    if not says.code:  # of a gateway
        return says.status, f"<html>{WORDS}</html>".encode(), says.headers
    status, body, headers = in_json(says.status, {"error": {"code": says.code, "message": WORDS}})
    return status, body, {**headers, **says.headers}
