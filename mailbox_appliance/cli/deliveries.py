"""What a delivery operation means to whoever sent: an exit code for scripts, and plain sentences for people."""

from typing import Any

from mailbox_appliance.cli import render
from mailbox_appliance.cli.show import items_of
from mailbox_appliance.client.errors import NETWORK, UNCERTAIN

#: Columns of a list of operations; what became of a single one is shown whole.
COLUMNS = ("operationId", "kind", "status", "error.code")
_PROGRAM = "mailbox-appliance"
#: Commands that look at an operation, and that decide it.
_VERBS = ("delivery-status", "resolve")
#: So many operations are named one by one.
_NAMED = 10


def exit_code(answer: Any) -> int:
    """3 for an uncertain delivery, 5 for a failed one, 0 for one that succeeded or is on its way."""
    return {"uncertain": UNCERTAIN, "failed": NETWORK}.get(render.look_up(answer, "data.status"), 0)


def remark(answer: Any) -> str:
    """What a person is told below an operation, or a list of them: doubt above all. Empty where there is nothing."""
    items = items_of(answer)
    if items is None:
        operation = render.look_up(answer, "data")
        return _of_one(operation) if isinstance(operation, dict) and "operationId" in operation else ""
    return _of_many([one for one in items if render.look_up(one, "status") == "uncertain"])


def _of_one(operation: dict[str, Any]) -> str:
    name = f"{render.cell(operation['operationId'])}{_where(operation)}"
    look, decide = (f"{_PROGRAM} emails {verb} {name}" for verb in _VERBS)
    said = {
        "queued": f"It waits for its time or its next attempt. What becomes of it:\n  {look}{_call_back(operation)}",
        "sending": f"It is still on its way. Look again, or repeat the command with the same key:\n  {look}",
        "failed": "It was not delivered, and its key keeps this outcome: to send it after all, use another key.",
        "uncertain": _doubt("This message", look, decide),
    }.get(str(operation.get("status")))
    return f"\n{said}\n" if said else ""


def _call_back(operation: dict[str, Any]) -> str:
    if not operation.get("scheduleId"):
        return ""
    cancel = f"{_PROGRAM} scheduled cancel {render.cell(operation['scheduleId'])}{_where(operation)}"
    return f"\nUntil then it can be called back:\n  {cancel}"


def _of_many(operations: list[Any]) -> str:
    if not operations:
        return ""
    names = [render.cell(render.look_up(one, "operationId")) for one in operations]
    beyond = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    who = f"What was sent as {', '.join(names[:_NAMED])}{beyond}"
    look, decide = (f"{_PROGRAM} emails {verb} OPERATION-ID{_where(operations[0])}" for verb in _VERBS)
    return f"\n{_doubt(who, look, decide)}\n"


def _where(operation: Any) -> str:
    account = render.look_up(operation, "accountId")
    return f" --account {render.cell(account)}" if account else ""


def _doubt(what: str, look: str, decide: str) -> str:
    """What `uncertain` means and what to do about it."""
    return (
        f"UNCERTAIN: {what} may have been delivered, or may not: the last byte went out, and no clear answer came.\n"
        "Never send it again with another key: whoever got it would get it twice.\n"
        f"Look later whether it has turned up; that is looked for during 24 hours:\n  {look}\n"
        "Or ask the recipients, and say yourself what became of it:\n"
        f"  {decide} --outcome succeeded|failed"
    )
