"""A full disk at any moment of a send: nothing is sent unrecorded, and nothing is lost.

The store is on a small file system of its own (tmpfs, which needs root), filled up to the last block while the server
holds the message at a step. Failures of each single statement are in `test_worker`.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mailbox_appliance.appliance import Appliance
from tests.sending.test_sender import accept, mailbox
from tests.servers.desk import Desk, a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.scripted_smtp import ScriptedSmtp
from tests.servers.smtp_script import Keep, Stall, Step

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")


@dataclass
class SmallDisk:
    """A file system of 12 MiB."""

    folder: Path

    def fill(self) -> None:
        """Use up every block."""
        with (self.folder / "ballast").open("wb", buffering=0) as file:
            size = 1 << 20
            while size >= 512:
                try:
                    if file.write(bytes(size)) < size:
                        size //= 2
                except OSError:
                    size //= 2

    def free(self) -> None:
        """Free the space again."""
        (self.folder / "ballast").unlink()


@contextmanager
def mounted(folder: Path) -> Iterator[SmallDisk]:
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", folder], check=True, capture_output=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", folder], check=True, capture_output=True)


@dataclass
class Office:
    desk: Desk
    account: str
    smtp: ScriptedSmtp
    disk: SmallDisk

    def fill_at(self, step: Step) -> None:
        """Fill the disk while the server holds the message at this step, and wait until the send is given up."""
        self.smtp.reached(step)
        self.disk.fill()
        self.smtp.release()
        wait_until(lambda: self.smtp.connected == 0, lambda: "it goes on", 10)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[Office]:
    user = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=user).start()
    try:
        with mounted(tmp_path_factory.mktemp("disk") / "small") as disk:
            desk = Desk(disk.folder / "data", sending__answer_within=20, sending__keep_connection=0)
            account = desk.connect(user, imap_port=mail_server.imap_port, smtp_port=smtp.port)
            yield Office(desk, account, smtp, disk)
            desk.close()
    except subprocess.CalledProcessError as refused:
        pytest.skip(f"no file system can be mounted here: {refused.stderr.decode()}")
    finally:
        smtp.stop()


@pytest.mark.parametrize("step", ["connect", "ehlo", "auth", "mail", "rcpt", "data"])
def test_full_before_the_dot(office: Office, step: Step) -> None:
    office.smtp.forget()
    office.smtp.at(step, [Stall()])
    key = a_key()
    asked = office.desk.begin(office.account, a_message(), key)
    office.fill_at(step)
    assert office.smtp.messages == ()
    office.disk.free()
    answer = asked.result(30)  # the key is free as soon as that can be recorded
    assert (answer.status, answer.code) == (503, "provider_unavailable")
    assert office.desk.send(office.account, a_message(), key).data["status"] == "succeeded"
    assert len(office.smtp.messages) == 1


@pytest.mark.parametrize(
    ("then", "status", "copies"),
    [(None, "succeeded", 1), (Keep("421 bye"), "uncertain", 1), ("554 5.7.1 no", "failed", 0)],
    ids=["succeeded", "uncertain", "failed"],
)
def test_full_after_the_dot(office: Office, then: Keep | str | None, status: str, copies: int) -> None:
    office.smtp.forget()
    office.smtp.at("reply", [Keep(Stall()) if then is None else Stall(then)])
    asked = office.desk.begin(office.account, a_message())
    office.fill_at("reply")
    assert not asked.done()
    office.disk.free()
    assert asked.result(30).data["status"] == status
    assert (len(office.smtp.messages), office.smtp.count("connect")) == (copies, 1)


def test_full_before_anything(office: Office) -> None:
    office.smtp.forget()
    key = a_key()
    office.disk.fill()
    refused = office.desk.send(office.account, a_message(), key)
    assert refused.status in (500, 503)
    office.disk.free()
    assert office.smtp.count("connect") == 0
    assert office.desk.send(office.account, a_message(), key).data["status"] == "succeeded"


def test_full_at_the_start(tmp_path: Path, scripted_smtp: ScriptedSmtp) -> None:
    try:
        with mounted(tmp_path / "small") as disk:
            before = Desk(disk.folder / "data")
            operation = accept(before, mailbox(before, scripted_smtp.port))
            before.close()
            appliance = Appliance(disk.folder / "data")
            find = appliance.store.deliveries.find
            disk.fill()
            try:
                appliance.start()
                assert find(operation) is not None
                disk.free()
                wait_until(lambda: find(operation) is None, lambda: "it is not taken back", 10)
            finally:
                appliance.stop(1)
    except subprocess.CalledProcessError as refused:
        pytest.skip(f"no file system can be mounted here: {refused.stderr.decode()}")
    assert scripted_smtp.count("connect") == 0
