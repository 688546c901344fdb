"""The error contract as tables: what is wrong with a request, and the reported error."""

import json
from collections.abc import Iterator, Mapping

import pytest

from mailbox_appliance.appliance import Appliance
from tests.checked_client import PASSWORD, CheckedClient
from tests.operations.filled import FilledMailbox

LOGIN = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "test"}
SERVER = {"host": "127.0.0.1", "port": 1, "security": "none", "username": "u", "password": "p"}
ACCOUNT = {"email": "box@example.org", "imap": SERVER, "smtp": SERVER}
MESSAGE = {"to": [{"email": "bob@example.test"}], "body": {"text": "Hi"}}
KEY = {"Idempotency-Key": "k"}
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedClient]:
    """Yield one appliance for all these requests, since none of them changes anything."""
    appliance = Appliance(tmp_path_factory.mktemp("errors"))
    yield CheckedClient(appliance).set_up()
    appliance.stop()


@pytest.fixture(scope="module")
def mailbox(asking: CheckedClient) -> FilledMailbox:
    return FilledMailbox(asking.appliance, asking.member["id"])


NOT_JSON: tuple[bytes, ...] = (
    b"",
    b"\xff\xfe",
    b'{"email": "\xe9"}',
    b"NaN",
    b'{"email": NaN}',
    b'{"email": Infinity}',
    b'{"email": -Infinity}',
    b'{"email": 1e400}',
    b'{"email": ' + b"1" * 5000 + b"}",
    b"[" * 10_000,
    b"[" * 10_000 + b"]" * 10_000,
    b'{"email":' * 10_000 + b"1" + b"}" * 10_000,
    b'{"email": "a\\ud800"}',
    b'{"email": "a\x00b"}',
    b"{'email': 1}",
    b'{"email": 1,}',
    b'{"email": 1} {}',
    b'\xef\xbb\xbf{"email": 1}',
    b"email=ada%40example.org",
)


@pytest.mark.parametrize("body", NOT_JSON, ids=lambda body: repr(body[:20]))
def test_what_is_not_json_is_told(asking: CheckedClient, body: bytes) -> None:
    answer = asking.ask("POST", "/auth/login", body, headers={"Content-Type": "application/json"})
    assert answer.refusal == (400, "invalid_json")
    assert answer.places == [""]
    assert len(answer.content) < 1000


# The body of a sign-in, and the place of the fault.
BAD_LOGINS: tuple[tuple[object, str], ...] = (
    ([], ""),
    ([LOGIN], ""),
    ("text", ""),
    (7, ""),
    (False, ""),
    ({}, "/email"),
    (LOGIN | {"unknown": 1}, "/unknown"),
    (LOGIN | {"a/b~c": 1}, "/a~1b~0c"),
    (LOGIN | {"x - at `$.password`": 1}, "/x - at `$.password`"),
    (LOGIN | {"Email": "ada@example.org"}, "/Email"),
    (LOGIN | {"device_name": "test"}, "/device_name"),
    ({name: value for name, value in LOGIN.items() if name != "deviceName"}, "/deviceName"),
    (LOGIN | {"email": None}, "/email"),
    (LOGIN | {"email": 7}, "/email"),
    (LOGIN | {"email": ["ada@example.org"]}, "/email"),
    (LOGIN | {"email": "ada"}, "/email"),
    (LOGIN | {"email": "ada@example.org\n"}, "/email"),
    (LOGIN | {"email": "a\r\nb@example.org"}, "/email"),
    (LOGIN | {"email": f"{'a' * 250}@example.org"}, "/email"),
    (LOGIN | {"password": True}, "/password"),
    (LOGIN | {"password": "x" * 5000}, "/password"),
    (LOGIN | {"deviceName": ""}, "/deviceName"),
    (LOGIN | {"deviceName": "x" * 201}, "/deviceName"),
)


@pytest.mark.parametrize(("body", "place"), BAD_LOGINS, ids=lambda value: str(value)[-30:])
def test_a_fault_in_a_body_is_told_with_its_place(asking: CheckedClient, body: object, place: str) -> None:
    answer = asking.ask("POST", "/auth/login", json.dumps(body).encode())
    assert answer.refusal == (400, "invalid_request")
    assert answer.places == [place]


def test_null_is_no_body(asking: CheckedClient) -> None:
    assert asking.ask("POST", "/auth/login", b"null").places == [""]


