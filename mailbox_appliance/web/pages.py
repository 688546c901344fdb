"""The few things that are served beside the API."""

from functools import cache
from importlib.resources import files

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.web.responses import Response

_POLICY = (
    "default-src 'none'; style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def healthz(appliance: Appliance) -> Response:  # noqa: ARG001 - every page gets it
    """Says that requests are answered."""
    return Response(200, b"ok\n", media_type="text/plain; charset=utf-8")


def front(appliance: Appliance) -> Response:  # noqa: ARG001
    """The page at the console's address."""
    headers = (("Content-Security-Policy", _POLICY), ("Referrer-Policy", "no-referrer"))
    return Response(200, _page("index.html"), headers, "text/html; charset=utf-8")


@cache
def _page(name: str) -> bytes:
    return (files("mailbox_appliance.web") / "static" / name).read_bytes()
