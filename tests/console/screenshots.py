"""The pictures of the console in the README, taken from a demo: its mail list beside an uncertain delivery."""

import json
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from tests.console.browsers import launch
from tests.servers.mailboxes import wait_until

IMAGES = Path(__file__).parent.parent.parent / "docs" / "images"
_WIDTHS, _HEIGHT, _GAP = {"mail": 1060, "deliveries": 700}, 860, 20
_SCALE = 0.9
#: So many colors keep text sharp and the files small.
_COLORS = 96
_LOST = "lost@demo.test"


@contextmanager
def run_demo() -> Iterator[tuple[str, str]]:
    """Run a demo. Yields its address and its `mailbox-appliance` command."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            (sys.executable, "-m", "mailbox_appliance", "demo"),
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/bin:/bin", "HOME": folder, "LANG": "C.UTF-8"},
            cwd=folder,
        )
        assert process.stdout
        try:
            lines: list[str] = []
            while not lines or not lines[-1].startswith("Ctrl-C"):
                line = process.stdout.readline()
                assert line, "".join(lines)
                lines.append(line)
            url = next(line.split()[-1] for line in lines if "http://" in line)
            command = next(line.split()[0] for line in lines if " emails list" in line)
            yield url, command
        finally:
            process.terminate()
            process.wait(30)


def run(*command: str) -> str:
    """Run a command and return what it prints. An uncertain delivery is an exit code of its own."""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def put_away(command: str) -> None:
    """Archive mail in scripts for which most machines that take the pictures have no font."""
    listed = json.loads(run(command, "emails", "list", "--folder", "inbox", "--all"))["data"]["items"]
    far = [one["id"] for one in listed if any(sign >= "\u2600" for sign in str(one))]
    run(command, "emails", "archive", *far)


def take(browser: Browser, url: str, command: str, scheme: str, operation: str, account: str) -> bytes:
    """Take both pages in a color scheme and join them."""
    pictures = {}
    for name, path in {"mail": "mail", "deliveries": f"deliveries/{account}/{operation}"}.items():
        context = browser.new_context(
            viewport={"width": _WIDTHS[name], "height": _HEIGHT},
            color_scheme="dark" if scheme == "dark" else "light",
            device_scale_factor=_SCALE,
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.goto(json.loads(run(command, "console", "--format", "json"))["data"]["url"])
        page.wait_for_selector("#navigation", state="attached")
        page.goto(f"{url}/#/{path}")
        page.reload()  # without the note that one has signed in
        page.wait_for_selector("h1")
        page.wait_for_function("document.querySelector('[aria-busy=true]') === null")
        page.wait_for_timeout(1000)
        pictures[name] = page.screenshot()
        context.close()
    return join(browser, list(pictures.values()), scheme)


def join(browser: Browser, pictures: list[bytes], scheme: str) -> bytes:
    """Put pictures beside each other on a plain ground."""
    width = sum(_WIDTHS.values()) + 3 * _GAP
    ground = "#d8dee6" if scheme == "light" else "#0b0e12"
    shown = "".join(
        f'<img src="data:image/png;base64,{b64encode(each).decode()}" style="height:{_HEIGHT}px;border-radius:8px">'
        for each in pictures
    )
    context = browser.new_context(viewport={"width": width, "height": _HEIGHT + 2 * _GAP}, device_scale_factor=_SCALE)
    page = context.new_page()
    style = f"margin:0;padding:{_GAP}px;display:flex;gap:{_GAP}px;background:{ground}"
    page.set_content(f'<body style="{style}">{shown}</body>')
    taken = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(_COLORS)
    context.close()
    small = BytesIO()
    taken.save(small, "PNG", optimize=True)
    return small.getvalue()


def main() -> int:
    """Take the pictures in light and dark."""
    IMAGES.mkdir(exist_ok=True)
    with run_demo() as (url, command), sync_playwright() as playwright:
        put_away(command)
        sent = ("--to", _LOST, "--subject", "Invoice 2041", "--text", "Please find the invoice in the folder.")
        run(command, "emails", "send", "--idempotency-key", "invoice-2041", *sent)

        def listed() -> list[dict[str, str]]:
            return list(json.loads(run(command, "emails", "deliveries"))["data"]["items"])

        wait_until(lambda: any(one["status"] == "uncertain" for one in listed()), lambda: str(listed()), 60)
        delivery = next(one for one in listed() if one["status"] == "uncertain")
        browser = launch(playwright.chromium)
        for scheme in ("light", "dark"):
            picture = take(browser, url, command, scheme, delivery["operationId"], delivery["accountId"])
            (IMAGES / f"console-{scheme}.png").write_bytes(picture)
            sys.stdout.write(f"docs/images/console-{scheme}.png: {len(picture) / 1024:.0f} KB\n")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
