"""Which member a command means."""

from typing import TYPE_CHECKING

from mailbox_appliance.cli import show
from mailbox_appliance.client.errors import ACCESS, INPUT, Failure

if TYPE_CHECKING:
    from mailbox_appliance.client.http import ApiClient


def resolve_member(client: "ApiClient", wanted: str) -> str:
    """The id of the member that is meant: an id as it is; an email is looked up, which only administrators may."""
    if "@" not in wanted:
        return wanted
    from mailbox_appliance.client.http import ApiRequest

    try:
        members = show.items_of(client.call(ApiRequest("GET", "/admin/members"))) or []
    except Failure as failure:
        if failure.code != "permission_denied":
            raise
        hint = f"Only administrators look members up by email: give the id of {wanted}, which `whoami` shows them."
        raise Failure(failure.code, hint, ACCESS, details=failure.details, request_id=failure.request_id) from failure
    for one in members:
        if str(one["email"]).casefold() == wanted.casefold():
            return str(one["id"])
    raise Failure("not_found", f"There is no member {wanted}.", INPUT)
