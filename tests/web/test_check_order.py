"""The first error that is reported for a request that is wrong in every way."""

import pytest

from tests.checked_client import CheckedClient
from tests.operations.filled import FilledMailbox, add_key, add_member


@pytest.fixture
def mailbox(checked_client: CheckedClient) -> FilledMailbox:
    return FilledMailbox(checked_client.appliance, checked_client.member["id"])


def test_who_asks_comes_before_reach_before_rights_before_the_request(
    checked_client: CheckedClient, mailbox: FilledMailbox
) -> None:
    appliance, ada = checked_client.appliance, checked_client.member["id"]
    _, reader = add_key(appliance, ada, "mail.read")
    _, elsewhere = add_key(appliance, ada, "mail.read", accounts=[])
    own, foreign = f"/accounts/{mailbox.id}", "/accounts/acc_unknown"
    bad = b"{"
    table = (
        # Each request is wrong in every way; this is the error that is reported.
        ("POST", f"{foreign}/send?%ff", "nobody", (401, "unauthenticated")),
        ("GET", "/me?%ff", "nobody", (401, "unauthenticated")),
        ("POST", "/accounts?%ff", "nobody", (401, "unauthenticated")),
        ("POST", "/accounts?%ff", reader, (403, "session_required")),
        ("DELETE", f"{foreign}?%ff", reader, (403, "session_required")),
        ("POST", f"{foreign}/send?%ff", reader, (404, "not_found")),
        ("POST", f"{own}/send?%ff", elsewhere, (404, "not_found")),
        ("POST", f"{foreign}/send?%ff", None, (404, "not_found")),
        ("POST", f"{own}/send?%ff", reader, (403, "permission_denied")),
        ("POST", f"{own}/send?%ff", None, (400, "invalid_request")),
        ("POST", f"{own}/send", None, (400, "invalid_request")),
        ("GET", f"{own}/messages?%ff", reader, (400, "invalid_request")),
        ("POST", f"{own}/send/preview?%ff", reader, (403, "permission_denied")),
        ("POST", f"{own}/messages/msg_unknown/forward?%ff", reader, (403, "permission_denied")),
        ("POST", f"{own}/messages/msg_unknown/forward", None, (400, "invalid_request")),
        ("DELETE", f"{own}/scheduled/sch_unknown?%ff", reader, (403, "permission_denied")),
        ("POST", f"{foreign}/delivery-operations/dlv_unknown/resolve?%ff", reader, (403, "session_required")),
        ("POST", f"{foreign}/delivery-operations/dlv_unknown/resolve?%ff", None, (404, "not_found")),
    )
    for method, path, token, refusal in table:
        assert checked_client.ask(method, path, bad, token=token).refusal == refusal, (method, path, token)


def test_an_owner_comes_before_the_request(checked_client: CheckedClient, mailbox: FilledMailbox) -> None:
    mailbox.grant(add_member(checked_client.appliance, "bob"))
    answer = checked_client.log_in("bob@example.org").ask("DELETE", f"/accounts/{mailbox.id}?unknown=1")
    assert (answer.refusal, answer.places) == ((403, "permission_denied"), ["owner"])
