"""How far one operation has come: every phase is on the disk before what it announces is done."""

from mailbox_appliance.events import DeliveryPhaseEntered
from mailbox_appliance.model.records import Phase
from mailbox_appliance.sending.context import SendingContext


class OperationClosed(Exception):
    """The operation ended while it was being handed over: its mailbox is gone, or somebody withdrew it."""


class Progress:
    """Writes phases down, and tells of them. `phase` is the one whose act has begun."""

    def __init__(self, context: SendingContext, operation_id: str) -> None:
        self._store, self._events, self.operation_id = context.store, context.events, operation_id
        self.phase = Phase.ACCEPTED

    def enter(self, *phases: Phase) -> None:
        """Write phases down and begin them. Raises OperationClosed."""
        self.commit(*phases)
        for phase in phases:
            self.begin(phase)

    def commit(self, *phases: Phase) -> None:
        """Write phases down, on the disk. Raises OperationClosed where the operation ended meanwhile."""
        if not self._store.deliveries.enter_phases(self.operation_id, *phases):
            raise OperationClosed

    def begin(self, phase: Phase) -> None:
        """The act of a phase that is written down begins now."""
        self.phase = phase
        self.publish(phase)

    def publish(self, phase: Phase) -> None:
        """Tell of a phase that is written down, before its act."""
        self._events.publish(DeliveryPhaseEntered(self.operation_id, phase))
