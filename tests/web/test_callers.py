"""Which requests are local, which token a request carries, and which hosts and origins the listener accepts."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.errors import HostNotAllowed
from mailbox_appliance.security.tokens import new_token
from mailbox_appliance.web.http import AllowedHosts, TrustedProxies, bearer_token, origin_of
from tests.checked_client import PASSWORD, CheckedClient
from tests.operations.filled import add_key, add_member, suspend
from tests.servers.running import RunningAppliance

LOGIN = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "test"}
CONFIGURED = ("mail.example.org", "Box.Example:9000", "[2001:db8::1]:8025")

# Peer, header fields, whether the request is local.
ORIGINS: tuple[tuple[str, dict[str, str], bool], ...] = (
    ("127.0.0.1", {}, True),
    ("127.9.8.7", {}, True),
    ("::1", {}, True),
    ("::ffff:127.0.0.1", {}, True),
    ("192.0.2.1", {}, False),
    ("10.0.0.1", {}, False),
    ("::ffff:192.0.2.1", {}, False),
    ("fe80::1%eth0", {}, False),
    ("", {}, False),
    ("not an address", {}, False),
    ("127.0.0.1", {"HTTP_X_FORWARDED_FOR": "127.0.0.1"}, False),
    ("127.0.0.1", {"HTTP_X_FORWARDED_FOR": ""}, False),
    ("127.0.0.1", {"HTTP_X_FORWARDED_PROTO": "https"}, False),
    ("127.0.0.1", {"HTTP_X_FORWARDED_HOST": "localhost"}, False),
    ("127.0.0.1", {"HTTP_FORWARDED": "for=127.0.0.1"}, False),
    ("127.0.0.1", {"HTTP_VIA": "1.1 proxy"}, False),
    ("192.0.2.1", {"HTTP_X_FORWARDED_FOR": "127.0.0.1"}, False),
    ("127.0.0.1", {"HTTP_X_REAL_IP": "127.0.0.1"}, False),
    ("127.0.0.1", {"HTTP_X_REAL_IP": ""}, False),
    ("127.0.0.1", {"HTTP_CF_CONNECTING_IP": "192.0.2.7"}, False),
    ("127.0.0.1", {"HTTP_TRUE_CLIENT_IP": "192.0.2.7"}, False),
    ("127.0.0.1", {"HTTP_X_CLIENT_IP": "192.0.2.7"}, False),
    ("127.0.0.1", {"HTTP_X_ORIGINAL_FORWARDED_FOR": "192.0.2.7"}, False),
    ("127.0.0.1", {"HTTP_X_ENVOY_EXTERNAL_ADDRESS": "192.0.2.7"}, False),
    ("127.0.0.1", {"SERVER_PROTOCOL": "HTTP/1.0"}, False),
    ("127.0.0.1", {"SERVER_PROTOCOL": "HTTP/1.1"}, True),
    ("127.0.0.1", {"HTTP_X_REQUESTED_WITH": "fetch"}, True),
)


@pytest.mark.parametrize(("peer", "fields", "is_local"), ORIGINS)
def test_a_request_is_of_this_computer_unless_a_proxy_marked_it(
    peer: str, fields: Mapping[str, str], *, is_local: bool
) -> None:
    origin = origin_of({"REMOTE_ADDR": peer, **fields}, TrustedProxies())
    assert (origin.is_local, origin.is_secure) == (is_local, False)
    assert origin.client_address == (peer or None)


def test_only_the_listener_itself_makes_a_request_secure() -> None:
    forged = {"HTTP_X_FORWARDED_PROTO": "https", "HTTP_FORWARDED": "proto=https"}
    assert not origin_of({"REMOTE_ADDR": "192.0.2.1", "wsgi.url_scheme": "http", **forged}, TrustedProxies()).is_secure
    assert origin_of({"REMOTE_ADDR": "192.0.2.1", "wsgi.url_scheme": "https"}, TrustedProxies()).is_secure


def test_a_trusted_proxy_may_speak_http_1_0() -> None:
    said = {"HTTP_X_FORWARDED_FOR": "192.0.2.7", "HTTP_X_FORWARDED_PROTO": "https", "SERVER_PROTOCOL": "HTTP/1.0"}
    origin = origin_of({"REMOTE_ADDR": "127.0.0.1", "wsgi.url_scheme": "http", **said}, TrustedProxies(["127.0.0.1"]))
    assert (origin.client_address, origin.is_local, origin.is_secure) == ("192.0.2.7", False, True)


TOKENS: tuple[tuple[str | None, str | None], ...] = (
    (None, None),
    ("", None),
    ("Bearer", None),
    ("Bearer ", None),
    ("Basic YWRhOmFkYQ==", None),
    ("mbxs_token", None),
    ("Bearer mbxs_token", "mbxs_token"),
    ("bearer mbxs_token", "mbxs_token"),
    ("BEARER   mbxs_token ", "mbxs_token"),
    ("Bearer two words", "two words"),
)


@pytest.mark.parametrize(("field", "token"), TOKENS)
def test_a_token_is_taken_from_authorization(field: str | None, token: str | None) -> None:
    assert bearer_token({} if field is None else {"HTTP_AUTHORIZATION": field}) == token


# Host, Origin, whether the listener accepts them.
HOSTS: tuple[tuple[str, str | None, bool], ...] = (
    ("127.0.0.1", None, True),
    ("127.0.0.1:8025", None, True),
    ("localhost:8025", None, True),
    ("LOCALHOST:8025", None, True),
    ("localhost:", None, True),
    ("localhost.", None, True),
    ("Localhost.:8025", None, True),
    ("127.0.0.2:8025", None, True),
    ("127.255.255.254", None, True),
    ("[::1]", None, True),
    ("[::1]:8025", None, True),
    ("mail.example.org", None, True),
    ("MAIL.example.org:8443", None, True),
    ("box.example", None, True),
    ("[2001:db8::1]", None, True),
    ("", None, False),
    ("evil.example", None, False),
    ("evil.example:8025", None, False),
    ("localhost.evil.example", None, False),
    ("127.0.0.1.evil.example:8025", None, False),
    ("localhost..", None, False),
    ("localhost.:8025.evil.example", None, False),
    ("127.1", None, False),
    ("127.0.0.256", None, False),
    ("128.0.0.1", None, False),
    ("127.0.0.1.", None, False),
    ("[127.0.0.1]", None, False),
    ("user@127.0.0.1:8025", None, False),
    ("127.0.0.1:8025:8025", None, False),
    ("127.0.0.1:port", None, False),
    ("::1", None, False),
    ("[::1", None, False),
    ("[::2]:8025", None, False),
    ("192.0.2.1:8025", None, False),
    ("127.0.0.1:8025", "http://127.0.0.1:8025", True),
    ("127.0.0.1:8025", "http://localhost:8025", True),
    ("[::1]:8025", "http://[::1]:8025", True),
    ("localhost", "http://localhost", True),
    ("127.0.0.1:8025", "https://mail.example.org", True),
    ("mail.example.org", "https://mail.example.org:8443", True),
    ("127.0.0.1:8025", "null", False),
    ("127.0.0.1:8025", "", False),
    ("127.0.0.1:8025", "http://evil.example", False),
    ("127.0.0.1:8025", "http://evil.example:8025", False),
    ("127.0.0.1:8025", "http://127.0.0.1", False),
    ("127.0.0.1:8025", "http://127.0.0.1:3000", False),
    ("127.0.0.1:8025", "http://127.0.0.2:8025", True),
    ("127.0.0.1:8025", "http://127.0.0.2:3000", False),
    ("127.0.0.1:8025", "http://localhost.:3000", False),
    ("127.0.0.1:8025", "http://localhost:99999", False),
    ("127.0.0.1:8025", "http://user@127.0.0.1:8025", False),
    ("127.0.0.1:8025", "file://127.0.0.1:8025", False),
    ("127.0.0.1:8025", "chrome-extension://127.0.0.1:8025", False),
    ("127.0.0.1:8025", "//127.0.0.1:8025", False),
    ("127.0.0.1:8025", "http://[::1", False),
    ("evil.example", "http://evil.example", False),
)


@pytest.mark.parametrize(("host", "origin", "is_allowed"), HOSTS)
def test_the_listener_answers_to_its_own_names(host: str, origin: str | None, *, is_allowed: bool) -> None:
    environ = {"HTTP_HOST": host} | ({} if origin is None else {"HTTP_ORIGIN": origin})
    allowed = AllowedHosts(CONFIGURED)
    if is_allowed:
        allowed.check(environ)
    else:
        with pytest.raises(HostNotAllowed):
            allowed.check(environ)


def test_a_request_without_host_is_refused_unless_it_is_of_http_1_0() -> None:
    AllowedHosts(()).check({"SERVER_PROTOCOL": "HTTP/1.0"})
    with pytest.raises(HostNotAllowed):
        AllowedHosts(()).check({"SERVER_PROTOCOL": "HTTP/1.1"})
    with pytest.raises(HostNotAllowed):
        AllowedHosts(()).check({"SERVER_PROTOCOL": "HTTP/1.0", "HTTP_ORIGIN": "http://evil.example"})


@pytest.mark.parametrize("path", ["/me", "/nothing", "", "/accounts/acc_1/messages"])
def test_a_foreign_host_is_refused_before_anything_else(client_before_set_up: CheckedClient, path: str) -> None:
    for host, origin in (("evil.example", None), (None, None), ("127.0.0.1:8025", "null")):
        headers = {} if origin is None else {"Origin": origin}
        answer = client_before_set_up.ask("GET", path, host=host, headers=headers)
        assert answer.refusal == (403, "host_not_allowed")
        assert ("Origin" if origin else "Host") in answer.message


@pytest.fixture
def client_before_set_up(appliance: Appliance) -> CheckedClient:
    return CheckedClient(appliance)


def test_a_configured_host_is_answered(appliance: Appliance) -> None:
    client = CheckedClient(appliance, "mail.example.org")
    assert client.ask("GET", "/", host="mail.example.org:8025").status == 200
    assert client.ask("GET", "/", host="127.0.0.1:8025").status == 200


def test_from_elsewhere_logging_in_needs_https(checked_client: CheckedClient) -> None:
    proxied = {"X-Forwarded-For": "192.0.2.7"}
    elsewhere: tuple[dict[str, Any], ...] = ({"peer": "192.0.2.1"}, {"headers": proxied}, {"headers": {"Via": "1.1 p"}})
    for how in elsewhere:
        assert checked_client.ask("POST", "/auth/login", LOGIN, **how).refusal == (403, "https_required")
        # This is reported before errors of the request.
        assert checked_client.ask("POST", "/auth/login", b"{", **how).refusal == (403, "https_required")
        assert checked_client.ask("POST", "/auth/login", LOGIN, secure=True, **how).status == 200
        # Only administration and sign-in require it.
        assert checked_client.ask("GET", "/me", **how).status == 200


def test_set_up_stays_on_this_computer(client_before_set_up: CheckedClient, appliance: Appliance) -> None:
    (appliance.folder / SETUP_CODE).write_text("code\n")
    request = LOGIN | {"name": "Ada", "setupCode": "code"}
    for secure in (False, True):
        answer = client_before_set_up.ask("POST", "/setup", request, peer="192.0.2.1", secure=secure)
        assert answer.refusal == (403, "permission_denied")
    proxied = {"X-Forwarded-For": "127.0.0.1"}
    answer = client_before_set_up.ask("POST", "/setup", request, headers=proxied)
    assert answer.refusal == (403, "permission_denied")
    assert client_before_set_up.ask("GET", "/").data["setupRequired"]


def bad_credentials() -> Iterator[str | None]:
    yield from (None, "", "Bearer", "Bearer ", "Basic YWRhOmFkYQ==", "Token x", "Bearer x", "Bearer " + "x" * 10_000)
    yield from (f"Bearer {new_token('mbxs')}", f"Bearer {new_token('mbxk')}", f"Bearer {new_token('mbxi')}")
    yield from ("Bearer mbxs_ü", "Bearer mbxs_", "Bearer mbxs_" + "0" * 49, f"Bearer {new_token('mbxs')} x")


def test_without_a_good_credential_the_answer_is_401(checked_client: CheckedClient) -> None:
    for field in bad_credentials():
        headers = {} if field is None else {"Authorization": field}
        for method, path in (("GET", "/me"), ("DELETE", "/me/sessions/ses_1"), ("POST", "/accounts")):
            answer = checked_client.ask(method, path, token="", headers=headers)
            assert answer.refusal == (401, "unauthenticated"), field


def test_a_token_with_one_letter_changed_is_not_good(checked_client: CheckedClient) -> None:
    token = checked_client.token
    for place in (0, 5, 20, len(token) - 1):
        other = "x" if token[place] != "x" else "y"
        changed = token[:place] + other + token[place + 1 :]
        assert checked_client.ask("GET", "/me", token=changed).refusal == (401, "unauthenticated")
    assert checked_client.ask("GET", "/me").status == 200


def test_a_suspended_member_is_told_so(checked_client: CheckedClient, appliance: Appliance) -> None:
    bob = add_member(appliance, "bob")
    session = checked_client.log_in("bob@example.org").token
    _, key = add_key(appliance, bob, "mail.read")
    suspend(appliance, bob)
    for token in (session, key):
        for path in ("/me", "/accounts", "/accounts/acc_unknown"):
            assert checked_client.ask("GET", path, token=token).refusal == (403, "member_suspended")
    login = LOGIN | {"email": "bob@example.org"}
    assert checked_client.ask("POST", "/auth/login", login).refusal == (403, "member_suspended")
    wrong = login | {"password": "not the password"}
    assert checked_client.ask("POST", "/auth/login", wrong).refusal == (401, "invalid_credentials")


def test_over_the_wire_a_foreign_host_is_refused(running: RunningAppliance) -> None:
    assert running.ask("POST", "/auth/login", LOGIN).status == 200
    answer = running.ask("GET", "/me", X_Forwarded_Proto="https", X_Forwarded_Host="localhost")
    assert answer.status == 200
    for host, status in (("localhost", 200), ("[::1]:80", 200), ("evil.example", 403), ("", 403)):
        answer = running.ask("GET", "/me", Host=host)
        assert answer.status == status
        assert answer.headers["X-Request-Id"] == answer.body.get("error", {}).get(
            "requestId", answer.headers["X-Request-Id"]
        )
    for origin in ("null", "http://evil.example", "http://127.0.0.1:1"):
        answer = running.ask("GET", "/me", Origin=origin)
        assert (answer.status, answer.code) == (403, "host_not_allowed")
    assert running.ask("GET", "/me", Origin=running.url).status == 200


#: Header lines by which a proxy is recognized.
SIGNS = (
    ("HTTP/1.0",),
    ("HTTP/1.0", "Connection: keep-alive"),
    ("HTTP/1.1", "X-Forwarded-For: ::1"),
    ("HTTP/1.1", "Forwarded: for=127.0.0.1"),
    ("HTTP/1.1", "Via: 1.1 p"),
    ("HTTP/1.1", "X-Real-IP: 127.0.0.1"),
    ("HTTP/1.1", "cf-connecting-ip: 192.0.2.7"),
    ("HTTP/1.1", "True-Client-IP: 192.0.2.7"),
    ("HTTP/1.1", "X-Client-IP:"),
    ("HTTP/1.1", "X-Original-Forwarded-For: 192.0.2.7"),
    ("HTTP/1.1", "X-Envoy-External-Address: 192.0.2.7"),
)


@pytest.mark.parametrize("sign", SIGNS, ids="; ".join)
def test_over_the_wire_a_request_with_a_sign_of_a_proxy_is_not_local(
    running: RunningAppliance, sign: tuple[str, ...]
) -> None:
    def ask(method: str, path: str, body: object = None) -> tuple[int, str | None]:
        return asked(running, method, path, sign, body)

    assert ask("POST", "/api/v1/auth/login", LOGIN) == (403, "https_required")
    assert ask("GET", "/api/v1/admin/members") == (403, "https_required")
    assert ask("POST", "/api/v1/setup", {}) == (403, "permission_denied")
    assert ask("GET", "/metrics") == (403, "permission_denied")
    # Health checks and requests with a session need not be local.
    assert ask("GET", "/healthz")[0] == 200
    assert ask("GET", "/api/v1/me")[0] == 200


def test_over_the_wire_an_absolute_target_names_the_host(running: RunningAppliance) -> None:
    plain = ("HTTP/1.1",)
    for authority in ("evil.example", "evil.example:80", "user@127.0.0.1", "127.0.0.1.evil.example"):
        assert asked(running, "GET", f"http://{authority}/api/v1/", plain) == (403, "host_not_allowed")
    for authority in ("127.0.0.1", "localhost:8025", "LOCALHOST"):
        assert asked(running, "GET", f"http://{authority}/api/v1/", plain) == (200, None)
        assert asked(running, "GET", f"http://{authority}/api/v1/", plain, host="evil.example") == (200, None)


def asked(
    running: RunningAppliance, method: str, target: str, sign: tuple[str, ...], body: object = None, host: str = ""
) -> tuple[int, str | None]:
    """Return status and code of the response to a hand-written request: its version, then fields."""
    address = urlsplit(running.url)
    content = b"" if body is None else json.dumps(body).encode()
    fields = [f"Host: {host or address.netloc}", f"Authorization: Bearer {running.token}", *sign[1:]]
    fields += ["Content-Type: application/json", f"Content-Length: {len(content)}"] * (body is not None)
    with socket.create_connection((address.hostname or "", address.port or 0), timeout=60) as connection:
        connection.sendall("\r\n".join([f"{method} {target} {sign[0]}", *fields, "", ""]).encode() + content)
        with http.client.HTTPResponse(connection, method=method) as answer:
            answer.begin()
            told = answer.read()
    return answer.status, json.loads(told)["error"]["code"] if answer.status >= 400 else None
