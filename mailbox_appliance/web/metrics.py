"""`/metrics` as a page, in Prometheus' text format.

Imported by the first request for it: the library takes some MiB, for which an appliance that nobody watches has no use.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from prometheus_client import PROCESS_COLLECTOR, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from mailbox_appliance.web.families import FAMILIES, PREFIX, Family
from mailbox_appliance.web.measured import Value

_TOTAL = "_total"  # which the library adds to a counter's name


def render(values: Iterable[Value]) -> tuple[bytes, str]:
    """The text, and its media type."""
    # The plainest format, whatever the client says that it reads: all of them read this one.
    encode, media_type = choose_encoder("")
    return encode(_Page(values)), media_type


class _Page(Collector):
    """The values of one moment, and what the system tells of the process."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._values: defaultdict[str, list[Value]] = defaultdict(list)
        for value in values:
            self._values[value.name].append(value)

    def collect(self) -> Iterator[Metric]:
        """Every metric that has a value, in the order of the table."""
        yield from (_metric(family, self._values[family.name]) for family in FAMILIES if self._values[family.name])
        yield from PROCESS_COLLECTOR.collect()


def _metric(family: Family, values: Iterable[Value]) -> Metric:
    name = PREFIX + family.name
    metric = Metric(name.removesuffix(_TOTAL), family.help, family.kind)
    for value in values:
        metric.add_sample(name + value.suffix, dict(value.labels), value.number)
    return metric
