"""Invalid messages to `/mcp`: refused with our own texts, and always answered."""

import json
from typing import Any

import pytest
from webtest import TestApp

from mailbox_appliance.mcp_server import protocol
from tests.checked_client import CheckedClient
from tests.mcp_server.posted import CURRENT, PREVIOUS, calling, message, post

VERSIONS = pytest.mark.parametrize("version", [PREVIOUS, CURRENT])
CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"get_status","arguments":%b}}'

#: Bodies, the code of the refusal, and the ID that is echoed.
REFUSED: tuple[tuple[bytes, int, Any], ...] = (
    (b"", -32700, None),
    (b"{", -32700, None),
    (b"{} {}", -32700, None),
    (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', -32700, None),
    (CALL % b'{"a": NaN}', -32700, None),
    (CALL % b'{"a": "\\ud83d"}', -32700, None),
    (CALL % b'{"a": "\xff"}', -32700, None),
    (CALL % (b'{"a":' * 100_000 + b"1" + b"}" * 100_000), -32700, None),
    (b"5", -32600, None),
    (b'"a"', -32600, None),
    (b"null", -32600, None),
    (b"[]", -32600, None),
    (b"[" * 100_000, -32600, None),
    (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, None),
    (b"{}", -32600, None),
    (b'{"id":1,"method":"ping"}', -32600, 1),
    (b'{"jsonrpc":"1.0","id":"a","method":"ping"}', -32600, "a"),
    (b'{"jsonrpc":2.0,"id":"a","method":"ping"}', -32600, "a"),
    (b'{"jsonrpc":"2.0","id":1}', -32600, 1),
    (b'{"jsonrpc":"2.0"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}', -32600, None),
    (b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % (b"9" * 5000), -32600, None),
    (b'{"jsonrpc":"2.0","id":"%b","method":5}' % (b"x" * 201), -32600, None),
    (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a"}}', -32600, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32602, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"a"}', -32602, 1),
)


@VERSIONS
def test_what_is_no_message_is_refused_in_words_of_ours(app: TestApp, ada: CheckedClient, version: str) -> None:
    for body, code, its_id in REFUSED:
        answer = post(app, ada.token, body, version=version)
        told = answer.json
        assert (answer.status, told["error"]["code"], told["id"]) == (400, code, its_id), body[:80]
        assert answer.headers["content-type"] == "application/json"
        said = told["error"]["message"]
        assert said.endswith(".")
        assert len(said) < 150
        assert "alidation" not in said


def test_what_the_sdk_cannot_read_is_refused_in_the_same_words(app: TestApp, ada: CheckedClient) -> None:
    told = post(app, ada.token, CALL % (b'{"a":' * 500 + b"1" + b"}" * 500))
    assert (told.status, told.json["error"]) == (400, {"code": -32700, "message": protocol.UNREADABLE})


@pytest.mark.parametrize("its_id", ["a", "", "x" * 5000, 0, -1, 2**63 - 1])
def test_a_good_id_is_echoed(app: TestApp, ada: CheckedClient, its_id: str | int) -> None:
    assert post(app, ada.token, message("ping") | {"id": its_id}).json == {
        "jsonrpc": "2.0",
        "id": its_id,
        "result": {},
    }


def test_whatever_else_stands_in_a_message_does_not_matter() -> None:
    found = protocol.read_message(b' {"jsonrpc":"2.0","method":"x","params":null,"result":1,"more":[1]} ')
    assert (found.method, found.short_id) == ("x", None)


@VERSIONS
def test_a_method_that_is_not_found_is_echoed_only_where_it_is_short(
    app: TestApp, ada: CheckedClient, version: str
) -> None:
    for name in ("x", "x" * 200, "x" * 201, "x" * 100_000):
        answer = post(app, ada.token, json.dumps(message(name)).encode(), version=version)
        if version == PREVIOUS or len(name) > 200:
            assert answer.json["error"]["code"] == -32601
            assert answer.status == (200 if version == PREVIOUS else 404)
        assert answer.json["id"] == 1
        assert len(answer.content) < 600


@pytest.mark.parametrize("version", ["1999-01-01", "2025-06-18, 2025-11-25", "x" * 5000, ""])
def test_a_version_that_is_not_spoken_is_told_which_are(app: TestApp, ada: CheckedClient, version: str) -> None:
    answer = post(app, ada.token, calling("get_status"), version=version)
    error = answer.json["error"]
    assert (answer.status, error["code"], answer.json["id"]) == (400, -32022, 1)
    assert error["data"] == {"supported": [CURRENT], "requested": version[:100]}
    for spoken in ("2024-11-05", "2025-03-26", "2025-06-18", PREVIOUS, CURRENT):
        assert spoken in error["message"]


@VERSIONS
def test_all_tools_are_listed_at_once(app: TestApp, ada: CheckedClient, version: str) -> None:
    refused = post(app, ada.token, message("tools/list", cursor="zzz"), version=version)
    assert refused.json["error"]["code"] == -32602
    assert "cursor" in refused.json["error"]["message"]
    assert len(post(app, ada.token, message("tools/list"), version=version).result["tools"]) == 25


# --- what a body is, and what is taken for an answer ------------------------------------------------------------------


@VERSIONS
@pytest.mark.parametrize(
    ("media_type", "is_good"),
    [
        ("application/json", True),
        ("APPLICATION/Json", True),
        ("application/json; charset=utf-8", True),
        ('application/json;charset="UTF-8"', True),
        ("application/json; profile=x", True),
        ("application/json; charset=utf-16", False),
        ("application/jsonx", False),
        ("application/x-www-form-urlencoded", False),
        ("text/plain", False),
        ("", False),
    ],
)
def test_the_body_is_json_by_its_type(
    app: TestApp, ada: CheckedClient, version: str, media_type: str, is_good: bool
) -> None:
    answer = post(app, ada.token, message("ping"), version=version, headers={"Content-Type": media_type})
    if is_good:
        assert answer.json["id"] == 1
    else:
        assert answer.refusal == (415, "unsupported_media_type")


@VERSIONS
@pytest.mark.parametrize(
    ("accept", "is_good"),
    [
        (None, True),
        ("", True),
        ("*/*", True),
        ("application/*", True),
        ("application/json", True),
        ("APPLICATION/JSON; q=0.1, text/event-stream", True),
        ("text/html, */*;q=0.001", True),
        ("text/event-stream", False),
        ("text/html", False),
        ("application/json;q=0", False),
        ("application/json; q=0.000, */*", False),
        ("*/*;q=0", False),
    ],
)
def test_json_is_the_answer_unless_it_is_excluded(
    app: TestApp, ada: CheckedClient, version: str, accept: str | None, is_good: bool
) -> None:
    answer = post(app, ada.token, message("tools/list"), version=version, headers={"Accept": accept})
    if is_good:
        assert answer.result["tools"]
    else:
        assert answer.refusal == (406, "invalid_request")
        assert answer.json["error"]["details"][0]["path"] == "header:Accept"
