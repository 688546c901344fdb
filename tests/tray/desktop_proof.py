"""The tray as a user has it, from a start with an empty folder to Quit; run by `scripts/prove-tray`."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mailbox_appliance.client import local
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import wait_until
from tests.servers.running import PASSWORD, RunningAppliance
from tests.servers.tray_panel import Box, Colour, Panel
from tests.servers.tray_watcher import TrayHost

BLUE, AMBER, GREY = (0x01, 0x72, 0xAD), (0xFF, 0xB0, 0x00), (0x73, 0x78, 0x80)
PATIENCE = 30.0
PROGRAM = (sys.executable, "-m", "mailbox_appliance")


class Proof:
    """A desktop with the tray, and the user's actions there."""

    def __init__(self, folder: Path, pictures: Path) -> None:
        self._pictures, self._begun = pictures, time.monotonic()
        self.data_dir = folder / "appliance"
        self.opened = folder / "opened"
        self.panel = Panel(folder / "desktop")
        self.environment: dict[str, str] = {}
        self._folder = folder

    @contextmanager
    def desktop(self) -> Iterator["Proof"]:
        """Start the desktop, with a browser that only records the addresses it opens, and end both."""
        browser = self._folder / "browser"
        browser.write_text(f'#!/bin/sh\numask 077\nprintf "%s\\n" "$1" >>{self.opened}\n')
        browser.chmod(0o755)
        try:
            self.panel.start()
            self.environment = self.panel.environment | {
                "MAILBOX_APPLIANCE_DATA_DIR": str(self.data_dir),
                "MAILBOX_APPLIANCE_KEYCHAIN": "off",
                "MAILBOX_APPLIANCE_SERVER_PORT": "0",
                "BROWSER": str(browser),
                "PYTHONPATH": str(Path(__file__).parents[2]),
            }
            self.host = TrayHost(self.panel.bus.address, tray=False).start()
            self.tell("a desktop is there, without our icon")
            yield self
        finally:
            self._end()

    def _end(self) -> None:
        if (running := local.find_running(self.data_dir)) is not None:
            os.kill(running.pid, signal.SIGTERM)
        if hasattr(self, "host"):
            self.host.stop()
        self.panel.stop()

    @contextmanager
    def tray(self) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the tray and end it; if the proof fails, keep a picture."""
        process = subprocess.Popen((*PROGRAM, "tray"), env=self.environment)
        try:
            yield process
        except BaseException:
            self.panel.picture().save(self._pictures / "failed.png")
            process.kill()
            raise
        finally:
            process.wait(PATIENCE)

    def tell(self, what: str, picture: str | None = None) -> None:
        """Print what has been shown, and keep a picture of it."""
        print(f"{time.monotonic() - self._begun:6.1f} s  {what}", flush=True)
        if picture:
            self.panel.picture().save(self._pictures / f"{picture}.png")

    def run(self, *arguments: str, typed: str = "") -> str:
        """Run the program to its end."""
        done = subprocess.run(
            (*PROGRAM, *arguments), env=self.environment, input=typed, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def running(self) -> local.RunningAppliance:
        """Return the appliance that answers."""
        found = local.find_running(self.data_dir)
        assert found is not None, "no appliance answers"
        return found

    def open_menu(self, colour: Colour) -> list[tuple[str, Box]]:
        """Open the menu with the mouse; return its labels, each with its place on the screen."""
        self.panel.click(self.panel.wait_for(colour).middle, button=3)
        self.host.adopt()
        found: list[tuple[str, Box]] = []

        def is_open() -> bool:
            # Read again each time: opening the menu makes the tray poll, which may change rows.
            labels = [row.label for row in self.host.rows() if not row.is_separator]
            lines = self.panel.lines()
            found[:] = zip(labels, lines, strict=False)
            return 0 < len(labels) == len(lines)

        wait_until(is_open, lambda: f"the menu does not show what it is to: {found}", PATIENCE)
        return found

    def click(self, label: str, colour: Colour, picture: str | None = None) -> None:
        """Open the menu and click a row."""
        self.host.adopt()
        self.host.wait_for(label, enabled=True, patience=PATIENCE)
        lines = dict(self.open_menu(colour))
        self.panel.point(lines[label].middle)
        if picture:
            self.tell(f"the menu is open: {', '.join(lines)}", picture)
        self.panel.click(lines[label].middle)
        self.panel.wait_until_closed()


def prove(proof: Proof, mail: MailServer) -> None:
    """Run the proof from the first start to Quit."""
    with proof.tray() as tray:
        proof.panel.wait_for(AMBER)
        first = proof.running()
        proof.tell(f"the tray has started the appliance (pid {first.pid}); its icon asks for setup", "1-new")
        proof.click("Set up…", AMBER, "2-set-up")
        _wait_until_opened(proof, 1)
        _set_up(proof, mail)
        _wait_for_mail(proof)
        proof.panel.wait_until_gone(AMBER)
        proof.tell("set up, signed in, a mailbox is connected", "3-well")
        _back_up(proof)
        proof.panel.click(proof.panel.wait_for(BLUE).middle)
        _wait_until_opened(proof, 2)
        assert "#console=" in proof.opened.read_text().splitlines()[-1]
        proof.tell("a click on the icon has opened the console, signed in")
        _restart_panel(proof)
        _stop_and_start(proof)
        last = proof.running()
        proof.click("Quit", BLUE)
        assert tray.wait(PATIENCE) == 0
        wait_until(lambda: proof.panel.find(BLUE) is None, lambda: "the icon is still there", PATIENCE)
        assert not local.is_owned(proof.data_dir), "the appliance still runs"
        assert not Path(f"/proc/{last.pid}").exists()
        proof.tell("Quit has stopped the appliance; the icon is gone", "7-gone")


def _set_up(proof: Proof, mail: MailServer) -> None:
    appliance = RunningAppliance(proof.data_dir)
    appliance.url = proof.running().url
    appliance.set_up()
    user = mail.fresh_user()
    appliance.connect(user, imap_port=mail.imap_port, smtp_port=mail.submission_port)
    proof.run("login", "--email", "ada@example.org", "--password-stdin", typed=PASSWORD + "\n")


def _wait_for_mail(proof: Proof) -> None:
    proof.host.adopt()
    wait_until(
        lambda: any(label.endswith(": up to date") for label in proof.host.labels()),
        lambda: f"the mailbox does not come up: {proof.host.labels()}",
        PATIENCE,
    )


def _back_up(proof: Proof) -> None:
    before = set((proof.data_dir / "backups").glob("*"))
    proof.click("Back up now", BLUE, "4-menu")
    notice = proof.host.wait_for_notice("ackup", PATIENCE)
    made = set((proof.data_dir / "backups").glob("*")) - before
    assert len(made) == 1, made
    proof.run("backup", "verify", str(made.pop()))
    proof.tell(f"“Back up now” has made a valid backup; the desktop showed “{notice.title}: {notice.text}”")


def _restart_panel(proof: Proof) -> None:
    proof.panel.restart()
    proof.panel.wait_for(BLUE)
    proof.tell("the panel was restarted, and has the icon again")


def _stop_and_start(proof: Proof) -> None:
    before = proof.running().pid
    proof.click("Stop the appliance", BLUE)
    proof.panel.wait_for(GREY)
    wait_until(lambda: not local.is_owned(proof.data_dir), lambda: "the appliance still runs", PATIENCE)
    proof.tell("stopped from the menu", "5-stopped")
    proof.click("Start the appliance", GREY, "6-start")
    proof.panel.wait_for(BLUE)
    assert proof.running().pid != before
    proof.tell("and started again")


def _wait_until_opened(proof: Proof, times: int) -> None:
    def is_opened() -> bool:
        return proof.opened.exists() and len(proof.opened.read_text().splitlines()) >= times

    wait_until(is_opened, lambda: "no browser was opened", PATIENCE)


def main() -> None:
    """Run the proof, and print where the pictures are."""
    parser = argparse.ArgumentParser(prog="prove-tray")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="where to leave pictures of the screen")
    pictures = parser.parse_args().pictures or Path(tempfile.mkdtemp(prefix="tray-"))
    pictures.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="mail-", dir="/tmp")))
        folder.chmod(0o711)
        (folder / "servers").mkdir(mode=0o711)
        mail = MailServer()
        mail.start(folder / "servers")
        ends.callback(mail.stop)
        (folder / "desktop").mkdir()
        prove(ends.enter_context(Proof(folder, pictures).desktop()), mail)
    print(f"All of it holds. Pictures: {pictures}")


if __name__ == "__main__":
    main()
