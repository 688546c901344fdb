"""Serving starts in order, prints its address, obeys signals, and leaves the directory clean."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.__main__ import SERVICES
from mailbox_appliance.cli import main
from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.client.local import find_running
from mailbox_appliance.errors import Conflict, Invalid, StoreInUse
from mailbox_appliance.offline.store import setup_on_files
from mailbox_appliance.store.store import Store
from mailbox_appliance.tls.inspect import fingerprint
from mailbox_appliance.version import __version__
from tests.servers.running import PASSWORD, RunningAppliance
from tests.stores.opening import copied

ADMIN = {"name": "Ada", "email": "ada@example.org", "password": PASSWORD, "device_name": "a device"}


class Process:
    """A `mailbox-appliance serve` process with its output."""

    def __init__(self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(folder), "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def line(self) -> str:
        """Return the next line of the output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ready(self) -> dict[str, Any]:
        """Return the content of the ready line."""
        line = self.line()
        assert line, self.process.communicate(timeout=60)
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self, number: int | None = None) -> tuple[int, str, str]:
        """Return exit code, remaining output and error output."""
        if number is not None:
            self.process.send_signal(number)
        output, complaints = self.process.communicate(timeout=60)
        return self.process.returncode, output, complaints


@contextmanager
def serving(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[Process]:
    """Start a process that serves or fails; kill it at the end if it still runs."""
    one = Process(folder, *arguments, environment=environment)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


def connected(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)


def status(url: str, path: str = "/healthz", **headers: str) -> int:
    """Return the status of a GET request."""
    connection = connected(url)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_it_says_where_it_answers_and_ends_when_told(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--ready-json") as one:
        ready = one.ready()
        assert ready == {"event": "ready", "http": ready["http"], "https": None, "pid": one.process.pid}
        assert status(ready["http"]) == 200
        run = json.loads((tmp_path / "run.json").read_text())
        assert (run["pid"], run["url"], set(run)) == (one.process.pid, ready["http"], {"pid", "url", "secret"})
        assert len(run["secret"]) >= 40
        assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o600
        running = find_running(tmp_path)
        assert running is not None
        assert running.url == ready["http"]
        code, output, complaints = one.end(signal.SIGTERM)
    assert (code, output) == (0, "")
    assert "Traceback" not in complaints
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["encryption.key", "lock", "logs", "mailbox.db", "setup-code"]
    assert (tmp_path / "lock").read_text() == ""


def test_the_local_secret_and_the_set_up_code_are_new_at_each_start(tmp_path: Path) -> None:
    seen: set[str] = set()
    for _ in range(2):
        with serving(tmp_path, "--port", "0", "--ready-json") as one:
            one.ready()
            code = (tmp_path / "setup-code").read_text().strip()
            seen |= {code, json.loads((tmp_path / "run.json").read_text())["secret"]}
            assert code in one.end(signal.SIGTERM)[2], "the code is printed beside the ready line"
    assert len(seen) == 4


def test_a_person_is_told_in_words_and_ends_it_with_the_keyboard(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0") as one:
        said = one.line()
        assert "is running at http://127.0.0.1:" in said
        assert (tmp_path / "setup-code").read_text().strip() in one.line()
        assert one.end(signal.SIGINT) == (0, "", "")


def test_https_is_told_with_the_fingerprint_that_clients_pin(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--https-port", "0") as one:
        assert "is running at http://127.0.0.1:" in one.line()
        told = re.fullmatch(r"HTTPS: (https://127\.0\.0\.1:\d+) \(.* (sha256:[0-9a-f]{64})\)\n", one.line())
        assert told is not None
        assert told[2] == fingerprint((tmp_path / "tls" / "cert.pem").read_bytes())
        assert one.end(signal.SIGTERM)[0] == 0
    with serving(tmp_path, "--port", "0", "--https-port", "0", "--https-host", "127.0.0.1", "--ready-json") as one:
        assert urlsplit(one.ready()["https"]).hostname == "127.0.0.1"
        assert one.end(signal.SIGTERM)[0] == 0


def test_a_request_in_flight_is_answered_before_it_ends(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--ready-json") as one:
        connection = connected(one.ready()["http"])
        code = (tmp_path / "setup-code").read_text().strip()
        body = json.dumps(
            {"setupCode": code, "deviceName": "d", **{k: ADMIN[k] for k in ("name", "email", "password")}}
        )
        connection.putrequest("POST", "/api/v1/setup")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:10].encode())
        # Another request is answered, so the first one's head has been read by then.
        assert status(f"http://{connection.host}:{connection.port}") == 200
        connection.send(body[10:].encode())
        # And again: now the rest has been read too.
        assert status(f"http://{connection.host}:{connection.port}") == 200
        one.process.send_signal(signal.SIGTERM)
        response = connection.getresponse()
        assert response.status == 201
        assert json.loads(response.read())["data"]["member"]["email"] == ADMIN["email"]
        connection.close()
        assert one.end()[0] == 0
    assert not (tmp_path / "setup-code").exists()
    store = Store.open(tmp_path)
    assert store.members.has_any()
    store.close()


def test_a_process_that_was_killed_is_not_believed_any_more(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--ready-json") as one:
        one.ready()
        one.end(signal.SIGKILL)
        assert (tmp_path / "run.json").exists()
        assert find_running(tmp_path) is None
    with serving(tmp_path, "--port", "0", "--ready-json") as two:
        two.ready()
        assert json.loads((tmp_path / "run.json").read_text())["pid"] == two.process.pid
        assert two.end(signal.SIGTERM)[0] == 0


# --- what keeps it from starting ------------------------------------------------------------------------------------


def refused(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Return exit code and message of a failing start; check that the store is free afterwards."""
    with serving(folder, *arguments, environment=environment) as one:
        code, output, complaints = one.end()
    assert output == ""
    assert "Traceback" not in complaints
    assert not (folder / "run.json").exists()
    return code, str(json.loads(complaints)["error"]["message"])


@pytest.mark.parametrize("arguments", [("--host", "192.0.2.1"), ("--port", "TAKEN")])
def test_an_address_that_cannot_be_listened_on(tmp_path: Path, arguments: tuple[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = [argument.replace("TAKEN", str(server.getsockname()[1])) for argument in arguments]
        with serving(tmp_path, *given) as one:
            code, _, complaints = one.end()
    error = json.loads(complaints)["error"]
    assert (code, error["code"]) == (1, "cannot_listen")
    assert error["message"].endswith(".")
    assert ".." not in error["message"]
    assert given[1] in error["message"]
    Store.open(tmp_path).close()


@pytest.mark.parametrize("place", ["data", "elsewhere"])
def test_a_key_without_its_store_is_told(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir()
    Store.open(tmp_path / "data", key_file=tmp_path / place / "encryption.key").close()
    environment = {"MAILBOX_APPLIANCE_KEY_FILE": str(tmp_path / place / "encryption.key")}
    event = "store_created_with_old_key"
    seen = []
    for lost in (False, True, False):
        if lost:
            (tmp_path / "data" / "mailbox.db").unlink()
        with serving(tmp_path / "data", "--port", "0", "--ready-json", environment=environment) as one:
            one.ready()
            seen.append(event in one.end(signal.SIGTERM)[2])
    assert seen == [False, True, False]
    lines = [json.loads(line) for line in (tmp_path / "data" / "logs" / "appliance.log").read_text().splitlines()]
    assert [line["level"] for line in lines if line["event"] == event] == ["warning"]


def test_a_second_process(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--ready-json") as one:
        url = one.ready()["http"]
        with serving(tmp_path, "--port", "0") as two:
            code, output, complaints = two.end()
        assert (code, output) == (1, "")
        error = json.loads(complaints)["error"]
        assert error["code"] == "store_in_use"
        assert f"pid {one.process.pid}" in error["message"]
        assert status(url) == 200
        running = find_running(tmp_path)
        assert running is not None
        assert running.pid == one.process.pid
        with pytest.raises(StoreInUse):
            setup_on_files(tmp_path, **ADMIN)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\nport = 'x'\n", "server.port"),
        ("[server]\nprot = 1\n", "server.prot"),
        ("[server\n", "config.toml"),
        ("[server]\nport = 70000\n", "65535"),
        ("[server]\nhost = 'no such name'\n", "server.host must be localhost, empty, or an IP address"),
        (
            "[remote]\nca_file = '/nowhere/ca.pem'\n",
            "/nowhere/ca.pem, the file of the setting remote.ca_file, cannot be read",
        ),
        (
            "[remote]\nca_file = '/dev/null'\n",
            "/dev/null, the file of the setting remote.ca_file, contains no certificate",
        ),
    ],
)
def test_a_configuration_that_does_not_fit(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    complaints = StringIO()
    assert main.run(["--data-dir", str(tmp_path), "serve"], SERVICES, Terminal(BytesIO(), StringIO(), complaints)) == 2
    assert said in json.loads(complaints.getvalue())["error"]["message"]
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"], "nothing was made"


@pytest.mark.parametrize("name", ["run.json", "setup-code", "logs"])
def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, name: str) -> None:
    Store.open(tmp_path).close()
    if name == "logs":
        (tmp_path / name).touch()
    else:
        (tmp_path / name).mkdir()
    with serving(tmp_path, "--port", "0") as one:
        _, complaints = one.process.communicate(timeout=60)
    assert one.process.returncode == 1
    error = json.loads(complaints.splitlines()[-1])["error"]
    assert error["code"] == "store_unusable"
    assert name in error["message"]
    Store.open(tmp_path).close()


def test_a_variable_that_is_no_setting_is_told_and_keeps_nothing_from_starting(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--ready-json", environment={"MAILBOX_APPLIANCE_SERVER_PROT": "12"}) as one:
        one.ready()
        code, _, complaints = one.end(signal.SIGTERM)
    assert code == 0
    assert "MAILBOX_APPLIANCE_SERVER_PROT" in complaints
    lines = [json.loads(line) for line in (tmp_path / "logs" / "appliance.log").read_text().splitlines()]
    [warning] = [line for line in lines if line["event"] == "unknown_environment_setting"]
    assert warning["level"] == "warning"
    names = ("MAILBOX_APPLIANCE_SERVER_PROT", "MAILBOX_APPLIANCE_SERVER_PORT")
    assert (warning["variable"], warning["nearest"]) == names
    [began] = [line for line in lines if line["event"] == "service_started"]
    assert (began["release"], began["pid"]) == (__version__, one.process.pid)
    assert [line["event"] for line in lines][-2:] == ["service_stopping", "service_stopped"]


# --- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strongest", ["file", "flag"])
def test_the_port_is_set_by_file_environment_and_flag_the_later_the_stronger(tmp_path: Path, strongest: str) -> None:
    wanted = str(free_port())
    in_file, in_environment, flags = {
        "file": (wanted, None, ()),
        "flag": ("1", "2", ("--port", wanted)),
    }[strongest]
    (tmp_path / "config.toml").write_text(f"[server]\nport = {in_file}\nhost = '127.0.0.1'\n[log]\nlevel = 'debug'\n")
    environment = {} if in_environment is None else {"MAILBOX_APPLIANCE_SERVER_PORT": in_environment}
    with serving(tmp_path, "--ready-json", *flags, environment=environment) as one:
        assert one.ready()["http"] == f"http://127.0.0.1:{wanted}"
        assert one.end(signal.SIGTERM)[0] == 0


def test_the_key_is_where_the_environment_says(tmp_path: Path) -> None:
    environment = {"MAILBOX_APPLIANCE_KEY_FILE": str(tmp_path / "elsewhere")}
    with serving(tmp_path / "data", "--port", "0", "--ready-json", environment=environment) as one:
        one.ready()
        assert one.end(signal.SIGTERM)[0] == 0
    assert (tmp_path / "elsewhere").exists()
    code, message = refused(tmp_path / "data", "--port", "0")
    assert code == 4
    assert "encryption.key is missing" in message


# --- setup on files ------------------------------------------------------------------------------------------------


def test_set_up_where_nothing_serves(tmp_path: Path) -> None:
    (tmp_path / "setup-code").write_text("of an earlier start")
    answer = setup_on_files(tmp_path, **ADMIN)["data"]
    assert sorted(answer) == ["member", "session", "token"]
    assert (answer["member"]["email"], answer["member"]["role"]) == ("ada@example.org", "admin")
    assert answer["session"]["deviceName"] == "a device"
    assert not (tmp_path / "setup-code").exists()
    with pytest.raises(Conflict):
        setup_on_files(tmp_path, **ADMIN)
    with serving(tmp_path, "--port", "0", "--ready-json") as one:
        authorization = f"Bearer {answer['token']}"
        assert status(one.ready()["http"], "/api/v1/me", Authorization=authorization) == 200
        assert not (tmp_path / "setup-code").exists()
        assert one.end(signal.SIGTERM)[0] == 0


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"password": "short"}, "/password"),
        ({"password": ADMIN["email"]}, "/password"),
        ({"email": "nobody"}, "/email"),
        ({"name": ""}, "/name"),
        ({"device_name": "x" * 201}, "/deviceName"),
    ],
)
def test_set_up_refuses_what_the_api_refuses(tmp_path: Path, change: dict[str, str], path: str) -> None:
    with pytest.raises(Invalid) as caught:
        setup_on_files(tmp_path, **{**ADMIN, **change})
    assert [detail.path for detail in caught.value.details] == [path]
    setup_on_files(tmp_path, **ADMIN)


def test_serve_upgrades_and_says_how_far_it_is(tmp_path: Path) -> None:
    folder, _ = copied(3, tmp_path / "data")
    running = RunningAppliance(folder).start()
    try:
        assert running.ask("GET", "/").status == 200
    finally:
        assert running.stop() == 0
    steps = running.said().splitlines()
    assert [step for step in steps if step.endswith("...")] == [
        "encrypting...",
        "verifying...",
        "checking the old store...",
        "copying the store...",
        "sealing the audit log...",
        "comparing the stores...",
    ]
    assert all(step.startswith("{") for step in steps if "mem_4" in step)
    logged = "".join(file.read_text() for file in (folder / "logs").iterdir())
    assert [text in logged for text in ("store_upgraded", "-migration.mbxbackup", "the member mem_4")] == [True] * 3
