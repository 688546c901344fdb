"""What is read as a request, what is refused, and bodies over the limit; over real sockets."""

import re

import pytest

from mailbox_appliance.web.server.memory import ServerBounds
from tests.web.wire import CHUNKED, GET, POST, Wire, listening

SMALL = ServerBounds(max_body=50_000, max_discarded=200_000, max_header=2_000, upload_rate=100, linger_seconds=0.5)

MALFORMED = {
    "no request": b"nonsense\r\n\r\n",
    "no version": b"GET /\r\n\r\n",
    "another version": b"GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    "TLS to the plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03secret",
    "method in lower case": b"get / HTTP/1.1\r\nHost: x\r\n\r\n",
    "address with a space": b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n",
    "address with an open bracket": b"GET http://[secret/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "no Host": b"GET / HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET / HTTP/1.1\r\nHost: x\r\nHost: secret\r\n\r\n",
    "header without colon": b"GET / HTTP/1.1\r\nHost: x\r\nsecret\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\nHost: x\r\nName : secret\r\n\r\n",
    "header without a name": b"GET / HTTP/1.1\r\nHost: x\r\n: secret\x00\r\n\r\n",
    "header with a name that is none": b"GET / HTTP/1.1\r\nHost: x\r\nsec(ret: a\x00\r\n\r\n",
    "first header folded": b"GET / HTTP/1.1\r\n secret\r\nHost: x\r\n\r\n",
    "bare newlines": b"GET / HTTP/1.1\nHost: x\n\n",
    "length in words": POST + b"Content-Length: secret\r\n\r\n",
    "negative length": POST + b"Content-Length: -1\r\n\r\n",
    "two lengths": POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na",
    "unknown coding": POST + b"Transfer-Encoding: gzip\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunked in two fields": POST + b"Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked twice, folded": POST + b"Transfer-Encoding: chunked\r\n , chunked\r\n\r\n0\r\n\r\n",
    "a coding before chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding after chunked": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "no coding, and a length": POST + b"Transfer-Encoding:\r\nContent-Length: 1\r\n\r\na",
    "absolute form without a host": b"GET http:///a HTTP/1.1\r\nHost: x\r\n\r\n",
    "chunked and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "chunked and length, with Expect": POST
    + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
    "chunked in HTTP/1.0": b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunk size in words": CHUNKED + b"secret\r\n",
    "negative chunk size": CHUNKED + b"-1\r\n",
    "chunk longer than said": CHUNKED + b"1\r\nab\r\n0\r\n\r\n",
    "chunk extension with control characters": CHUNKED + b"1;a=\x01\r\nb\r\n",
    "chunk line without end": CHUNKED + b"1" * 5_000,
    "trailer without end": CHUNKED + b"0\r\n" + b"Name: secret\r\n" * 1_000,
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
def test_malformed_requests_are_refused_in_our_error_shape(sent: bytes) -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        answer = wire.send(sent).answer()
        error = answer.json["error"]
        assert (answer.version, answer.status, answer.headers["connection"]) == ("HTTP/1.1", 400, "close")
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert error["code"] == "invalid_request"
        assert set(error) == {"code", "message", "requestId"}
        assert answer.headers["x-request-id"] == error["requestId"]
        assert re.fullmatch(r"req_[0-9a-z]{26}", error["requestId"])
        assert "secret" not in error["message"]
        assert wire.ended()


BAD_FIELDS = {
    "NUL": (b"Name: sec\x00ret", "Name"),
    "DEL": (b"Idempotency-Key: secret\x7f", "Idempotency-Key"),
    "a control character": (b"idempotency-KEY:\x01secret", "idempotency-KEY"),
    "bare CR": (b"Name: a\rsecret: b", "Name"),
    "bare LF": (b"Name: a\nsecret: b", "Name"),
    "in a folded line": (b"Other: x\r\nName: a\r\n secret\x1b: b", "Name"),
    "a long name": (b"n" * 900 + b": secret\x00", "n" * 100),
}


@pytest.mark.parametrize(("field", "name"), BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_a_field_with_a_character_that_none_may_have_is_named(field: bytes, name: str) -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        answer = wire.send(b"GET /a HTTP/1.1\r\nHost: x\r\n" + field + b"\r\nLast: y\r\n\r\n").answer()
        error = answer.json["error"]
        assert (answer.status, error["code"]) == (400, "invalid_request")
        assert [detail["path"] for detail in error["details"]] == [f"header:{name}"]
        assert "secret" not in str(error)
        assert wire.ended()


@pytest.mark.parametrize(("digits", "status"), [(1_000, 413), (5_000, 400)])
def test_a_length_of_thousands_of_digits_is_refused(digits: int, status: int) -> None:
    with listening(workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        assert wire.send(POST + b"Content-Length: " + b"1" * digits + b"\r\n\r\n").answer().status == status
        assert wire.ended()


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nName: " + b"a" * 3_000 + b"\r\n\r\n", 431, "headers_too_large"),
        (b"GET /" + b"a" * 3_000, 431, "headers_too_large"),
        (POST + b"Content-Length: 200001\r\n\r\n", 413, "body_too_large"),
        (POST + b"Content-Length: 200001\r\nExpect: 100-continue\r\n\r\n", 413, "body_too_large"),
        (CHUNKED + b"40000\r\n" + b"a" * 0x40000, 413, "body_too_large"),
    ],
    ids=["long header", "long address", "declared", "declared with Expect", "grown"],
)
def test_what_is_too_large_is_refused(sent: bytes, status: int, code: str) -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        answer = wire.send(sent).answer()
        assert (answer.status, answer.json["error"]["code"]) == (status, code)
        assert wire.ended()


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (POST + b"Content-Length: 3\r\n\r\nabc", b"abc"),
        (CHUNKED + b"3;name=value\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n", b"abcde"),
        (CHUNKED + b"1\r\na\r\n" * 5_000 + b"0\r\n\r\n", b"a" * 5_000),
        (CHUNKED + b"8000\r\n" + b"a" * 0x8000 + b"\r\n" + b"2\r\nbc\r\n0\r\n\r\n", b"a" * 0x8000 + b"bc"),
        (b"GET /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n", b""),
        (b"\r\n\r\n" + GET, b""),
        (b"GET http://elsewhere/a HTTP/1.1\r\nHost: x\r\n\r\n", b""),
    ],
    ids=["length", "chunks", "one-byte chunks", "large chunks", "Expect without body", "empty lines", "absolute form"],
)
@pytest.mark.parametrize("size", [1 << 20, 101], ids=["at once", "in pieces"])
def test_requests_that_are_read(sent: bytes, body: bytes, size: int) -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        for at in range(0, len(sent), size):
            wire.send(sent[at : at + size])
        seen = wire.answer().json
        assert (seen["size"], seen["body"]) == (len(body), body[:100].decode())
        assert seen["environ"]["PATH_INFO"] == "/a"
        assert int(seen["environ"].get("CONTENT_LENGTH", 0)) == len(body)
        assert wire.send(GET).answer().status == 200


