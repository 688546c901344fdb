"""Which paths exist: with and without one final slash, and with no other way of writing slashes."""

from collections.abc import Iterator

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.web.app import App
from tests.checked_client import HOST, CheckedClient
from tests.web.wire import Answer, Wire, listening

#: A target as in a request line, without a credential, and the response to GET.
TARGETS: tuple[tuple[str, int], ...] = (
    ("/api/v1", 200),
    ("/api/v1/", 200),
    ("/api/v1/?", 200),
    ("/api/v1/me", 401),
    ("/api/v1/me/", 401),
    ("/api/v1/%6de", 401),
    ("/api/v1/me/#//", 401),
    ("http://127.0.0.1:8025/api/v1/me", 401),
    ("http://127.0.0.1:8025/", 200),
    ("/api/v1/openapi.json/", 200),
    ("/api/v1/accounts/acc_1%252F", 401),
    ("/api/v1/accounts/a:%2e%2E", 401),
    ("/", 200),
    ("/?a=//%2F%5C", 200),
    ("/healthz", 200),
    ("/healthz/", 404),
    ("//", 404),
    ("/%2f", 404),
    ("/%2Fapi/v1/me", 404),
    ("//api/v1/me", 404),
    ("http://127.0.0.1:8025//api/v1/me", 404),
    ("/api/v1//", 404),
    ("/api/v1%2F", 404),
    ("/api/v1//me", 404),
    ("/api%2Fv1/me", 404),
    ("/api/v1/me//", 404),
    ("/api/v1/me/%2F", 404),
    ("/api/v1/me%2F", 404),
    ("/api/v1/me%2fsessions", 404),
    ("/api/v1/me%5Csessions", 404),
    ("/api/v1/me\\sessions", 404),
    ("/api/v1/me%00", 404),
    ("/api/v1/accounts/%2F", 404),
    ("/api/v1/accounts/acc_1%00", 404),
    ("/api/v1/accounts/acc_1%5c", 404),
    ("/api/v1/accounts/acc_1%2Fmessages", 404),
    ("/api/v1/admin/members/%2F", 404),
)


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """Yield a connection to an appliance that is not set up."""
    appliance = Appliance(tmp_path_factory.mktemp("data"))
    appliance.start()
    with listening(App(appliance)) as listeners, Wire(listeners.addresses[0]) as connection:
        yield connection
    appliance.stop()


def ask(wire: Wire, method: str, target: str) -> Answer:
    return wire.send(f"{method} {target} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()).answer()


@pytest.mark.parametrize(("target", "status"), TARGETS)
def test_a_path_names_something_in_one_way(wire: Wire, target: str, status: int) -> None:
    answer = ask(wire, "GET", target)
    assert answer.status == status
    if status == 404:
        assert answer.json["error"]["code"] == "not_found"


@pytest.mark.parametrize("target", [target for target, status in TARGETS if status == 404])
def test_what_names_nothing_has_no_methods(wire: Wire, target: str) -> None:
    for method in ("POST", "DELETE", "OPTIONS", "PATCH"):
        answer = ask(wire, method, target)
        assert (answer.status, "allow" in answer.headers) == (404, False)


@pytest.mark.parametrize("path", ["/me", "/me/"])
def test_methods_are_told_with_and_without_a_final_slash(wire: Wire, path: str) -> None:
    for method in ("OPTIONS", "DELETE"):
        answer = ask(wire, method, f"/api/v1{path}")
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, PATCH")


#: A path as the in-process client writes it, which passes it on decoded.
DECODED = ("/me//", "/me%2Fsessions%2F%2F", "//me", "/me%5Csessions", "/me%00", "/admin/members/%2F")


@pytest.mark.parametrize("path", DECODED)
def test_without_a_target_the_decoded_path_counts(appliance: Appliance, path: str) -> None:
    for method in ("GET", "HEAD", "OPTIONS", "POST"):
        assert CheckedClient(appliance).ask(method, path).status == 404
