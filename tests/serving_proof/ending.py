"""SIGTERM while 20 requests and 5 sends are under way: all are answered or journalled, and it ends with 0 in 10 s.

In every round clients upload slowly, read slowly, wait for a mail server that is silent, have a password hashed, have a
backup made, and send through servers that hold them at any step; then come the signals: one, several, amid reloads, or
just after the start. Of what was whole on its way before the first signal, all must be answered, none with an error
that is ours. After the next start each send is repeated until it is over, and journal and servers must agree.
"""

import base64
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sending.letters import Attempt, Letter
from tests.sending.proof import Stage, calm
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import account_at, wait_until
from tests.servers.running import PASSWORD, RunningAppliance
from tests.servers.smtp_script import Action, Delay, Keep, Lose, Stall, Step
from tests.serving_proof.asking import Request, Told, ask
from tests.serving_proof.judging import WITHIN, Round, judge_answers, judge_log, settle

REQUESTS, SENDS, MAILBOXES = 20, 5, 5
_LARGE = 12 << 20
_ENVIRONMENT = {"MAILBOX_APPLIANCE_LOG_LEVEL": "info", "MAILBOX_APPLIANCE_REMOTE_TIMEOUT": "30"}
_HELD_AT: tuple[Step, ...] = ("connect", "ehlo", "auth", "mail", "rcpt", "data", "body", "dot", "reply", "reply")


@dataclass
class Scene:
    """What the rounds have in common."""

    stage: Stage
    large: str = ""  # the path of something large
    silent: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0), backlog=64))
    is_secure: bool = False

    @property
    def url(self) -> str:
        """Where clients ask in this round."""
        url = self.stage.appliance.https if self.is_secure else self.stage.appliance.url
        assert url is not None
        return url


@contextmanager
def staged(mail: MailServer, folder: Path, arguments: Sequence[str]) -> Iterator[Scene]:
    """An appliance with mailboxes, each with an SMTP server that does what it is told, and a large message."""
    stage = Stage(RunningAppliance(folder, _ENVIRONMENT, arguments=arguments).start(), mail)
    scene = Scene(stage)
    try:
        stage.appliance.set_up()
        for _ in range(MAILBOXES):
            stage.add_mailbox()
        scene.large = _large_message(stage)
        assert stage.appliance.stop() == 0
        yield scene
    finally:
        stage.clear()
        scene.silent.close()


def _large_message(stage: Stage) -> str:
    head = b"From: bob@example.test\r\nSubject: large\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    stage.mail.deliver(stage.users[0], head + base64.encodebytes(os.urandom(_LARGE)).replace(b"\n", b"\r\n"))
    path = f"/accounts/{stage.accounts[0]}/messages"
    wait_until(lambda: bool(stage.appliance.ask("GET", path).data["items"]), lambda: "no mail", 30)
    raw = f"{path}/{stage.appliance.ask('GET', path).data['items'][0]['id']}/raw"
    told = ask(stage.appliance.url, stage.appliance.token or "", Told(Request("fetch", "GET", raw)))
    assert told.status == 200, told
    return raw


# --- a round ----------------------------------------------------------------------------------------------------------

#: How the signals come.
HOWS = ("once", "once", "twice", "five times", "by Ctrl-C and then", "after reloads", "amid reloads", "after the start")


def play(scene: Scene, seed: int, number: int) -> Round:
    """One round. Raises AssertionError where something is not as it must be."""
    chance, stage = random.Random(f"{seed}/{number}"), scene.stage
    now = Round(number, chance.choice(HOWS))
    scene.is_secure = scene.is_secure and chance.random() < 0.6
    stage.appliance.start()
    for server in stage.servers:
        step = chance.choice(_HELD_AT)
        held = _held(chance, step)
        server.at(step, [held])
        now.held.append(f"{step}: {held!r}")
    threads = _begin(scene, now, chance, seed)
    if now.how != "after the start":
        time.sleep(chance.uniform(0.3, 1.5))
    _end(stage.appliance, now, chance)
    now.hurry.set()
    for thread in threads:
        thread.join(WITHIN)
        assert not thread.is_alive(), (
            f"a client waits for ever: {[str(told) for told in now.told if not told.is_whole]}"
        )
    for server in stage.servers:
        calm(server)
        server.release()
    stage.kills.append(now.ended)
    judge_answers(now)
    judge_log(stage.appliance.folder)
    settle(stage, now)
    return now


