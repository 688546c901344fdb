"""Pages beside the API: health, and the page that a provider's sign-in returns to."""

import re
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Denied, Detail
from mailbox_appliance.web.http import Response, TrustedProxies, find_client_address, origin_of


def healthz(appliance: Appliance) -> Response:  # noqa: ARG001 - every page gets it
    """Says that requests are answered."""
    return Response(200, b"ok\n", media_type="text/plain; charset=utf-8")


def require_observer(appliance: Appliance, environ: Mapping[str, Any], proxies: TrustedProxies) -> None:
    """Raises Denied unless the request is from this computer, or from an address in `metrics.allowed`.

    A client of a proxy that is not trusted may be anybody, whatever the proxy's own address is.
    """
    allowed = TrustedProxies(appliance.settings.names("metrics.allowed"))
    if not origin_of(environ, proxies).is_local and not allowed.trusts(find_client_address(environ, proxies)):
        reason = "the metrics are for this computer, and for the addresses in the setting `metrics.allowed`."
        raise Denied(reason=reason, details=(Detail("address", "this computer, or one in `metrics.allowed`"),))


# --- The page that a provider's sign-in returns to. It passes the result on to the console, and stores nothing ---
#
# The console's page is in the fragment, which browsers do not send (RFC 3986 3.5). Somebody who began the sign-in in a
# terminal continues there, with the address of this page. Only these values are passed on, and none of the provider's
# free text except the number of a Microsoft error.


#: RFC 6749 4.1.2 and 4.1.2.1.
_CALLBACK_FIELDS = ("state", "code", "error")
_MAX_QUERY = 16_384
#: learn.microsoft.com/entra/identity-platform/reference-error-codes
_MICROSOFT_ERROR = re.compile(r"AADSTS[0-9]{4,9}")
#: Only what this page needs: no script, nothing fetched, no frame around it.
_CALLBACK_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_CALLBACK_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Signing in</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="0; url={address}"><link rel="icon" href="data:,">
<style>body {{ font: 1.1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 3rem auto; padding: 0 1rem }}</style>
</head><body><main><h1>Signing in</h1>
<p>This goes on in the console: <a href="{address}">go on</a>.</p></main></body></html>
"""


def callback_page(query: str) -> Response:
    """A page that leads to the console with the query that the sign-in returned."""
    address = escape(f"/#/oauth-callback?{urlencode(_read_callback(query))}")
    headers = (("Content-Security-Policy", _CALLBACK_POLICY), ("Referrer-Policy", "no-referrer"))
    return Response(200, _CALLBACK_PAGE.format(address=address).encode(), headers, "text/html; charset=utf-8")


def _read_callback(query: str) -> dict[str, str]:
    try:
        given = parse_qsl(query[:_MAX_QUERY], max_num_fields=32)
    except ValueError:  # more of them than any provider sends
        return {}
    # The first of each: a second one is none of a provider's.
    first = dict(reversed(given))
    brought = {name: first[name] for name in _CALLBACK_FIELDS if name in first}
    number = _MICROSOFT_ERROR.search(first.get("error_description", ""))
    return brought if number is None or "error" not in brought else {**brought, "error_description": number[0]}
