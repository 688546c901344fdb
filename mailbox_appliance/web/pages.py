"""Pages outside the API: who may read the metrics, and the page to which a provider's sign-in returns."""

import re
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import parse_qsl, urlencode

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Denied, Detail
from mailbox_appliance.web.http import Response, TrustedProxies, find_client_address, origin_of


def require_observer(appliance: Appliance, environ: Mapping[str, Any], proxies: TrustedProxies) -> None:
    """Raise Denied unless the request comes from this computer or from an address in the setting `metrics.allowed`.

    An untrusted proxy hides its clients, so a request through one is refused even if the proxy's address is allowed.
    """
    allowed = TrustedProxies(appliance.settings.names("metrics.allowed"))
    if not origin_of(environ, proxies).is_local and not allowed.trusts(find_client_address(environ, proxies)):
        reason = "metrics are available only on this computer and to the addresses in the setting `metrics.allowed`."
        raise Denied(reason=reason, details=(Detail("address", "this computer, or one in `metrics.allowed`"),))


# --- The page to which a provider's sign-in returns. It passes the result to the console, and stores nothing ---
#
# The result goes into the fragment of the console's address, which browsers do not send (RFC 3986 3.5). A person who
# started the sign-in in a terminal pastes the address of this page there. Only the fields below are passed on, and of
# the provider's free text only the number of a Microsoft error.


#: RFC 6749 4.1.2 and 4.1.2.1.
_CALLBACK_FIELDS = ("state", "code", "error")
_MAX_QUERY = 16_384
#: learn.microsoft.com/entra/identity-platform/reference-error-codes
_MICROSOFT_ERROR = re.compile(r"AADSTS[0-9]{4,9}")
#: The page needs no scripts, makes no requests, and must not be framed.
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
<p>You can continue in the console: <a href="{address}">continue</a>.</p></main></body></html>
"""


def callback_page(query: str) -> Response:
    """Return the page to which a provider's sign-in redirects. It forwards the browser to the console.

    `query`: the query string with the result of the sign-in, which the console gets in the URL fragment.
    """
    address = escape(f"/#/oauth-callback?{urlencode(_read_callback(query))}")
    headers = (("Content-Security-Policy", _CALLBACK_POLICY), ("Referrer-Policy", "no-referrer"))
    return Response(200, _CALLBACK_PAGE.format(address=address).encode(), headers, "text/html; charset=utf-8")


def _read_callback(query: str) -> dict[str, str]:
    try:
        given = parse_qsl(query[:_MAX_QUERY], max_num_fields=32)
    except ValueError:  # more fields than any provider sends
        return {}
    # Only the first value of each field counts: providers send each once.
    first = dict(reversed(given))
    brought = {name: first[name] for name in _CALLBACK_FIELDS if name in first}
    number = _MICROSOFT_ERROR.search(first.get("error_description", ""))
    return brought if number is None or "error" not in brought else {**brought, "error_description": number[0]}
