"""`mailbox-appliance mcp` in trouble: no appliance, no permission, restarts, kill -9, other computers."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.assistant import CURRENT, Assistant, environment_of, over_stdio
from tests.mcp_server.judging import Judge, code_of, data_of, text_of
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import PASSWORD, RunningAppliance
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Stall

UNREACHABLE, DENIED = 5, 4
SECURE = ("--https-port", "0", "--https-host", "127.0.0.1")


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    """An appliance that serves HTTPS too, and uses another port after each restart."""
    running = RunningAppliance(tmp_path_factory.mktemp("stdio") / "data", arguments=SECURE).start()
    running.set_up()
    yield running
    running.stop()


def command(
    *arguments: str, folder: Path, token: str | None = None, stdin: str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command line of a user who has only this folder."""
    return subprocess.run(
        [sys.executable, "-m", "mailbox_appliance", *arguments],
        env=environment_of(folder, token, **environment),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_nobody_is_there(tmp_path: Path) -> None:
    ended = command("--data-dir", str(tmp_path / "none"), "mcp", folder=tmp_path, token="mbxk_x")
    assert (ended.returncode, ended.stdout) == (UNREACHABLE, "")
    assert "mailbox-appliance serve" in ended.stderr


@pytest.mark.parametrize("token", [None, "nonsense", f"mbxk_{'a' * 49}"])
def test_a_token_that_is_not_good(appliance: RunningAppliance, tmp_path: Path, token: str | None) -> None:
    # Nothing is read first: the input stays open until the command has ended.
    with subprocess.Popen(
        [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(appliance.folder), "mcp"],
        env=environment_of(tmp_path, token),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.wait(60) == DENIED
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.read() == ""
        assert json.loads(child.stderr.read())["error"]["code"] == "unauthenticated"


def test_the_appliance_is_restarted_between_two_calls(appliance: RunningAppliance, tmp_path: Path) -> None:
    with here(appliance, tmp_path) as assistant:
        judge = Judge(assistant.tools())
        assert data_of(judge.check("get_status", {}, assistant.call("get_status", {})))
        try:
            assert appliance.stop() == 0
            away = judge.check("get_status", {}, assistant.call("get_status", {}))
        finally:
            appliance.start()
        assert code_of(away) == "appliance_unreachable"
        assert "repeat the call once the appliance runs" in text_of(away)
        assert data_of(judge.check("get_status", {}, assistant.call("get_status", {})))
        assert {tool["name"] for tool in assistant.tools()} == {tool["name"] for tool in judge.tools}


def here(appliance: RunningAppliance, folder: Path) -> Any:
    """Return an MCP client over stdio with the administrator's session."""
    environment = environment_of(folder / "config", appliance.token)
    return over_stdio(["--data-dir", str(appliance.folder)], environment, folder / "errors")


@pytest.mark.parametrize(("step", "status"), [("data", "succeeded"), ("reply", "uncertain")])
def test_kill_9_during_a_send_and_the_same_again(
    appliance: RunningAppliance,
    mail_server: MailServer,
    scripted_smtp: ScriptedSmtp,
    tmp_path: Path,
    step: Any,
    status: str,
) -> None:
    scripted_smtp.user = mail_server.fresh_user()
    account = appliance.connect(scripted_smtp.user, imap_port=mail_server.imap_port, smtp_port=scripted_smtp.port)
    message = {
        "accountId": account,
        "to": [{"email": "bob@example.test"}],
        "subject": "Once",
        "body": {"text": "Only"},
        "idempotencyKey": uuid.uuid4().hex,
    }
    scripted_smtp.at(step, Stall())
    with here(appliance, tmp_path) as assistant, ThreadPoolExecutor(1) as background:
        judge = Judge(assistant.tools())
        sending = background.submit(assistant.call, "send_email", message)
        scripted_smtp.reached(step)
        appliance.kill()
        scripted_smtp.at(step, None)
        appliance.start()
        lost = judge.check("send_email", message, sending.result(30))
        assert code_of(lost) == "appliance_unreachable"
        assert "idempotencyKey" in text_of(lost)
        assert settled(assistant, judge, message)["status"] == status
        again = data_of(judge.check("send_email", message, assistant.call("send_email", message)))
        assert again["status"] == status
    assert len(scripted_smtp.messages) == 1


def settled(assistant: Assistant, judge: Judge, message: dict[str, Any]) -> Any:
    """Repeat a send until its outcome is final, and return that."""
    told: list[Any] = []

    def is_over() -> bool:
        told.append(data_of(judge.check("send_email", message, assistant.call("send_email", message))))
        return told[-1]["status"] not in ("queued", "sending")

    wait_until(is_over, lambda: str(told[-1]), 20)
    return told[-1]


# --- on another computer ----------------------------------------------------------------------------------------------


def test_a_remote_one_whose_certificate_is_pinned(appliance: RunningAppliance, tmp_path: Path) -> None:
    url = str(appliance.https)
    config = tmp_path / "config"
    here = ("--data-dir", str(appliance.folder))
    shown = json.loads(command("https", "fingerprint", *here, folder=tmp_path / "own", token=appliance.token).stdout)
    pin = shown["data"]["fingerprint"]
    login = ("login", url, "--email", "ada@example.org", "--password-stdin")
    elsewhere = {"MAILBOX_APPLIANCE_DATA_DIR": str(tmp_path / "nowhere")}
    wrong = f"sha256:{'0' * 64}"
    refused = command(*login, "--fingerprint", wrong, folder=config, stdin=PASSWORD, **elsewhere)
    assert (refused.returncode, pin in refused.stderr) == (5, True), refused.stderr
    done = command(*login, "--fingerprint", pin, folder=config, stdin=PASSWORD, **elsewhere)
    assert done.returncode == 0, done.stderr
    with over_stdio([], environment_of(config, **elsewhere), tmp_path / "errors", CURRENT) as assistant:
        judge = Judge(assistant.tools())
        judge.check_listing()
        assert data_of(judge.check("get_status", {}, assistant.call("get_status", {})))
    remembered = config / "instances.json"
    remembered.write_text(remembered.read_text().replace(pin, wrong))
    ended = command("mcp", folder=config, **elsewhere)
    assert (ended.returncode, ended.stdout) == (refused.returncode, ""), ended.stderr
    assert str(appliance.token) not in ended.stderr
