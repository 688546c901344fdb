"""What an operation makes of its signature, and the fingerprint by which a retry is told from another request."""

from contextlib import ExitStack

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Invalid, SessionRequired, Unauthenticated
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.operations import accounts, messages, sending, sessions
from mailbox_appliance.operations.operation import LOCAL, Access, Caller, Request, operation
from tests.operations.filled import add_key, add_member


@operation(access=Access.ANYBODY)
def greet(appliance: Appliance, caller: Caller, user_name: str, times: int = 1) -> OperationResult[str]:
    """Greet somebody.

    As often as is wished.
    """
    return OperationResult(" ".join([f"Hello {user_name}"] * times), ("Polite.",))


def test_the_signature_is_the_contract() -> None:
    assert greet.help == "Greet somebody.\n\nAs often as is wished."
    assert list(greet.parameters) == ["userName", "times"]
    assert [parameter.is_required for parameter in greet.parameters.values()] == [True, False]
    assert (greet.result, greet.body, greet.account) == (str, None, None)
    assert messages.list_messages.account == "account"
    assert messages.list_messages.rights.needs == (Capability.MAIL_READ,)
    assert sending.send.parameters["idempotencyKey"].pointer == "header:Idempotency-Key"
    assert messages.list_messages.parameters["limit"].pointer == "query:limit"
    assert sessions.log_in.body is not None
    assert accounts.remove_account.rights.owner


def test_inside_the_house_it_is_the_function(appliance: Appliance) -> None:
    assert greet(appliance, Caller(LOCAL), "Ada", times=2).data == "Hello Ada Hello Ada"


# Values as text, and what is told of them: path and the beginning of the message.
GIVEN: tuple[tuple[dict[str, str], str], ...] = (
    ({}, "query:userName"),
    ({"times": "2"}, "query:userName"),
    ({"userName": "Ada", "times": "two"}, "times"),
    ({"userName": "Ada", "times": ""}, "times"),
    ({"userName": "Ada", "user_name": "Ada"}, "user_name"),
    ({"userName": "Ada", "accountId": "acc_1"}, "accountId"),
)


@pytest.mark.parametrize(("values", "place"), GIVEN)
def test_values_are_checked_before_the_function_runs(appliance: Appliance, values: dict[str, str], place: str) -> None:
    with pytest.raises(Invalid) as caught:
        greet.call(appliance, LOCAL, None, Request(values=values))
    assert [detail.path for detail in caught.value.details] == [place]


def test_a_fault_names_where_the_door_had_the_value(appliance: Appliance) -> None:
    request = Request(values={"userName": "Ada", "times": "x"}, places={"userName": "query", "times": "query"})
    with pytest.raises(Invalid) as caught:
        greet.call(appliance, LOCAL, None, request)
    assert caught.value.details[0].path == "query:times"
    assert caught.value.message.startswith("The request is not valid: query:times: ")


def test_a_value_may_come_decoded(appliance: Appliance) -> None:
    answer = greet.call(appliance, LOCAL, None, Request(values={"userName": "Ada", "times": "2"}))
    assert (answer.data, answer.warnings) == ("Hello Ada Hello Ada", ("Polite.",))


def test_a_door_without_http_hands_over_decoded_bodies(appliance: Appliance) -> None:
    with pytest.raises(Invalid) as caught:
        sessions.log_in.call(appliance, LOCAL, None, Request(body={"email": "ada@example.org", "password": "x"}))
    assert caught.value.details[0].path == "/deviceName"


def test_a_credential_is_asked_for(appliance: Appliance) -> None:
    member = add_member(appliance, "bob")
    _, key = add_key(appliance, member, "mail.read")
    for token in (None, "", "mbxk_x", "x" * 1000):
        with pytest.raises(Unauthenticated):
            sessions.who_am_i.call(appliance, LOCAL, token, Request())
    with pytest.raises(SessionRequired):
        sessions.list_sessions.call(appliance, LOCAL, key, Request())
    assert sessions.who_am_i.call(appliance, LOCAL, key, Request()).data.member.id == member


def test_what_asks_servers_takes_a_place(appliance: Appliance) -> None:
    @operation(access=Access.ANYBODY, asks_servers=True)
    def ask(appliance: Appliance, caller: Caller) -> int:
        """How many places are left while this one is taken."""
        with ExitStack() as taken:
            return sum(taken.enter_context(appliance.io_slot()) for _ in range(10))

    for _ in range(2):  # and gives it back
        assert ask.call(appliance, LOCAL, None, Request()).data == 3


# Two requests, and whether the second counts as a retry of the first.
BODY = {"to": [{"email": "a@b.c"}], "subject": "ü", "body": {"text": "1"}}
RETRIES: tuple[tuple[dict[str, str], object, bool], ...] = (
    ({"accountId": "acc_1"}, BODY, True),
    ({"accountId": "acc_1"}, dict(reversed(BODY.items())), True),
    ({"accountId": "acc_1", "idempotencyKey": "other"}, BODY, True),
    ({"accountId": "acc_2"}, BODY, False),
    ({"accountId": "acc_1"}, BODY | {"subject": "U"}, False),
    ({"accountId": "acc_1"}, BODY | {"cc": []}, False),
    ({"accountId": "acc_1"}, BODY | {"body": {"text": 1}}, False),
    ({"accountId": "acc_1"}, {}, False),
)


@pytest.mark.parametrize(("values", "body", "is_retry"), RETRIES)
def test_a_retry_is_told_by_path_and_body(values: dict[str, str], body: object, *, is_retry: bool) -> None:
    send = sending.send
    first = send.fingerprint({"accountId": "acc_1"}, BODY)
    assert len(first) == 64
    assert (send.fingerprint(values, body) == first) is is_retry


def test_an_account_is_no_body() -> None:
    @operation()
    def show(appliance: Appliance, caller: Caller, account: Account) -> None:
        """Show."""

    assert (show.account, show.body) == ("account", None)
