"""Members that a body names by their ids, and that must be there."""

from collections.abc import Iterable

from mailbox_appliance.errors import Detail, Invalid, NotFound
from mailbox_appliance.model.records import Member
from mailbox_appliance.store.store import Store

_UNKNOWN = "There is no member with this id."


def named(store: Store, member_id: str, pointer: str) -> Member:
    """The member with this id. Raises Invalid, with the place where it stands."""
    try:
        return store.members.get(member_id)
    except NotFound as error:
        raise Invalid.at(pointer, _UNKNOWN) from error


def require_named(store: Store, member_ids: Iterable[tuple[str, str]]) -> None:
    """Raises Invalid with every place, of (place, id), where somebody is named who is no member."""
    unknown = tuple(Detail(place, _UNKNOWN) for place, member_id in member_ids if not _is_there(store, member_id))
    if unknown:
        raise Invalid(details=unknown, reason=_UNKNOWN)


def _is_there(store: Store, member_id: str) -> bool:
    try:
        store.members.get(member_id)
    except NotFound:
        return False
    return True
