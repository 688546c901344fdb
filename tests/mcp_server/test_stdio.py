"""The protocol on pipes: every request is answered, in any order, and nothing else is written."""

import asyncio
import json
import os
import select
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

import pytest

from mailbox_appliance.mcp_server.protocol import UNREADABLE
from mailbox_appliance.mcp_server.stdio import TOO_LONG, serve_files, split_lines
from tests.mcp_server.posted import PREVIOUS, calling, message
from tests.web.wire import eventually

HELLO = message(
    "initialize", protocolVersion=PREVIOUS, capabilities={}, clientInfo={"name": "test", "version": "1"}
) | {"id": "hello"}
RESULT = {"content": [{"type": "text", "text": "done"}], "structuredContent": {"data": 1}}


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b\nc", b"\n"], [b"ab", b"c"]),
        ([b"a\n\nb"], [b"a", b"", b"b"]),
        ([b"12345678\n"], [b"12345678"]),
        ([b"1234", b"56789\n", b"a\n"], [TOO_LONG, b"a"]),
        ([b"123456789", b"123456789", b"\na\n"], [TOO_LONG, b"a"]),
        ([b"a\n123456789"], [b"a", TOO_LONG]),
        ([b"a\r\n"], [b"a\r"]),
    ],
)
def test_lines(chunks: list[bytes], lines: list[bytes]) -> None:
    assert list(split_lines(chunks, 8)) == lines


