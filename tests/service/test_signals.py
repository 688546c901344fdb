"""SIGTERM stops the service in order and SIGHUP reloads it, at any moment and under any load."""

import http.client
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.service import signals
from mailbox_appliance.service.signals import SignalHandler, StoppedBeforeStart
from tests.servers.certificates import any_certificate
from tests.servers.desk import a_message
from tests.servers.dovecot import MailServer
from tests.servers.fault_proxy import FaultProxy
from tests.servers.mailboxes import account_at, wait_until
from tests.servers.running import PASSWORD, Answer, RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Keep, Stall
from tests.stores.opening import copied

_WITHIN = 10.0
_MEGABYTE = 1 << 20


@contextmanager
def started(folder: Path, *arguments: str) -> Iterator[RunningAppliance]:
    """Start an appliance, already set up, as a process; kill it at the end if it still runs."""
    appliance = RunningAppliance(folder, arguments=arguments).start()
    try:
        appliance.set_up()
        yield appliance
    finally:
        if appliance.process is not None and appliance.process.poll() is None:
            appliance.kill()


def log_of(appliance: RunningAppliance) -> list[dict[str, Any]]:
    """Return its log."""
    return [json.loads(line) for line in (appliance.folder / "logs" / "appliance.log").read_text().splitlines()]


def events(appliance: RunningAppliance) -> list[str]:
    return [line["event"] for line in log_of(appliance)]


def tell(appliance: RunningAppliance, *numbers: int) -> None:
    """Send signals."""
    assert appliance.process is not None
    for number in numbers:
        appliance.process.send_signal(number)


def ended(appliance: RunningAppliance, since: float) -> float:
    """Wait until it has ended with 0; return the seconds since `since`."""
    assert appliance.process is not None
    assert appliance.process.wait(_WITHIN) == 0
    took = time.monotonic() - since
    assert appliance.stop() == 0
    return took


# --- SIGTERM with everything under way --------------------------------------------------------------------------------


