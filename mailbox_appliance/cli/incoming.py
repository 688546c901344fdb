"""A file that comes in over HTTP, read piece by piece and never held as a whole."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mailbox_appliance.client.errors import failure_from_answer, unreachable
from mailbox_appliance.client.http import (
    LARGEST_ANSWER,
    ApiClient,
    ApiRequest,
    connection_lost_message,
    decode_answer,
    timeout_message,
)

_CHUNK = 256 * 1024


@dataclass(frozen=True)
class Incoming:
    """What the header fields of a file say, how long it is where that is told, and its bytes."""

    headers: Mapping[str, str]
    size: int | None
    chunks: Iterator[bytes]


def receive(client: ApiClient, request: ApiRequest) -> Incoming:
    """The answer to a GET as it comes in, whatever it is.

    An error answer is a Failure, and so is an end that comes too early, when the next chunk is asked for.
    """
    target, body, headers = client.encode_request(request)
    connection = client.open_connection(request.timeout)
    try:
        with _failures(request):
            connection.request(request.method, target, body, headers | {"Accept": "*/*"})
            answer = connection.getresponse()
            if not 200 <= answer.status < 300:
                refused = decode_answer(answer.status, answer.read(LARGEST_ANSWER))
                raise failure_from_answer(answer.status, refused, answer.headers.get("Retry-After"))
    except BaseException:
        connection.close()
        raise
    return Incoming(dict(answer.headers.items()), answer.length, _chunks(request, connection, answer))


def _chunks(
    request: ApiRequest, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse
) -> Iterator[bytes]:
    try:
        while True:
            with _failures(request):
                chunk = answer.read(_CHUNK)
            if not chunk:
                break
            yield chunk
        if answer.length:  # what is still missing
            raise unreachable(connection_lost_message(request))
    finally:
        answer.close()
        connection.close()


@contextmanager
def _failures(request: ApiRequest) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise unreachable(timeout_message(request)) from error
    except (http.client.HTTPException, OSError) as error:
        raise unreachable(connection_lost_message(request)) from error
