"""Requests that are counted: by what we know, in a bounded number of rows, and none is lost."""

from concurrent.futures import ThreadPoolExecutor
from time import process_time

from mailbox_appliance.web.metrics import DURATION_BUCKETS, UNKNOWN_ROUTE, RequestCounter, RequestCounts


def test_requests_count_by_route_method_and_status_within_bounds() -> None:
    tally = RequestCounter()
    for seconds in (0.0, 0.005, 0.006, 60.0):
        tally.count("GET /api/v1/me", "GET", 200, seconds)
    tally.count("GET /api/v1/me", "HEAD", 401, 0.2)
    tally.count(UNKNOWN_ROUTE, "GET", 404, 0.2)
    assert list(tally.snapshot()) == [
        RequestCounts("/api/v1/me", "GET", 200, (2, 1, 0, 0, 0, 0, 1), 60.011),
        RequestCounts("/api/v1/me", "HEAD", 401, (0, 0, 0, 1, 0, 0, 0), 0.2),
        RequestCounts("unknown", "GET", 404, (0, 0, 0, 1, 0, 0, 0), 0.2),
    ]
    assert sorted(DURATION_BUCKETS) == list(DURATION_BUCKETS)


def test_methods_that_nobody_knows_are_one() -> None:
    tally = RequestCounter()
    for method in ("BREW", "get", "X" * 10_000, 'G"\n'):
        tally.count(UNKNOWN_ROUTE, method, 405, 0.001)
    (row,) = tally.snapshot()
    assert (row.method, row.count) == ("other", 4)


def test_nothing_is_lost_and_it_costs_microseconds() -> None:
    tally = RequestCounter()

    def count(_: int) -> None:
        for _ in range(5000):
            tally.count("GET /api/v1/me", "GET", 200, 0.001)

    started = process_time()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count, range(4)))
    took = process_time() - started
    (row,) = tally.snapshot()
    assert row.count == 20_000
    assert took / 20_000 < 50e-6  # some 1 us; this only tells a mistake, on a computer that does other things besides
