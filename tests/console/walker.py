"""A person in front of a browser, who opens pages of the console, inspects them, and notices every problem."""

import json
import os
import re
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, expect

from tests.console.house import House, Person

AXE = (Path(__file__).parent / "node_modules/axe-core/axe.min.js").read_text("utf-8")
_KEY = "mailbox-appliance.session"
_REFUSED = re.compile(r"the server responded with a status of (\d{3})")
#: The folder for pictures; without it, none are taken.
_PICTURES = os.environ.get("CONSOLE_PICTURES")
#: Each scheme with the rules of axe to run: dark differs only in colors.
_SCHEMES: tuple[tuple[Literal["light", "dark"], list[str] | None], ...] = (
    ("light", None),
    ("dark", ["color-contrast"]),
)
_HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", {get: () => hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""
WIDE, PHONE = (1280, 900), (390, 844)
PROFILE: dict[str, Any] = {
    "viewport": {"width": WIDE[0], "height": WIDE[1]},
    "accept_downloads": True,
    "locale": "en-GB",
    "timezone_id": "UTC",
}


class Walker:
    """An empty browser profile and its first page."""

    def __init__(
        self, browser: Browser | None, house: House, context: BrowserContext | None = None, *, is_shared: bool = False
    ) -> None:
        """`is_shared`: leave the profile as it was, since creating one takes longest, and other tests use it."""
        self.house, self._is_shared = house, is_shared
        if context is None:
            assert browser is not None
            context = browser.new_context(**PROFILE)
        self.context: BrowserContext = context
        self.context.set_default_timeout(20_000)
        #: Problems the browser reported: errors, warnings, policy violations, failed requests.
        self.complaints: list[str] = []
        self._refusals: set[int] = set()
        self.context.on("page", self._watch)  # including tabs that a page opens
        self.page = self.new_page()

    def new_page(self) -> Page:
        """Open another tab."""
        return self.context.new_page()

    def _watch(self, page: Page) -> None:
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type not in ("error", "warning"):
            return
        refused = _REFUSED.search(message.text)
        if refused is None or int(refused[1]) not in self._refusals:
            self.complaints.append(f"{message.type}: {message.text}")

    def expects(self, *statuses: int) -> None:
        """Expect responses with these statuses, which the browser logs as errors."""
        self._refusals.update(statuses)

    def open(self, path: str, person: Person | None = None, page: Page | None = None) -> Page:
        """Open a page of the console, such as `/mail?q=x`. `person`: the signed-in member."""
        page = page or self.page
        if person is not None:
            page.add_init_script(
                f"if (location.origin === {json.dumps(self.house.url)} && !sessionStorage.getItem({json.dumps(_KEY)}))"
                f" sessionStorage.setItem({json.dumps(_KEY)}, {json.dumps(json.dumps(person.logged_in))})"
            )
        page.goto(f"{self.house.url}/#{path}")
        page.locator("h1").first.wait_for()
        return page

    @staticmethod
    def hide(page: Page, *, is_hidden: bool = True) -> None:
        """Let a page believe that its tab is hidden: then it has no stream of events, and polls nothing."""
        page.evaluate(_HIDE, is_hidden)

    def close(self) -> None:
        """Close the profile, or its pages, and fail if the browser reported any problem."""
        if self._is_shared:
            self._leave()
        else:
            self.context.close()
        assert self.complaints == [], self.complaints

    def _leave(self) -> None:
        self.context.remove_listener("page", self._watch)
        self.context.unroute_all()
        for page in self.context.pages:
            if page.url.startswith(self.house.url):
                try:
                    page.evaluate("localStorage.clear()")
                except Error:  # the page was just navigating
                    page.wait_for_load_state()
                    page.evaluate("localStorage.clear()")
            page.close()

    def look(self, name: str, page: Page | None = None) -> None:
        """Check the page as it is: no findings of axe-core in light or dark, and no content wider than a phone.

        With CONSOLE_PICTURES=FOLDER, save a picture of each state there.
        """
        page = page or self.page
        expect(page.get_by_role("heading", level=1).first).to_be_visible()  # the files of a page may still be coming
        for scheme, rules in _SCHEMES:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert not (found := self.violations(page, rules)), f"{name}, {scheme}: {found}"
            self._picture(page, f"{name}-{scheme}-wide")
        page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
        too_wide = page.evaluate("() => document.scrollingElement.scrollWidth - window.innerWidth")
        self._picture(page, f"{name}-phone")
        assert too_wide <= 0, f"{name} is {too_wide} px wider than a phone"
        page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
        page.emulate_media(color_scheme="light")

    def violations(self, page: Page | None = None, rules: list[str] | None = None) -> list[Any]:
        """Return the findings of axe-core: rule, impact and place. `rules`: run only these."""
        page = page or self.page
        if not page.evaluate("() => 'axe' in globalThis"):
            page.evaluate(AXE)  # through the browser itself, which no page's policy restricts
        found: list[Any] = page.evaluate(
            "async (rules) => (await axe.run(document,"
            " {resultTypes: ['violations'], iframes: false, ...(rules && {runOnly: rules})}))"
            ".violations.map(v => [v.id, v.impact, v.nodes.map(n => [n.target.join(' '), n.failureSummary])])",
            rules,
        )
        return found

    @staticmethod
    def _picture(page: Page, name: str) -> None:
        if _PICTURES:
            page.screenshot(path=f"{_PICTURES}/{name}.png", full_page=True)
