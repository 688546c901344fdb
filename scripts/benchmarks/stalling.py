"""How long GET /me takes while 50 sends wait for a server that does not answer, beside how long it took before."""

import json
import threading
import uuid
from collections.abc import Iterator

from benchmarks import stage
from benchmarks.figures import Figure, spread
from benchmarks.wire import Load, load
from tests.servers.running import RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Stall

_SENDS, _CONNECTIONS, _SECONDS, _ROUNDS = 50, 4, 2.0, 3


def measure() -> Iterator[Figure]:
    """Before, and with all sends under way: four requests wait, the others have been answered `sending`."""
    with stage.scratch() as folder, stage.mail_servers(folder) as mail, stage.appliance(folder / "data") as running:
        smtp = ScriptedSmtp(user=mail.sender, password=mail.password).start()
        try:
            account = running.connect(
                mail.sender, imap_port=mail.imap_port, smtp_port=smtp.port, password=mail.password
            )
            stage.wait_until_ready(running, account)
            smtp.at("mail", Stall())
            _me(running)
            before = [_me(running) for _ in range(_ROUNDS)]
            waiting = _send(running, account, mail.recipient)
            during = [_me(running) for _ in range(_ROUNDS)]
            smtp.at("mail", None)
            smtp.release("mail")
            for each in waiting:
                each.join()
        finally:
            smtp.stop()
    p95 = [load.p95 for load in before], [load.p95 for load in during]
    yield Figure(
        f"p95 of GET /me with {_SENDS} stalled sends",
        sorted(p95[1])[_ROUNDS // 2] / sorted(p95[0])[_ROUNDS // 2],
        2,
        "at most",
        "x",
        f"{spread(p95[1], '.1f')} ms",
        f"before: {spread(p95[0], '.1f')} ms",
    )


def _me(running: RunningAppliance) -> Load:
    return load(running.url, "/api/v1/me", connections=_CONNECTIONS, seconds=_SECONDS, token=running.token or "")


def _send(running: RunningAppliance, account: str, recipient: str) -> list[threading.Thread]:
    """Start the sends; returns once all but those that wait have been answered."""
    body = {"to": [{"email": recipient}], "subject": "Bench", "body": {"text": json.dumps("stalled")}}
    answered = threading.Semaphore(0)

    def send() -> None:
        running.ask("POST", f"/accounts/{account}/send", body, Idempotency_Key=uuid.uuid4().hex)
        answered.release()

    threads = [threading.Thread(target=send) for _ in range(_SENDS)]
    for thread in threads:
        thread.start()
    for _ in range(_SENDS - 4):
        answered.acquire(timeout=20)
    return threads
