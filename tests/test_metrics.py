"""What is counted: all of it, whoever counts, and of deliveries and backups their ends."""

from concurrent.futures import ThreadPoolExecutor

from mailbox_appliance.events import BackupFailed, BackupFinished, DeliverySettled, Events
from mailbox_appliance.metrics import Counters


def test_nothing_is_lost_where_many_count_at_once() -> None:
    meters = Counters(Events())

    def count(_: int) -> None:
        for _ in range(2000):
            meters.increment("bells", tone="high")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(count, range(8)))
    meters.increment("bells", tone="low")
    assert meters.values("bells") == {(("tone", "high"),): 16_000, (("tone", "low"),): 1}
    assert meters.values("whistles") == {}


def test_ends_of_deliveries_count_and_what_waits_again_does_not() -> None:
    events = Events()
    meters = Counters(events)
    for status in ("sending", "queued", "sending", "uncertain", "succeeded", "failed", "failed", "withdrawn"):
        events.publish(DeliverySettled("op_1", "acc_1", status))
    assert meters.values("deliveries_settled") == {
        (("outcome", "uncertain"),): 1,
        (("outcome", "succeeded"),): 1,
        (("outcome", "failed"),): 2,
        (("outcome", "withdrawn"),): 1,
    }


def test_backups_count_by_what_became_of_them() -> None:
    events = Events()
    meters = Counters(events)
    events.publish(BackupFinished("bak_1"))
    events.publish(BackupFailed("The disk is full: /home/ada."))
    assert meters.values("backups") == {(("result", "made"),): 1, (("result", "failed"),): 1}