@pytest.mark.parametrize(
    ("target", "host"),
    [("http://elsewhere:80/a", "elsewhere:80"), ("HTTPS://Elsewhere/a", "Elsewhere"), ("/a", "x"), ("//b/a", "x")],
)
def test_the_host_of_an_absolute_target_replaces_the_field(target: str, host: str) -> None:
    with listening(workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        seen = wire.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).answer().json
        assert seen["environ"]["HTTP_HOST"] == host


def test_expect_is_answered_before_the_body_is_sent() -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as wire:
        assert wire.send(POST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n").answer().status == 100
        assert wire.send(b"abc").answer().json["body"] == "abc"


@pytest.mark.parametrize(
    ("sent", "size", "stays_open"),
    [
        pytest.param(POST + b"Content-Length: 50000\r\n\r\n" + b"a" * 50_000, None, True, id="at the bound"),
        pytest.param(POST + b"Content-Length: 50001\r\n\r\n" + b"a" * 50_001, 50_001, True, id="over"),
        pytest.param(POST + b"Content-Length: 200000\r\n\r\n" + b"a" * 200_000, 200_000, True, id="far over"),
        pytest.param(CHUNKED + b"c350\r\n" + b"a" * 50_000 + b"\r\n0\r\n\r\n", None, True, id="chunked at the bound"),
        pytest.param(CHUNKED + b"c351\r\n" + b"a" * 50_001 + b"\r\n0\r\n\r\n", 50_001, True, id="chunked over"),
        pytest.param(
            CHUNKED + (b"7000\r\n" + b"a" * 0x7000 + b"\r\n") * 4 + b"0\r\n\r\n",
            0x7000 * 4,
            True,
            id="chunked far over",
        ),
        pytest.param(
            POST + b"Content-Length: 50001\r\nExpect: 100-continue\r\n\r\n", 50_001, False, id="only announced"
        ),
    ],
)
def test_a_body_over_the_bound_is_not_kept_and_the_application_is_told(
    sent: bytes, size: int | None, stays_open: bool
) -> None:
    with listening(bounds=SMALL, workers=1) as listeners, Wire(listeners.addresses[0]) as wire:
        answer = wire.send(sent).answer()
        assert answer.json["environ"].get("mailbox.body_discarded") == size
        assert answer.json["size"] == (50_000 if size is None else 0)
        if stays_open:
            assert wire.send(GET).answer().status == 200
        else:
            assert answer.headers["connection"] == "close"
            assert wire.ended()


@pytest.mark.parametrize(("size", "discarded"), [(38 << 20, None), ((38 << 20) + 1, (38 << 20) + 1)])
def test_the_bound_is_38_mebibytes(size: int, discarded: int | None) -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(POST + b"Content-Length: %d\r\n\r\n" % size)
        wire.send(bytes(size))
        answer = wire.answer()
        assert answer.json["environ"].get("mailbox.body_discarded") == discarded
        assert answer.json["size"] == (0 if discarded else size)


def test_what_the_client_says_about_forwarding_reaches_the_application() -> None:
    with listening() as listeners, Wire(listeners.addresses[0]) as wire:
        wire.send(b"GET /a HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4\r\nVia: p\r\n\r\n")
        environ = wire.answer().json["environ"]
        assert (environ["REMOTE_ADDR"], environ["wsgi.url_scheme"]) == ("127.0.0.1", "http")
        assert (environ["HTTP_X_FORWARDED_FOR"], environ["HTTP_VIA"]) == ("1.2.3.4", "p")
        assert environ["HTTP_FORWARDED"] == "for=1.2.3.4"