def _held(chance: random.Random, step: Step) -> Action:
    """A server that is silent until it is let go, or slow; then as usual, or it refuses where that is its last word."""
    if chance.random() < 0.4:
        stalls: tuple[Action, ...] = (Stall(), Keep(Stall()), Lose(Stall("554 5.7.1 no")))
        return chance.choice(stalls if step == "reply" else stalls[:1])
    refusals = (None,) if step == "body" else (None, None, "451 4.3.0 later", "554 5.6.0 no")
    return Delay(chance.uniform(0.1, 6.0), chance.choice(refusals))


def _begin(scene: Scene, now: Round, chance: random.Random, seed: int) -> list[threading.Thread]:
    """Start all clients; each waits for a moment of its own first."""
    stage = scene.stage
    requests = [_request(scene, chance, f"{now.number}-{index}") for index in range(REQUESTS)]
    for index in range(SENDS):
        subject = f"r{now.number}-{index}-{seed}"
        account = stage.accounts[index % len(stage.accounts)]
        body = _letter(subject)
        now.letters.append(Letter(subject, account, [Attempt(account, f"key-{subject}", body)]))
        path, fields = f"/accounts/{account}/send", {"Idempotency-Key": f"key-{subject}"}
        requests.append(Request.of("send", "POST", path, body, fields=fields))
    stage.letters += now.letters
    now.told = [Told(request) for request in requests]
    token, url = stage.appliance.token or "", scene.url

    def client(told: Told, pause: float) -> None:
        time.sleep(pause)
        ask(url, token, told, now.hurry)

    threads = [threading.Thread(target=client, args=(told, chance.uniform(0, 0.4))) for told in now.told]
    for thread in threads:
        thread.start()
    return threads


def _letter(subject: str) -> dict[str, Any]:
    return {"subject": subject, "to": [{"email": "bob@example.test"}], "body": {"text": "Hello\n.\n"}}


def _request(scene: Scene, chance: random.Random, name: str) -> Request:
    account, silent = chance.choice(scene.stage.accounts), scene.silent.getsockname()[1]
    kinds: dict[str, Callable[[], Request]] = {
        "read": lambda: Request("read", "GET", "/me"),
        "upload": lambda: Request.of(
            "upload",
            "POST",
            f"/accounts/{account}/send/preview",
            _letter(name) | {"body": {"text": "x" * 300_000}},
            sends=chance.choice((0.2, 1.0, 3.0, 8.0)),
        ),
        "download": lambda: Request("download", "GET", scene.large, reads=chance.choice((0.2, 1.0, 3.0, 30.0))),
        "wait": lambda: Request.of("wait", "POST", "/accounts", account_at("x@example.test", silent, silent)),
        "draft": lambda: Request.of("draft", "POST", f"/accounts/{account}/drafts", _letter(name)),
        "log in": lambda: Request.of(
            "log in",
            "POST",
            "/auth/login",
            {"email": "ada@example.org", "password": PASSWORD, "deviceName": name},
        ),
        "backup": lambda: Request.of("backup", "POST", "/admin/backups", {}),
    }
    return kinds[chance.choices(list(kinds), (4, 3, 3, 3, 2, 3, 1))[0]]()


def _end(appliance: RunningAppliance, now: Round, chance: random.Random) -> None:
    """Send the signals of this round; wait for the end."""
    process = appliance.process
    assert process is not None

    def say(*numbers: int, every: float = 0.0) -> None:
        for number in numbers:
            if process.poll() is None:
                process.send_signal(number)
            time.sleep(every)

    if now.how == "after reloads":
        say(*[signal.SIGHUP] * 10, every=0.03)
    if now.how == "amid reloads":
        say(*[signal.SIGHUP] * 10)
    now.signalled = time.monotonic()
    say(signal.SIGINT if now.how == "by Ctrl-C and then" else signal.SIGTERM)
    match now.how:
        case "twice" | "by Ctrl-C and then":
            time.sleep(chance.uniform(0, 1.5))
            say(chance.choice((signal.SIGTERM, signal.SIGINT)))
        case "five times":
            say(*[signal.SIGTERM] * 4, every=0.05)
        case "amid reloads":
            say(*[signal.SIGHUP] * 5, every=0.02)
    now.code, now.ended = _wait_for_end(appliance, now.signalled + WITHIN), time.monotonic()


def _wait_for_end(appliance: RunningAppliance, until: float) -> int:
    assert appliance.process is not None
    try:
        appliance.process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        appliance.process.send_signal(signal.SIGABRT)  # Python says where each thread is
        appliance.process.wait(10)
        told = appliance.said() + appliance.threads()
        raise AssertionError(f"it has not ended after {WITHIN:.0f} s: {told}") from None
    return appliance.stop()
