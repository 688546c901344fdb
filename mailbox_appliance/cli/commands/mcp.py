"""`mcp`: tools for an assistant, on standard input and output; what speaks there is handed in from above."""

import json

from mailbox_appliance.cli.invocation import Invocation
from mailbox_appliance.cli.tree import command
from mailbox_appliance.client.errors import NETWORK, Failure
from mailbox_appliance.client.http import ApiClient, ApiRequest

_HELP = """Serve tools to an assistant (Model Context Protocol, on standard input and output).

They are those that the log-in or the API key may use. An appliance must run, here or where --instance says; it offers
the same tools at /mcp.
"""
#: Seconds of silence of the appliance: a send may take 25, and what asks mail servers some more.
_PATIENCE = 120.0


class _Appliance:
    """The appliance that is asked; one that was not reached is looked for again, since it may have moved."""

    def __init__(self, invocation: Invocation) -> None:
        self._invocation = invocation
        self._client: ApiClient | None = None

    def check(self) -> None:
        """See that it runs, and that the token is good. Raises a Failure."""
        self._find_client().call(ApiRequest("GET", "/me", timeout=30))

    def post(self, body: bytes, headers: dict[str, str], advice: str) -> tuple[int, bytes]:
        """Status and body; where there is no answer, 0 and an error object that says why."""
        try:
            request = ApiRequest("POST", "/mcp", body=body, headers=headers, timeout=_PATIENCE, base="", advice=advice)
            return self._find_client().exchange(request)
        except Failure as failure:
            if failure.exit_code == NETWORK:
                self._client = None
            return 0, json.dumps({"error": failure.error}).encode()

    def _find_client(self) -> ApiClient:
        client = self._client or self._invocation.client()
        self._client = client
        return client


def _mcp(invocation: Invocation) -> int:
    appliance = _Appliance(invocation)
    appliance.check()
    return int(invocation.service("mcp_stdio")(appliance.post))


mcp = command("mcp", _mcp, _HELP)
