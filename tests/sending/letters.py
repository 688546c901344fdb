"""Messages that must arrive at most once, and clients that repeat their requests however often the appliance dies."""

import http.client
import time
from dataclasses import dataclass, field
from typing import Any

from tests.servers.running import Answer, RunningAppliance

_PAUSE = 0.03
#: Seconds after which a queued message must have failed temporarily: it was due after at most 1.5 s.
_LONGEST_QUEUED = 3.0
_OVER = ("succeeded", "failed", "uncertain")


@dataclass
class Attempt:
    """One client with one key: it repeats its request until it is answered, and then until the operation is over."""

    account: str
    key: str
    body: dict[str, Any] = field(repr=False)
    operation_id: str | None = None
    schedule_id: str | None = None
    status: str | None = None  # as a client last read it; None: it was never accepted
    refused: int | None = None
    problem: str | None = None

    def insist(self, appliance: RunningAppliance, patience: float) -> None:
        """Ask until the operation is over, is refused permanently, or waits for a retry; record the answers."""
        until = time.monotonic() + patience
        waits_since = until
        try:
            while time.monotonic() < min(until, waits_since + _LONGEST_QUEUED) and not self._is_through(appliance):
                waits_since = min(waits_since, time.monotonic()) if self.status == "queued" else until
                time.sleep(_PAUSE)
        except AssertionError as error:
            self.problem = str(error)

    def _is_through(self, appliance: RunningAppliance) -> bool:
        if self.operation_id is None:
            answer = self._try(appliance, "POST", "send", self.body)
            if answer is None or answer.status in (429, 503):
                return False
            if answer.status not in (200, 202):
                self.refused = answer.status
                return True
            self.operation_id = answer.data["operationId"]
            self.schedule_id = answer.data.get("scheduleId")
        else:
            answer = self._try(appliance, "GET", f"delivery-operations/{self.operation_id}")
            if answer is None:
                return False
            assert answer.status == 200, f"{self} was shown and is not there any more: {answer}"
        return self._note(answer)

    def _note(self, answer: Answer) -> bool:
        seen = str(answer.data["status"])
        if self.status in _OVER:
            assert seen == self.status, f"{self} became {seen}"
        assert answer.data["operationId"] == self.operation_id, f"{self} became another operation: {answer}"
        self.status = seen
        return seen in _OVER

    def _try(self, appliance: RunningAppliance, method: str, path: str, body: object = None) -> Answer | None:
        """Return the answer, or None if the appliance does not run."""
        try:
            return appliance.ask(method, f"/accounts/{self.account}/{path}", body, Idempotency_Key=self.key)
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def take_back_if_waiting(self, appliance: RunningAppliance) -> None:
        """Cancel a scheduled message that waits for a retry in a minute, and check that the answer is true."""
        assert self.problem is None, self.problem
        if self.status not in ("queued", "sending"):
            return
        answer = appliance.ask("DELETE", f"/accounts/{self.account}/scheduled/{self.schedule_id}")
        assert answer.status in (200, 409), answer
        self.insist(appliance, 30)
        assert self.status in _OVER, f"{self} does not end"

    def check_unchanged(self, appliance: RunningAppliance) -> None:
        """Check that the key still returns the same operation."""
        if self.operation_id is None:
            return
        answer = appliance.ask("POST", f"/accounts/{self.account}/send", self.body, Idempotency_Key=self.key)
        assert answer.status == (202 if self.schedule_id else 200), f"{self}: {answer}"
        self._note(answer)


@dataclass
class Letter:
    """One message, identified by its subject, and all attempts to send it."""

    subject: str
    account: str
    attempts: list[Attempt] = field(default_factory=list)

    def settle(self, appliance: RunningAppliance, outcome: str) -> None:
        """Resolve its uncertain operations, as the member who sent it."""
        for operation_id in {each.operation_id for each in self.attempts if each.status == "uncertain"}:
            path = f"/accounts/{self.account}/delivery-operations/{operation_id}/resolve"
            answer = appliance.ask("POST", path, {"outcome": outcome})
            assert answer.status == 200, answer
            assert answer.data["status"] == outcome, answer
        for attempt in self.attempts:
            attempt.status = outcome if attempt.status == "uncertain" else attempt.status

    def keys(self) -> set[str]:
        """Return the keys that were used for it."""
        return {attempt.key for attempt in self.attempts}

    def statuses(self) -> dict[str, str]:
        """Return the status of each key that was accepted."""
        return {attempt.key: attempt.status for attempt in self.attempts if attempt.status is not None}