class Scene:
    """Mailboxes on a stalling server and on a scripted one, and clients with requests in progress."""

    def __init__(self, appliance: RunningAppliance, proxy: FaultProxy, smtp: ScriptedSmtp, mail: MailServer) -> None:
        self.appliance, self.proxy, self.smtp = appliance, proxy, smtp
        self.user = mail.fresh_user()
        smtp.user = self.user
        self.account = appliance.connect(self.user, imap_port=proxy.port, smtp_port=smtp.port)
        mail.deliver(self.user, b"From: b@example.test\r\nSubject: large\r\n\r\n" + b"abcdefg\r\n" * 400_000)
        path = f"/accounts/{self.account}/messages"
        wait_until(lambda: bool(appliance.ask("GET", path).data["items"]), lambda: "no mail has come", 20)
        self.message = f"{path}/{appliance.ask('GET', path).data['items'][0]['id']}"
        self.answers: dict[str, Answer] = {}
        self.answered_at: dict[str, float] = {}
        self._callers, self._is_secure = ThreadPoolExecutor(40), False

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection, alternating between HTTP and HTTPS."""
        self._is_secure = not self._is_secure
        if not self._is_secure:
            return http.client.HTTPConnection(urlsplit(self.appliance.url).netloc, timeout=30)
        place = urlsplit(str(self.appliance.https)).netloc
        return http.client.HTTPSConnection(place, timeout=30, context=any_certificate())

    def begin(self, name: str, ask: Callable[[http.client.HTTPConnection], None]) -> None:
        """Let a client send a request; its response is stored under this name."""

        connection = self.connection()

        def run() -> None:
            try:
                ask(connection)
                response = connection.getresponse()
                pace = 0.5 if name.startswith("slow") else 0.0
                pieces = []
                while piece := response.read(_MEGABYTE):
                    pieces.append(piece)
                    time.sleep(pace)
                content = b"".join(pieces)
                is_json = response.headers["Content-Type"].startswith("application/json")
                body = json.loads(content) if is_json else len(content)
                self.answered_at[name] = time.monotonic()
                self.answers[name] = Answer(response.status, body, dict(response.headers))
            finally:
                connection.close()

        self._callers.submit(self._noting, name, run)

    def _noting(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except (OSError, http.client.HTTPException) as error:  # it was not answered
            self.answers[name] = Answer(0, repr(error), {})

    def request(self, method: str, path: str, body: object = None, **fields: str) -> Callable[[Any], None]:
        content = None if body is None else json.dumps(body)
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        headers |= {"Content-Type": "application/json"} if body is not None else {}
        headers["Authorization"] = f"Bearer {self.appliance.token}"
        return lambda connection: connection.request(method, "/api/v1" + path, content, headers)

    def upload(self, goes_on: bool) -> Callable[[http.client.HTTPConnection], None]:
        """Return a function that sends half of a 1 MB draft, and the rest a second later or never."""
        body = json.dumps({"body": {"text": "x" * _MEGABYTE}, "subject": "half"}).encode()

        def ask(connection: http.client.HTTPConnection) -> None:
            connection.putrequest("POST", f"/api/v1/accounts/{self.account}/drafts")
            connection.putheader("Authorization", f"Bearer {self.appliance.token}")
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body[: len(body) // 2])
            if goes_on:
                time.sleep(1.5)
                connection.send(body[len(body) // 2 :])

        return ask

    def send(self, key: str, **more: Any) -> Callable[[http.client.HTTPConnection], None]:
        path = f"/accounts/{self.account}/send"
        return self.request("POST", path, a_message(subject=key, **more), Idempotency_Key=key)

    def status_of(self, key: str) -> str:
        """Return the status of the delivery with this key."""
        path = f"/accounts/{self.account}/delivery-operations"
        operation = self.answers[key].data["operationId"]
        return str(self.appliance.ask("GET", f"{path}/{operation}").data["status"])


@pytest.mark.slow
def test_all_that_is_under_way_is_answered_or_journalled(
    tmp_path: Path, mail_server: MailServer, scripted_smtp: ScriptedSmtp
) -> None:
    """Some requests of each kind use HTTP, some HTTPS."""
    proxy = FaultProxy(mail_server.imap_port).start()
    secure = ("--https-port", "0", "--https-host", "127.0.0.1")
    with started(tmp_path, *secure) as appliance, socket.create_server(("127.0.0.1", 0)) as silent:
        scene = Scene(appliance, proxy, scripted_smtp, mail_server)
        _begin_all(scene, silent.getsockname()[1])
        began = time.monotonic()
        tell(appliance, signal.SIGTERM)
        took = ended(appliance, began)
        wait_until(lambda: len(scene.answers) == 25, lambda: str(sorted(scene.answers)), 5)
        _judge_answers(scene.answers)
        assert took < _WITHIN
        assert all(scene.answered_at[name] - began < 2.5 for name in ("dot", "mail")), "they are let go first"
        assert {line["level"] for line in log_of(appliance)} <= {"info", "warning"}
        proxy.heal()
        scripted_smtp.at("mail", None)
        scripted_smtp.at("reply", None)
        scripted_smtp.release()
        appliance.start()
        for key, outcomes in (("dot", {"succeeded", "uncertain"}), ("mail", {"succeeded"}), ("due", {"succeeded"})):
            _wait_for_status(scene, key, outcomes)
        assert scene.status_of("tomorrow1") == scene.status_of("tomorrow2") == "queued"
        kept = sorted(_subject(message.source) for message in scripted_smtp.messages)
        assert kept == ["dot", "due", "mail"], "each has gone out once"
        assert appliance.stop() == 0
    proxy.stop()


def _begin_all(scene: Scene, silent: int) -> None:
    """Start 20 requests and 5 sends; return when all are in progress."""
    appliance, smtp = scene.appliance, scene.smtp
    raw = scene.request("GET", f"{scene.message}/raw")
    scene.begin("fetched", raw)  # so that it is here when the server stalls
    wait_until(lambda: "fetched" in scene.answers, lambda: str(scene.answers), 20)
    assert scene.answers.pop("fetched").status == 200
    smtp.at("reply", [Keep(Stall())])
    scene.begin("dot", scene.send("dot"))
    smtp.reached("reply")
    smtp.at("mail", [Stall()])
    scene.begin("mail", scene.send("mail"))
    smtp.reached("mail", 2)
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86_400))
    for key, at in (("due", soon), ("tomorrow1", later), ("tomorrow2", later)):
        scene.begin(key, scene.send(key, sendAt=at))
    scene.proxy.stall()
    scene.begin("connect", scene.request("POST", "/accounts", account_at("x@y.test", silent, silent)))
    scene.begin("reconnect", scene.request("POST", f"/accounts/{scene.account}/reconnect", {}))
    for number in range(4):
        scene.begin(
            f"waits {number}",
            scene.request("POST", f"/accounts/{scene.account}/drafts", {"subject": "d", "body": {"text": "d"}}),
        )
        scene.begin(f"half {number}", scene.upload(goes_on=False))
        scene.begin(f"slow {number}", raw)
    for number in range(2):
        scene.begin(f"whole {number}", scene.upload(goes_on=True))
    time.sleep(1.0)  # for these to be on their way, and for what is due
    login = {"email": "ada@example.org", "password": PASSWORD, "deviceName": "d"}
    for number in range(4):
        scene.begin(f"log-in {number}", scene.request("POST", "/auth/login", login))
    wait_until(lambda: _has_token(appliance), lambda: "nothing is answered", 10)
    time.sleep(0.1)


def _has_token(appliance: RunningAppliance) -> bool:
    return appliance.ask("GET", "/me").status == 200


def _wait_for_status(scene: Scene, key: str, outcomes: set[str]) -> None:
    wait_until(lambda: scene.status_of(key) in outcomes, lambda: f"{key}: {scene.status_of(key)}", 20)


def _subject(source: bytes) -> str:
    return next(line for line in source.decode().splitlines() if line.startswith("Subject: ")).removeprefix("Subject: ")


def _judge_answers(answers: dict[str, Answer]) -> None:
    expected = {
        "dot": {200},  # as `sending`
        "mail": {200},
        "due": {202},
        "tomorrow": {202},
        "connect": {503},
        "reconnect": {503},
        "waits": {503},
        "half": {503},
        "whole": {503},  # all of it came, and then the mail server did not answer
        "slow": {200},
        "log-in": {200, 429},
    }
    wrong = {name: one for name, one in answers.items() if one.status not in expected[name.rstrip(" 0123456789")]}
    assert not wrong, "\n".join(f"{name}: {one.status} {one.body}" for name, one in wrong.items())
    assert [answers[key].data["status"] for key in ("dot", "mail")] == ["sending", "sending"]
    assert all(one.body > 3_000_000 for name, one in answers.items() if name.startswith("slow"))


# --- at any moment ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "numbers",
    [
        (signal.SIGINT, signal.SIGTERM, signal.SIGTERM),
        (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGHUP),
    ],
    ids=["Ctrl-C first", "amid reloads"],
)
def test_several_signals_end_it_as_one_does(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    with started(tmp_path) as appliance:
        began = time.monotonic()
        tell(appliance, *numbers)
        assert ended(appliance, began) < 5
        assert "Traceback" not in appliance.said()
        assert {line["level"] for line in log_of(appliance)} == {"info"}


class Told:
    """Counts the calls it gets."""

    stops = reloads = 0

    def stop(self) -> None:
        self.stops += 1

    def reload(self) -> None:
        self.reloads += 1


def test_a_word_that_was_lost_on_its_way_counts_once_somebody_serves() -> None:
    """A library callback may swallow the first signal; a second one does not interrupt the cleanup."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    begun, told = list[None](), Told()
    try:
        signals = SignalHandler(lambda: begun.append(None))
        signal.raise_signal(signal.SIGHUP)
        assert [signals.is_stopping] == [False]
        with pytest.raises(StoppedBeforeStart):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert signals.is_stopping
        signals.forward_to(told)
        assert (told.stops, len(begun)) == (1, 2)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGHUP)
        assert (told.stops, told.reloads) == (2, 1)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_TOLD_AT = """
import signal, sys
from mailbox_appliance.__main__ import main
def look(frame, event, argument):
    if frame.f_code.co_name == "{name}" and frame.f_code.co_filename.endswith("{file}"):
        if event == "{event}":
            sys.settrace(None)
            signal.raise_signal(signal.SIGTERM)
        return look
sys.settrace(look)
main()
"""