# Changes to a body for POST /accounts, and the place of the fault.
BAD_ACCOUNTS: tuple[tuple[Mapping[str, object], str], ...] = (
    ({"imap": SERVER | {"unknown": 1}}, "/imap/unknown"),
    ({"smtp": SERVER | {"port": "25"}}, "/smtp/port"),
    ({"smtp": SERVER | {"port": 0}}, "/smtp/port"),
    ({"smtp": SERVER | {"port": 65536}}, "/smtp/port"),
    ({"smtp": SERVER | {"port": 25.5}}, "/smtp/port"),
    ({"smtp": SERVER | {"port": True}}, "/smtp/port"),
    ({"smtp": SERVER | {"port": 10**30}}, "/smtp/port"),
    ({"smtp": SERVER | {"security": "ssl"}}, "/smtp/security"),
    ({"smtp": SERVER | {"security": "z" * 100_000}}, "/smtp/security"),
    ({"smtp": SERVER | {"security": "x' - at `$.email`"}}, "/smtp/security"),
    ({"imap": SERVER | {"host": ""}}, "/imap/host"),
    ({"imap": SERVER | {"host": "a\r\nb"}}, "/imap/host"),
    ({"imap": SERVER | {"username": "a\r\nLOGOUT"}}, "/imap/username"),
    ({"imap": SERVER | {"password": "a\0b"}}, "/imap/password"),
    ({"imap": None}, "/imap"),
    ({"displayName": ""}, "/displayName"),
    ({"displayName": "a\nb"}, "/displayName"),
    ({"displayName": "x" * 201}, "/displayName"),
    ({"ownerMemberId": "mem_1"}, "/ownerMemberId"),
    ({"u" * 100_000: 1}, "/" + "u" * 200 + "..."),
)


@pytest.mark.parametrize(("change", "place"), BAD_ACCOUNTS, ids=lambda value: str(value)[-40:])
def test_a_fault_deeper_in_a_body_is_told_with_its_place(
    asking: CheckedClient, change: Mapping[str, object], place: str
) -> None:
    answer = asking.ask("POST", "/accounts", {**ACCOUNT, **change})
    assert answer.refusal == (400, "invalid_request")
    assert answer.places == [place]
    assert len(answer.content) < 2000
    assert asking.ask("GET", "/accounts").data == []


# Changes to a message to send, and the place of the fault.
BAD_MESSAGES: tuple[tuple[Mapping[str, object], str], ...] = (
    ({"unknown": 1}, "/unknown"),
    ({"to": [{"email": "bob@example.test", "unknown": 1}]}, "/to/0/unknown"),
    ({"to": [{"email": "bob@example.test"}, {"email": "bob"}]}, "/to/1/email"),
    ({"to": [{"email": "bob@example.test", "name": ""}]}, "/to/0/name"),
    ({"to": {"email": "bob@example.test"}}, "/to"),
    ({"to": []}, "/to"),
    ({"body": "Hi"}, "/body"),
    ({"body": {"text": 7}}, "/body/text"),
    ({"body": {"markdown": "Hi"}}, "/body/markdown"),
    ({"subject": ["Hi"]}, "/subject"),
    ({"subject": "a\r\nBcc: eve@example.test"}, "/subject"),
    ({"replyAll": "yes"}, "/replyAll"),
    ({"replyToMessageId": ""}, "/replyToMessageId"),
    ({"attachments": [{"filename": "a", "mimeType": "text/plain", "content": "%%%"}]}, "/attachments/0/content"),
    ({"attachments": [{"filename": "a", "mimeType": "text/plain"}]}, "/attachments/0/content"),
    ({"attachments": [{"filename": "", "mimeType": "text/plain", "content": ""}]}, "/attachments/0/filename"),
    ({"draftId": "msg_1"}, "/to"),
)


@pytest.mark.parametrize(("change", "place"), BAD_MESSAGES, ids=lambda value: str(value)[-40:])
def test_a_fault_in_a_message_is_told_with_its_place(
    asking: CheckedClient, mailbox: FilledMailbox, change: Mapping[str, object], place: str
) -> None:
    body = {**MESSAGE, **change}
    answer = asking.ask("POST", f"/accounts/{mailbox.id}/send", body, headers=KEY)
    assert answer.refusal == (400, "invalid_request")
    assert answer.places == [place]


# For a mailbox: the path with its query, and the places of the faults.
BAD_QUERIES: tuple[tuple[str, list[str]], ...] = (
    ("/messages?unknown=1", ["query:unknown"]),
    ("/messages?unknown", ["query:unknown"]),
    ("/messages?Limit=1", ["query:Limit"]),
    ("/messages?limit=0", ["query:limit"]),
    ("/messages?limit=101", ["query:limit"]),
    ("/messages?limit=-1", ["query:limit"]),
    ("/messages?limit=", ["query:limit"]),
    ("/messages?limit=ten", ["query:limit"]),
    ("/messages?limit=1.5", ["query:limit"]),
    ("/messages?limit=" + "9" * 5000, ["query:limit"]),
    ("/messages?limit=1&limit=1", ["query:limit"]),
    ("/messages?limit=1&limit=2&cursor=&cursor=x", ["query:limit", "query:cursor"]),
    ("/messages?cursor=", ["query:cursor"]),
    ("/messages?cursor=null", ["query:cursor"]),
    ("/messages?cursor=%20", ["query:cursor"]),
    ("/messages?cursor=" + "A" * 201, ["query:cursor"]),
    ("/messages?cursor=OTk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5", ["query:cursor"]),
    ("/messages?cursor=MDE", ["query:cursor"]),
    ("/messages?cursor=2026-01-01", ["query:cursor"]),
    ("/messages?folder=", ["query:folder"]),
    ("/messages?folder=" + "x" * 1025, ["query:folder"]),
    ("/messages?accountId=acc_1", ["query:accountId"]),
    ("/messages?folder=%ff", ["query:"]),
    ("/messages?" + "&".join(f"a{number}" for number in range(101)), ["query:"]),
    ("/folders?limit=1", ["query:limit"]),
    ("?full=1", ["query:full"]),
    ("/threads/thr_1?cursor=x%0A", ["query:cursor"]),
    ("/messages/msg_1?messageId=msg_2", ["query:messageId"]),
    ("/messages/msg_1?format=text", ["query:format"]),
)


