"""Remote requests, by real connections to an address that is not loopback.

Administration, sign-in and all other ways to get access require HTTPS, and setup stays local; over HTTPS at the same
address all of it works.
"""

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.checked_client import Answer
from tests.doors.people import Aim, Credential, Origin
from tests.doors.rest import verdict_of
from tests.doors.rights import ADMIN, MAIL, NOT_YET, RIGHTS, Guard, Right
from tests.doors.verdicts import ALLOWED, HTTPS_REQUIRED, LOCAL_ONLY, NONSENSE, UNAUTHENTICATED, expected
from tests.servers.own_address import in_a_namespace, own_addresses
from tests.servers.running import PASSWORD, RunningAppliance

ADDRESSES = own_addresses()
#: Set if the network was created for this test.
IS_MADE = "TEST_FROM_ELSEWHERE_IN_ITS_OWN_NETWORK"
assert ADDRESSES or IS_MADE not in os.environ, "the network that was made has no address"
LOGIN = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "far away"}
OFFERED = [right for right in RIGHTS if right.call not in NOT_YET]


@dataclass(frozen=True)
class Elsewhere:
    """An appliance that listens at a non-loopback address by HTTP and by HTTPS, and is reached there."""

    process: RunningAppliance
    address: str
    code: str
    #: An administrator's session, and a key with all capabilities.
    session: Credential
    key: Credential
    operator: Credential

    #: Connections to HTTP and HTTPS, kept for many requests.
    connections: Mapping[bool, http.client.HTTPConnection]

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        secure: bool = False,
        token: str = "",
        fields: Mapping[str, str] | None = None,
    ) -> Answer:
        """Return its answer at that address."""
        headers = dict(fields or {})
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {"Content-Type": "application/json"} if body is not None else {}
        connection = self.connections[secure]
        connection.request(method, "/api/v1" + path, None if body is None else json.dumps(body), headers)
        assert connection.sock.getsockname()[0] == self.address, "asked from elsewhere"
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())


def connections_to(process: RunningAppliance) -> dict[bool, http.client.HTTPConnection]:
    """Return connections to its address, by HTTP and by HTTPS; the certificate is for the address."""
    assert process.https is not None
    context = ssl.create_default_context(cafile=process.folder / "tls" / "cert.pem")
    secure = http.client.HTTPSConnection(urlsplit(process.https).netloc, timeout=30, context=context)
    return {False: http.client.HTTPConnection(urlsplit(process.url).netloc, timeout=30), True: secure}


@pytest.fixture(scope="module", params=ADDRESSES)
def elsewhere(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Elsewhere]:
    address = str(request.param)
    arguments = ("--host", address, "--https-port", "0", "--https-host", address)
    process = RunningAppliance(tmp_path_factory.mktemp("elsewhere") / "data", arguments=arguments).start()
    try:
        assert urlsplit(process.url).hostname == urlsplit(process.https).hostname == address
        code = (process.folder / "setup-code").read_text().strip()
        connections = connections_to(process)
        nobody = Credential("nobody", "none", "")
        yield set_up(Elsewhere(process, address, code, nobody, nobody, nobody, connections))
        for connection in connections.values():
            connection.close()
    finally:
        process.stop()


def set_up(unready: Elsewhere) -> Elsewhere:
    """Create the first administrator; a remote attempt is refused and does not use up the code."""
    process, request = unready.process, LOGIN | {"name": "Ada", "setupCode": unready.code}
    for secure in (False, True):
        assert verdict_of(unready.ask("POST", "/setup", request, secure=secure)) == LOCAL_ONLY
    run = json.loads((process.folder / "run.json").read_text())
    here = RunningAppliance(process.folder)
    here.url = run["url"]
    session = here.set_up()
    held = {"name": "all", "customCapabilities": [*MAIL, *ADMIN]}
    key = here.ask("POST", "/me/api-keys", held).data["token"]
    assert here.ask("GET", "/admin/backups", token=run["secret"]).status == 200
    return replace(
        unready,
        session=Credential("Ada", "session", session, "ada", is_admin=True),
        key=Credential("her key", "api_key", key, "ada", is_admin=True, stored=frozenset(MAIL + ADMIN)),
        operator=Credential("the operator", "operator", run["secret"]),
    )


def aim_of(right: Right) -> Aim:
    """Return a request for objects that do not exist, under the names in the path."""
    values = dict.fromkeys(re.findall(r"{(\w+)}", right.path), "unknown")
    return Aim("unknown", values, is_there=False, is_in_a_mailbox="accountId" in values)


