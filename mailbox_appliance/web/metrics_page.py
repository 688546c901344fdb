"""`/metrics` as a page, in Prometheus' text format.

Imported by the first request for it: the library takes some MiB, for which an appliance that nobody watches has no use.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import PROCESS_COLLECTOR, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Denied, Detail
from mailbox_appliance.web.http import Response, TrustedProxies, find_client_address, origin_of
from mailbox_appliance.web.metrics import METRIC_FAMILIES, METRIC_PREFIX, MetricFamily, MetricValue

_COUNTER_SUFFIX = "_total"  # which the library adds to a counter's name


def require_observer(appliance: Appliance, environ: Mapping[str, Any], proxies: TrustedProxies) -> None:
    """Raises Denied unless the request is from this computer, or from an address in `metrics.allowed`.

    Whoever comes through a proxy that is not trusted may be anybody, whatever the proxy's own address is.
    """
    allowed = TrustedProxies(appliance.settings.names("metrics.allowed"))
    if not origin_of(environ, proxies).is_local and not allowed.trusts(find_client_address(environ, proxies)):
        reason = "the metrics are for this computer, and for the addresses in the setting `metrics.allowed`."
        raise Denied(reason=reason, details=(Detail("address", "this computer, or one in `metrics.allowed`"),))


def metrics_page(values: Iterable[MetricValue]) -> Response:
    """What is measured, in Prometheus' text format."""
    body, media_type = render_metrics(values)
    return Response(200, body, media_type=media_type)


def render_metrics(values: Iterable[MetricValue]) -> tuple[bytes, str]:
    """The text, and its media type."""
    # The plainest format, whatever the client says that it reads: all of them read this one.
    encode, media_type = choose_encoder("")
    return encode(_MetricsPage(values)), media_type


class _MetricsPage(Collector):
    """The values of one moment, and what the system tells of the process."""

    def __init__(self, values: Iterable[MetricValue]) -> None:
        self._values: defaultdict[str, list[MetricValue]] = defaultdict(list)
        for value in values:
            self._values[value.name].append(value)

    def collect(self) -> Iterator[Metric]:
        """Every metric that has a value, in the order of the table."""
        yield from (
            _to_metric(family, self._values[family.name]) for family in METRIC_FAMILIES if self._values[family.name]
        )
        yield from PROCESS_COLLECTOR.collect()


def _to_metric(family: MetricFamily, values: Iterable[MetricValue]) -> Metric:
    name = METRIC_PREFIX + family.name
    metric = Metric(name.removesuffix(_COUNTER_SUFFIX), family.help, family.kind)
    for value in values:
        metric.add_sample(name + value.suffix, dict(value.labels), value.number)
    return metric