@pytest.mark.parametrize(("path", "places"), BAD_QUERIES, ids=lambda value: str(value)[:40])
def test_a_fault_in_a_query_is_told_with_its_name(
    asking: CheckedClient, mailbox: FilledMailbox, path: str, places: list[str]
) -> None:
    answer = asking.ask("GET", f"/accounts/{mailbox.id}{path}")
    assert answer.refusal == (400, "invalid_request")
    assert answer.places == places


@pytest.mark.parametrize("path", ["/accounts", "/me", "/me/sessions", "/status", "/"])
def test_no_endpoint_takes_an_unknown_query_parameter(asking: CheckedClient, path: str) -> None:
    for name in ("accountId", "unknown", "idempotencyKey"):
        answer = asking.ask("GET", f"{path}?{name}=1")
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), [f"query:{name}"])


BAD_KEYS: tuple[Mapping[str, str], ...] = (
    {},
    {"Idempotency-Key": ""},
    {"Idempotency-Key": "two words"},
    {"Idempotency-Key": "k" * 256},
    {"Idempotency-Key": "kü"},
    {"Idempotency-Key": "k\x7f"},
)


@pytest.mark.parametrize("headers", BAD_KEYS, ids=str)
def test_a_fault_in_a_header_is_told_with_its_name(
    asking: CheckedClient, mailbox: FilledMailbox, headers: Mapping[str, str]
) -> None:
    answer = asking.ask("POST", f"/accounts/{mailbox.id}/send", MESSAGE, headers=headers)
    assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["header:Idempotency-Key"])


def test_the_idempotency_key_is_taken_from_the_header_only(asking: CheckedClient, mailbox: FilledMailbox) -> None:
    for headers in ({}, KEY):
        path = f"/accounts/{mailbox.id}/send?idempotencyKey=k"
        answer = asking.ask("POST", path, MESSAGE, headers=headers)
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["query:idempotencyKey"])


# Operations that list 415, and operations where a wrong type is 400.
TYPES: tuple[tuple[str, str, bool], ...] = (
    ("/setup", "text/plain", True),
    ("/auth/logout", "application/x-www-form-urlencoded", True),
    ("/auth/login", "text/plain", False),
    ("/auth/login", "application/x-www-form-urlencoded", False),
    ("/auth/login", "application/jsonp", False),
    ("/auth/login", "text/json", False),
    ("/accounts", "multipart/form-data; boundary=x", False),
)


@pytest.mark.parametrize(("path", "kind", "is_listed"), TYPES)
def test_a_body_of_another_type_is_refused(asking: CheckedClient, path: str, kind: str, *, is_listed: bool) -> None:
    answer = asking.ask("POST", path, b'{"a": 1}', headers={"Content-Type": kind})
    if is_listed:
        assert (answer.refusal, answer.places) == ((415, "unsupported_media_type"), [])
    else:
        assert (answer.refusal, answer.places) == ((400, "invalid_request"), ["header:Content-Type"])


@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"]
)
def test_json_may_be_named_in_several_ways(asking: CheckedClient, kind: str) -> None:
    assert asking.ask("POST", "/auth/login", LOGIN, headers={"Content-Type": kind}).status == 200


# Path, size in MiB, and the error if the body exceeds the limit of the endpoint.
SIZES: tuple[tuple[str, int, tuple[int, str]], ...] = (
    ("/auth/login", 2, (413, "body_too_large")),
    ("/setup", 2, (413, "body_too_large")),
    ("/accounts", 2, (413, "body_too_large")),
    ("/auth/logout", 2, (413, "body_too_large")),
    ("/accounts/{id}/send", 37, (400, "message_too_large")),
    ("/accounts/{id}/drafts", 37, (413, "body_too_large")),
    ("/accounts/{id}/messages/actions", 2, (400, "message_too_large")),
)


@pytest.mark.parametrize(("path", "size", "refusal"), SIZES)
def test_a_body_over_the_limit_is_refused(
    asking: CheckedClient, mailbox: FilledMailbox, path: str, size: int, refusal: tuple[int, str]
) -> None:
    body = b'{"subject": "' + b"x" * (size * MIB) + b'"}'
    answer = asking.ask("POST", path.format(id=mailbox.id), body, headers=KEY)
    assert answer.refusal == refusal
    assert f"larger than the limit of {36 if size > 36 else 1} MiB" in answer.message


def test_a_body_at_the_limit_is_read(asking: CheckedClient) -> None:
    body = json.dumps(LOGIN).encode()
    body += b" " * (MIB - len(body))
    assert asking.ask("POST", "/auth/login", body).status == 200
    assert asking.ask("POST", "/auth/login", body + b" ").refusal == (413, "body_too_large")