def test_every_operation_is_refused_or_not_as_the_table_says(elsewhere: Elsewhere) -> None:
    wrong = []
    seen = set()
    for right in OFFERED:
        aim = aim_of(right)
        path = f"{right.path.format(**aim.values).rstrip('/')}?{NONSENSE}=1"
        for who in (elsewhere.session, elsewhere.key, elsewhere.operator):
            for secure in (False, True):
                origin = Origin("elsewhere", elsewhere.address, is_local=False, is_secure=secure)
                told = verdict_of(elsewhere.ask(right.method, path, right.body, secure=secure, token=who.token))
                seen.add((Guard.HTTPS in right.guards, who.kind, secure, told))
                if told != expected(right, who, origin, aim):
                    wrong.append((right.name, who.name, secure, told))
    assert wrong == []
    # The expected table: by HTTP nobody can administrate, by HTTPS those with the permission, and the operator nowhere.
    assert {told for guarded, _, secure, told in seen if guarded and not secure} == {HTTPS_REQUIRED}
    assert {(True, kind, True, ALLOWED) for kind in ("session", "api_key")} <= seen
    assert (True, "operator", True, UNAUTHENTICATED) in seen


def test_who_logs_in_enrols_or_resets_uses_https(elsewhere: Elsewhere) -> None:
    def ask(path: str, body: dict[str, Any], *, secure: bool) -> Answer:
        return elsewhere.ask("POST", path, body, secure=secure)

    assert ask("/auth/login", LOGIN, secure=False).refusal == (403, "https_required")
    answer = ask("/auth/login", LOGIN, secure=True)
    assert answer.status == 200
    token = answer.data["token"]
    new = {"name": "Bob", "email": f"bob{len(token)}@example.org", "role": "member"}
    made = elsewhere.ask("POST", "/admin/members", new, secure=True, token=token).data
    latest = elsewhere.ask("GET", "/admin/audit-events?limit=1", secure=True, token=token).data["items"][0]
    assert latest["clientAddress"] == elsewhere.address
    enrolment = {"token": made["invitation"]["token"], "password": PASSWORD, "deviceName": "far away"}
    assert ask("/auth/enroll", enrolment, secure=False).refusal == (403, "https_required")
    assert ask("/auth/enroll", enrolment, secure=True).status == 200
    reset = elsewhere.ask("POST", f"/admin/members/{made['member']['id']}/password-reset", secure=True, token=token)
    again = enrolment | {"token": reset.data["token"]}
    assert ask("/auth/password-reset", again, secure=False).refusal == (403, "https_required")
    assert ask("/auth/password-reset", again, secure=True).status == 200
    assert elsewhere.ask("POST", "/auth/console-links", token=token).refusal == (403, "https_required")
    link = elsewhere.ask("POST", "/auth/console-links", secure=True, token=token).data["url"]
    redeem = {"token": link.rpartition("=")[2]}
    assert ask("/auth/console-links/redeem", redeem, secure=False).refusal == (403, "https_required")
    assert ask("/auth/console-links/redeem", redeem, secure=True).status == 200


def test_a_key_that_administers_goes_over_https_only(elsewhere: Elsewhere) -> None:
    reading = {"name": "reads", "permissionProfile": "read-only"}
    ruling = reading | {"supplementalCapabilities": ["admin.members"]}

    def ask(body: object, *, secure: bool) -> Answer:
        return elsewhere.ask("POST", "/me/api-keys", body, secure=secure, token=elsewhere.session.token)

    assert [ask(body, secure=False).status for body in (reading, ruling)] == [201, 403]
    assert ask(ruling, secure=True).status == 201


def test_no_header_field_makes_plain_http_https(elsewhere: Elsewhere) -> None:
    for fields in (
        {"X-Forwarded-Proto": "https", "X-Forwarded-For": "127.0.0.1"},
        {"Forwarded": "for=127.0.0.1;proto=https"},
        {"X-Forwarded-Ssl": "on", "Front-End-Https": "on", "X-Url-Scheme": "https"},
        {"Upgrade-Insecure-Requests": "1", "Origin": elsewhere.process.url},
    ):
        answer = elsewhere.ask("GET", "/admin/members", token=elsewhere.session.token, fields=fields)
        assert answer.refusal == (403, "https_required"), fields


def test_it_answers_to_its_own_name_only(elsewhere: Elsewhere) -> None:
    for host, status in ((urlsplit(elsewhere.process.url).netloc, 200), ("evil.example", 403), ("localhost", 200)):
        assert elsewhere.ask("GET", "/", fields={"Host": host}).status == status, host
    refused = elsewhere.ask("GET", "/me", token=elsewhere.session.token, fields={"Origin": "http://evil.example"})
    assert refused.refusal == (403, "host_not_allowed")


if not ADDRESSES:

    def test_all_of_it_in_a_network_of_its_own(tmp_path: Path) -> None:
        """For a computer that has no other address than loopback."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'own'}"]
        environment = {**os.environ, IS_MADE: "1"}
        run = subprocess.run(in_a_namespace([*command, __file__]), env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        assert " passed" in run.stdout
        assert " skipped" not in run.stdout
