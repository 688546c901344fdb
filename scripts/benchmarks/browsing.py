"""How heavy the first page of the console is, and how long a browser with an empty cache takes until one can use it."""

import json
import os
import statistics
from collections.abc import Iterator

from playwright.sync_api import Browser, sync_playwright

from benchmarks import stage
from benchmarks.figures import Figure, spread
from mailbox_appliance.web import console_files
from tests.servers.running import RunningAppliance

_ROUNDS = 12
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
#: Moments on the page's own clock, which begins when the address is asked for.
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_NOW = "performance.now()"


def measure() -> Iterator[Figure]:
    """Each page beside a page of plain text from the same server, in turns, every time with a new profile."""
    sizes = {path: len(file.compressed) for path, file in console_files.load_files().items()}
    first = sum(sizes[path] for path in (*console_files.first_modules(), *(p for p in sizes if p.endswith(".css"))))
    whole = f"all files: {sum(sizes.values()) / 1000:.1f} KB"
    yield Figure("first page, compressed", first / 1000, 130, "at most", " KB", whole)
    with (
        stage.scratch() as folder,
        stage.mail_servers(folder) as mail,
        stage.appliance(folder / "data") as running,
        sync_playwright() as playwright,
    ):
        account = running.connect(
            mail.sender, imap_port=mail.imap_port, smtp_port=mail.smtp_port, password=mail.password
        )
        stage.wait_until_ready(running, account)
        path = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = playwright.chromium.launch(executable_path=path, args=_ARGUMENTS)
        yield from _measure_pages(browser, running)
        browser.close()


def _measure_pages(browser: Browser, running: RunningAppliance) -> Iterator[Figure]:
    member = running.ask("GET", "/me").data["member"]
    known = json.dumps({"token": running.token, "member": member, "session": {}})
    painted: dict[str, list[float]] = {"sign-in": [], "mail": [], "text": []}
    ready: dict[str, list[float]] = {"sign-in": [], "mail": [], "text": []}
    for _ in range(_ROUNDS):
        for name, place in (("text", "healthz"), ("sign-in", "#/sign-in"), ("mail", "#/mail")):
            paint, usable = _opened(browser, f"{running.url}/{place}", known if name == "mail" else None)
            painted[name].append(paint)
            ready[name].append(usable)
    text = f"plain text: {spread(painted['text'])} ms"
    for name in ("sign-in", "mail"):
        value = statistics.median(painted[name])
        yield Figure(f"{name}, first paint", value, 500, "at most", " ms", f"{spread(painted[name])} ms", text)
        yield Figure(
            f"{name}, usable", statistics.median(ready[name]), 500, "at most", " ms", f"{spread(ready[name])} ms"
        )


def _opened(browser: Browser, url: str, known: str | None) -> tuple[float, float]:
    """Milliseconds until something is painted, and until the page's heading and its content are there."""
    context = browser.new_context()
    page = context.new_page()
    if known is not None:
        page.add_init_script(f"sessionStorage.setItem('mailbox-appliance.session', {json.dumps(known)})")
    page.goto(url)
    if "#" in url:
        page.locator("h1").wait_for()
        page.locator("main [aria-busy=true]").wait_for(state="detached")
    usable = page.evaluate(_NOW)
    page.locator("body").wait_for()
    page.wait_for_timeout(100)  # the entry is written with the next frame
    paint = page.evaluate(_PAINT)
    context.close()
    return float(paint), float(usable)
