"""What the API answers -> what the tray knows of it. Pure; raises KeyError and the like where an answer is none."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mailbox_appliance.tray.state import Access, Https, Mailbox, Outcome, State

Json = Mapping[str, Any]


def with_status(state: State, answer: Json, accounts: Json) -> State:
    """With what `GET /status` and `GET /accounts` answer."""
    data = answer["data"]
    progress = {one["id"]: one.get("progress") for one in data["accounts"]}
    return replace(
        state,
        mailboxes=tuple(_mailbox(one, progress.get(one["id"])) for one in accounts["data"]),
        uncertain=int(data["deliveries"]["uncertain"]),
        queued=int(data["deliveries"]["queued"]),
        warnings=tuple(str(warning) for warning in answer.get("warnings") or ()),
        is_backing_up=_is_of_backup(data["store"].get("progress")),
    )


def uptime_of(answer: Json) -> float:
    """The seconds for which the appliance that answers `GET /status` has been there."""
    return float(answer["data"]["uptimeSeconds"])


def access_of(answer: Json) -> Access:
    """What whom `GET /me` tells of may ask for."""
    return Access.ADMINISTRATOR if answer["data"]["member"]["role"] == "admin" else Access.MEMBER


def is_to_be_set_up(answer: Json) -> bool:
    """What `GET /` tells anybody."""
    return bool(answer["data"]["setupRequired"])


def newest_backup(answer: Json) -> str | None:
    """When the newest backup of `GET /admin/backups` was made."""
    newest = next(iter(answer["data"]["items"]), None)
    return None if newest is None else str(newest["createdAt"])


def https_of(answer: Json) -> Https:
    """What `GET /admin/https` answers."""
    data = answer["data"]
    certificate = data.get("certificate")
    return Https(bool(data["enabled"]), data.get("url"), None if certificate is None else certificate["fingerprint"])


def outcome_of(answer: Json) -> Outcome | None:
    """How the newest of these audit events ended."""
    newest = next(iter(answer["data"]["items"]), None)
    return None if newest is None else Outcome(str(newest["id"]), newest["outcome"] == "success")


def _mailbox(account: Json, progress: str | None) -> Mailbox:
    error = account.get("error")
    return Mailbox(account["email"], account["status"], None if error is None else error["code"], progress)


def _is_of_backup(progress: Json | None) -> bool:
    """Whether the long work on the store is the making of a backup: `A backup`, `The daily backup`."""
    return progress is not None and str(progress["work"]).endswith(" backup") and " of " not in progress["work"]