@pytest.mark.parametrize(
    ("file", "name", "event"),
    [("service/main.py", "_open_service", "return"), ("service/signals.py", "forward_to", "call")],
)
def test_told_to_end_before_anybody_serves(tmp_path: Path, file: str, name: str, event: str) -> None:
    """Also between opening and serving."""
    program = _TOLD_AT.format(file=file, name=name, event=event)
    command = [sys.executable, "-c", program, "--data-dir", str(tmp_path / "data"), "serve", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


_HANGS_AT_THE_END = """
import signal, sys, time
from mailbox_appliance.service.shutdown import ShutdownWatchdog
from mailbox_appliance.__main__ import main
ShutdownWatchdog.__init__.__defaults__ = (0.5,)
def look(frame, event, argument):
    if frame.f_code.co_filename.endswith("service/service.py") and event == "call":
        if frame.f_code.co_name == "serve":
            signal.raise_signal(signal.SIGTERM)
        if frame.f_code.co_name == "close":
            time.sleep(60)
sys.settrace(look)
main()
"""


def test_what_hangs_at_the_end_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HANGS_AT_THE_END, "--data-dir", str(tmp_path), "serve", "--port", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, "shutdown_timeout" in done.stderr) == (0, True)


def test_at_a_terminal_it_says_what_it_waits_for(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(tmp_path), "serve", "--port", "0"]
    run = tmp_path / "run.json"
    with (
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as process,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        os.close(theirs)
        wait_until(lambda: run.exists() and bool(run.read_text()), lambda: "it does not start", 15)
        appliance = RunningAppliance(tmp_path)
        appliance.url = json.loads(run.read_text())["url"]
        appliance.set_up()
        request = account_at("x@y.test", silent.getsockname()[1], silent.getsockname()[1])
        asking = threading.Thread(target=lambda: appliance.ask("POST", "/accounts", request))
        asking.start()
        waiting, _ = silent.accept()
        process.send_signal(signal.SIGINT)
        said = ""
        while "seconds" not in said:
            said += os.read(ours, 1000).decode()
        assert said.splitlines()[-1] == "Stopping: waiting for 1 request (at most 9 seconds)."
        waiting.close()  # that is its answer
        silent.close()
        assert process.wait(_WITHIN) == 0
        asking.join()
    os.close(ours)


def test_a_backup_that_is_being_made_is_broken_off_or_whole(tmp_path: Path) -> None:
    with started(tmp_path) as appliance:
        answers = list[Answer]()
        asking = threading.Thread(target=lambda: answers.append(appliance.ask("POST", "/admin/backups", {})))
        asking.start()
        wait_until(lambda: bool(list((tmp_path / "backups").glob("*"))), lambda: "no backup is begun", 10)
        began = time.monotonic()
        tell(appliance, signal.SIGTERM)
        assert ended(appliance, began) < _WITHIN
        asking.join()
        left = [file.name for file in (tmp_path / "backups").iterdir()]
        assert answers[0].status == 201, answers[0]
        assert left == [answers[0].data["fileName"]]


def test_an_upgrade_is_broken_off_and_done_at_the_next_start(tmp_path: Path) -> None:
    folder, _ = copied(3, tmp_path / "data")
    process = subprocess.Popen(
        [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(folder), "serve", "--port", "0", "--ready-json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("encrypting..."):
            break
    process.send_signal(signal.SIGTERM)
    output, complaints = process.communicate(timeout=_WITHIN)
    assert (process.returncode, output) == (0, "")
    assert "Traceback" not in complaints
    assert "error" not in complaints
    appliance = RunningAppliance(folder).start()
    assert appliance.ask("GET", "/").status == 200
    assert appliance.stop() == 0
    left = {path.name for path in folder.iterdir()}
    assert left == {"config.toml", "encryption.key", "backups", "lock", "logs", "mailbox.db"}


# --- SIGHUP -----------------------------------------------------------------------------------------------------------


def hung_up(appliance: RunningAppliance, times: int) -> None:
    """Ask it to reload, and wait until it has done so this many times."""
    tell(appliance, signal.SIGHUP)
    told = ("config_reloaded", "config_rejected")
    wait_until(
        lambda: sum(event in told for event in events(appliance)) == times, lambda: str(events(appliance)[-5:]), 10
    )


def test_configuration_and_log_files_are_taken_up_anew(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    with started(tmp_path) as appliance:
        config.write_text("[backup]\nkeep_daily = 3\n[server]\nworkers = 5\n[log]\nlevel = 'debug'\n")
        hung_up(appliance, 1)
        assert _days(appliance) == 3
        [line] = [line for line in log_of(appliance) if line["event"] == "config_reloaded"]
        assert line["at_the_next_start"] == ["server.workers"]
        config.write_text("[backup]\nkeep_daily = 'three'\n")
        hung_up(appliance, 2)
        assert _days(appliance) == 3
        [line] = [line for line in log_of(appliance) if line["level"] == "error"]
        assert "backup.keep_daily must be a whole number" in line["why"]
        config.unlink()
        _rotate_log(appliance)
        assert _days(appliance) == 7
        assert appliance.stop() == 0


def _days(appliance: RunningAppliance) -> Any:
    return appliance.ask("GET", "/admin/settings").data["backup.keep_daily"]


def _rotate_log(appliance: RunningAppliance) -> None:
    """Rotate as logrotate does: rename, send the signal, and process the old file once nobody writes to it."""
    log = appliance.folder / "logs" / "appliance.log"
    log.rename(rotated := log.with_name("appliance.log-20261121"))
    tell(appliance, signal.SIGHUP)
    wait_until(log.exists, lambda: "there is no new log", 10)
    wait_until(lambda: "config_reloaded" in events(appliance), lambda: str(events(appliance)), 10)
    size = rotated.stat().st_size
    assert appliance.ask("GET", "/me").status == 200
    wait_until(lambda: "GET /api/v1/me" in log.read_text(), log.read_text, 5)
    assert rotated.stat().st_size == size


@pytest.mark.parametrize("how", ["at a terminal", "nohup", "told while the terminal is there"])
def test_closing_the_terminal_ends_it_unless_nohup_said_otherwise(tmp_path: Path, how: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(tmp_path), "serve", "--port", "0"]
    # The session leader is a shell, as in a real terminal: it gets the signal first and forwards it to its children.
    process = subprocess.Popen(
        [sys.executable, "-c", _IN_A_SESSION, *(["nohup"] if how == "nohup" else []), *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        cwd=tmp_path,  # the file to which nohup redirects output
    )
    os.close(theirs)
    run = tmp_path / "run.json"
    wait_until(run.exists, lambda: "it does not start", 15)
    pid = json.loads(run.read_text())["pid"]
    wait_until(lambda: bool(json.loads(run.read_text())), lambda: "", 5)
    url = json.loads(run.read_text())["url"]
    _wait_for_answer(url)
    if how != "told while the terminal is there":
        os.close(ours)
    if how != "at a terminal":
        os.kill(pid, signal.SIGHUP)
        log = tmp_path / "logs" / "appliance.log"
        wait_until(lambda: "config_reloaded" in log.read_text(), lambda: log.read_text(), 10)
        _wait_for_answer(url)
        os.kill(pid, signal.SIGTERM)
    process.wait(_WITHIN)
    wait_until(lambda: not run.exists(), lambda: "it does not end", 10)
    if how == "told while the terminal is there":
        os.close(ours)


#: Takes the terminal for the session, runs a command, and forwards signals to it.
_IN_A_SESSION = """
import fcntl, signal, subprocess, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
child = subprocess.Popen(sys.argv[1:])
signal.signal(signal.SIGHUP, lambda *_: child.send_signal(signal.SIGHUP))
sys.exit(child.wait())
"""


def _wait_for_answer(url: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=10)
    connection.request("GET", "/healthz")
    assert connection.getresponse().read() == b"ok\n"
    connection.close()


# --- systemd ----------------------------------------------------------------------------------------------------------


def test_systemd_is_told_from_a_long_start_to_the_end(tmp_path: Path) -> None:
    folder, _ = copied(3, tmp_path / "data")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(10)
        appliance = RunningAppliance(folder, {"NOTIFY_SOCKET": str(tmp_path / "notify")}).start()
        assert [listening.recv(1000), listening.recv(1000)] == [b"EXTEND_TIMEOUT_USEC=60000000", b"READY=1"]
        before = time.monotonic_ns() // 1000
        tell(appliance, signal.SIGHUP)
        told, _, at = listening.recv(1000).decode().partition("\nMONOTONIC_USEC=")
        assert told == "RELOADING=1"
        assert before <= int(at) <= time.monotonic_ns() // 1000
        assert listening.recv(1000) == b"READY=1"
        assert appliance.stop() == 0
        assert listening.recv(1000) == b"STOPPING=1"


def test_an_abstract_name_and_one_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0mailbox-appliance-{os.getpid()}")
        for place in (f"@mailbox-appliance-{os.getpid()}", "@mailbox-appliance-nobody", "odd", ""):
            monkeypatch.setenv("NOTIFY_SOCKET", place)
            signals.notify_ready()
        listening.settimeout(5)
        assert listening.recv(1000) == b"READY=1"
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.recv(1000)