class Talk:
    """An MCP client at the other ends of the pipes. `posts` decides the appliance's responses."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, str]] = []
        self.posts: Callable[[Any], tuple[int, bytes]] = lambda _: (200, _result(RESULT))
        self.source, self._say = os.pipe()
        self._hear, self.sink = os.pipe()
        self._rest = b""
        self.ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(serve_files(self._post, self.source, self.sink))
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)
        os.close(self.sink)

    def _post(self, body: bytes, headers: dict[str, str], advice: str) -> tuple[int, bytes]:
        assert headers["MCP-Protocol-Version"] == PREVIOUS
        given = json.loads(body)
        self.asked.append((given["params"], advice))
        return self.posts(given)

    def say(self, *given: object) -> None:
        for each in given:
            os.write(self._say, (each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n")

    def hear(self) -> Any:
        while b"\n" not in self._rest:
            assert select.select([self._hear], [], [], 10)[0], "nothing is said"
            self._rest += os.read(self._hear, 1 << 16) or pytest.fail("nothing more is said")
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def call(self, name: str, **arguments: Any) -> Any:
        self.say(calling(name, **arguments))
        return self.hear()

    def end(self) -> list[Any]:
        """End the input; return all that is written afterwards."""
        os.close(self._say)
        self._say = -1
        said = self._rest
        while chunk := os.read(self._hear, 1 << 16):
            said += chunk
        return [json.loads(line) for line in said.splitlines()]

    def stop_listening(self) -> None:
        os.close(self._hear)
        self._hear = -1

    def close(self) -> None:
        for each in (self._say, self._hear):
            with suppress(OSError):
                os.close(each)
        self._thread.join(10)
        os.close(self.source)


def _result(result: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode()


@pytest.fixture
def talk() -> Iterator[Talk]:
    talking = Talk()
    talking.say(HELLO)
    assert talking.hear()["result"]["serverInfo"]["name"] == "mailbox-appliance"
    yield talking
    talking.close()


def test_tools_are_those_of_the_appliance(talk: Talk) -> None:
    tool = {"name": "x", "description": "A tool.", "inputSchema": {"type": "object"}}
    talk.posts = lambda given: (200, _result({"tools": [tool]} if given["method"] == "tools/list" else RESULT))
    talk.say(message("tools/list"))
    assert talk.hear()["result"]["tools"] == [tool]
    assert talk.call("x", a=[1, "ä\u2028"])["result"] == RESULT | {"isError": False}
    assert talk.asked[-1][0] == {"name": "x", "arguments": {"a": [1, "ä\u2028"]}}


def test_what_is_fenced_stays_fenced(talk: Talk) -> None:
    text = "Note\n<untrusted-1>\nto whom\n</untrusted-1>"
    content = {"data": {}, "untrusted": ["/warnings/0"], "warnings": ["to whom"]}
    result = {"content": [{"type": "text", "text": text}], "structuredContent": content}
    talk.say(HELLO)
    talk.hear()
    talk.posts = lambda _: (200, _result(result))
    answer = talk.call("get_email")["result"]
    assert (answer["content"], answer["structuredContent"]) == (result["content"], content)


def test_what_takes_long_holds_nothing_up(talk: Talk) -> None:
    going_on = threading.Event()
    talk.posts = lambda given: (
        going_on.wait(10) and 200 if given["params"]["name"] == "slow" else 200,
        _result(RESULT),
    )
    talk.say(calling("slow") | {"id": 7}, calling("quick") | {"id": 8}, message("ping") | {"id": 9})
    assert {talk.hear()["id"], talk.hear()["id"]} == {8, 9}
    going_on.set()
    assert talk.hear()["id"] == 7


def test_when_the_input_ends_what_was_asked_is_answered(talk: Talk) -> None:
    going_on = threading.Event()
    talk.posts = lambda _: (200 if going_on.wait(10) else 500, _result(RESULT))
    talk.say(calling("a") | {"id": 7}, calling("b") | {"id": 8})
    threading.Timer(0.1, going_on.set).start()
    assert {answer["id"]: answer["result"]["content"] for answer in talk.end()} == dict.fromkeys(
        (7, 8), RESULT["content"]
    )
    assert talk.ended.result(10) is None


def test_a_call_that_is_given_up_does_no_harm(talk: Talk) -> None:
    going_on = threading.Event()
    talk.posts = lambda given: (
        200 if given["params"]["name"] == "quick" or going_on.wait(10) else 500,
        _result(RESULT),
    )
    talk.say(calling("slow") | {"id": 7})
    assert eventually(lambda: len(talk.asked) == 1)
    given_up = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    talk.say(given_up, {**given_up, "params": {}}, {**given_up, "params": {"requestId": [7]}})
    assert talk.call("quick")["result"]["content"] == RESULT["content"]
    going_on.set()
    assert talk.call("quick")["id"] == 1
    assert talk.end() == []  # it is never answered, nor waited for
    assert talk.ended.result(10) is None


def test_what_is_no_message_is_answered_as_json_rpc_says(talk: Talk) -> None:
    unreadable = {"code": -32700, "message": UNREADABLE}
    talk.say(b"garbage", b"", b"  ", b"\xff\xfe", b'{"a":' * 50_000, b'{"jsonrpc":"2.0","method":"x\xff"}')
    for _ in range(4):
        assert talk.hear() == {"jsonrpc": "2.0", "id": None, "error": unreadable}
    # Every message with an ID is answered, even an invalid one, so that no client waits forever.
    for its_id in (1.5, None, [1], True):
        talk.say(message("ping") | {"id": its_id})
        assert (told := talk.hear())["error"]["code"] == -32600
        assert told["id"] is None
    talk.say([message("ping")], message("ping") | {"jsonrpc": "1.0"}, message("x" * 100_000), message("x"))
    for code, its_id in ((-32600, None), (-32600, 1), (-32601, 1), (-32601, 1)):
        told = talk.hear()
        assert (told["error"]["code"], told["id"]) == (code, its_id)
        assert len(json.dumps(told)) < 300
    assert talk.call("x")["result"]["content"] == RESULT["content"]


def error_object(code: str, message: str) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, "requestId": "req_1"}}).encode()


def test_errors_of_the_appliance_are_passed_on(talk: Talk) -> None:
    talk.posts = lambda _: (401, error_object("unauthenticated", "Log in again."))
    answer = talk.call("x")["result"]
    assert answer["isError"]
    assert json.loads(answer["content"][0]["text"])["error"] == {
        "code": "unauthenticated",
        "message": "Log in again.",
        "requestId": "req_1",
    }
    talk.say(message("tools/list"))
    assert talk.hear()["error"] == {"code": -32603, "message": "Log in again."}
    fault = {"code": -32602, "message": "There is no tool of this name."}
    talk.posts = lambda _: (200, json.dumps({"jsonrpc": "2.0", "id": 1, "error": fault}).encode())
    assert talk.call("x")["error"] == fault
    for nonsense in (b"", b"<html>", b"[]", b"null", b'{"data": 1}', b'{"error": "x"}', b"[" * 100_000):
        talk.posts = lambda _, given=nonsense: (502, given)  # type: ignore[misc]
        (content,) = talk.call("x")["result"]["content"]
        assert json.loads(content["text"])["error"]["code"] == "unexpected_answer"


def test_where_the_answer_is_lost_it_is_told_what_to_do(talk: Talk) -> None:
    def told(**arguments: Any) -> str:
        (content,) = talk.call("send_email", **arguments)["result"]["content"]
        return str(json.loads(content["text"])["error"]["message"])

    talk.posts = lambda _: (0, error_object("appliance_unreachable", f"It was lost. {talk.asked[-1][1]}"))
    keyed, other = told(idempotencyKey="k"), told()
    assert "repeat the call with the same idempotencyKey" in keyed
    assert "Check before you repeat" in other
    talk.posts = lambda _: (0, error_object("appliance_unreachable", "It was lost, in other words."))
    assert (told(idempotencyKey="k"), told()) == ("It was lost, in other words.",) * 2
    talk.posts = lambda _: (-1, error_object("other", "The certificate is another one."))
    assert told() == "The certificate is another one."
    talk.posts = lambda _: (-1, error_object("appliance_unreachable", "No appliance answers there."))
    assert told(idempotencyKey="k").endswith("repeat the call with the same idempotencyKey once the appliance runs.")
    assert told().endswith("Nothing was done: repeat the call once the appliance runs.")


def test_where_nobody_listens_it_ends(talk: Talk) -> None:
    talk.stop_listening()
    talk.say(calling("x"))
    with pytest.raises(BrokenPipeError):
        talk.ended.result(10)
