"""The few things that are served beside the API."""

from collections.abc import Iterable, Mapping
from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Denied, Detail
from mailbox_appliance.web.callers import client_known, origin_of
from mailbox_appliance.web.measured import Value
from mailbox_appliance.web.proxies import Proxies
from mailbox_appliance.web.responses import Response


def healthz(appliance: Appliance) -> Response:  # noqa: ARG001 - every page gets it
    """Says that requests are answered."""
    return Response(200, b"ok\n", media_type="text/plain; charset=utf-8")


def require_observer(appliance: Appliance, environ: Mapping[str, Any], proxies: Proxies) -> None:
    """Raises Denied unless the request is from this computer, or from an address in `metrics.allowed`.

    Whoever comes through a proxy that is not trusted may be anybody, whatever the proxy's own address is.
    """
    allowed = Proxies(appliance.settings.names("metrics.allowed"))
    if not origin_of(environ, proxies).is_local and not allowed.trusts(client_known(environ, proxies)):
        reason = "the metrics are for this computer, and for the addresses in the setting `metrics.allowed`."
        raise Denied(reason=reason, details=(Detail("address", "this computer, or one in `metrics.allowed`"),))


def metrics(values: Iterable[Value]) -> Response:
    """What is measured, in Prometheus' text format."""
    from mailbox_appliance.web.metrics import render  # not before the first request for it: it imports the library

    body, media_type = render(values)
    return Response(200, body, media_type=media_type)
