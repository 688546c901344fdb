"""Somebody in front of a browser: opens pages of the console, looks at them, and notices everything that goes wrong."""

import json
import os
import re
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page

from tests.console.house import House, Person

AXE = (Path(__file__).parent / "node_modules/axe-core/axe.min.js").read_text("utf-8")
_KEY = "mailbox-appliance.session"
_REFUSED = re.compile(r"the server responded with a status of (\d{3})")
#: Where pictures are put, to be looked at; none are made unless this is set.
_PICTURES = os.environ.get("CONSOLE_PICTURES")
#: Each with the rules of axe that are looked at: in the dark nothing differs but colours.
_SCHEMES: tuple[tuple[Literal["light", "dark"], list[str] | None], ...] = (
    ("light", None),
    ("dark", ["color-contrast"]),
)
WIDE, PHONE = (1280, 900), (390, 844)
PROFILE: dict[str, Any] = {
    "viewport": {"width": WIDE[0], "height": WIDE[1]},
    "accept_downloads": True,
    "locale": "en-GB",
    "timezone_id": "UTC",
}


class Walker:
    """One browser profile with nothing in it, and its first page."""

    def __init__(
        self, browser: Browser | None, house: House, context: BrowserContext | None = None, *, is_shared: bool = False
    ) -> None:
        """`is_shared`: others use the profile afterwards, so it is left as it was found: making one takes longest."""
        self.house, self._is_shared = house, is_shared
        if context is None:
            assert browser is not None
            context = browser.new_context(**PROFILE)
        self.context: BrowserContext = context
        self.context.set_default_timeout(20_000)
        #: What the browser complained of: errors, warnings, breaches of the policy, requests that failed.
        self.complaints: list[str] = []
        self._refusals: set[int] = set()
        self.context.on("page", self._watch)  # also those that a page opens
        self.page = self.new_page()

    def new_page(self) -> Page:
        """Another tab."""
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
        """The API will refuse something with one of these, which the browser tells of as an error."""
        self._refusals.update(statuses)

    def open(self, path: str, person: Person | None = None, page: Page | None = None) -> Page:
        """Opens a page of the console: `/mail?q=x` stands behind the `#`. `person`: who is signed in."""
        page = page or self.page
        if person is not None:
            page.add_init_script(
                f"if (location.origin === {json.dumps(self.house.url)} && !sessionStorage.getItem({json.dumps(_KEY)}))"
                f" sessionStorage.setItem({json.dumps(_KEY)}, {json.dumps(json.dumps(person.logged_in))})"
            )
        page.goto(f"{self.house.url}/#{path}")
        page.locator("h1").first.wait_for()
        return page

    def close(self) -> None:
        """Close the profile, or what is open in it, and say what the browser complained of."""
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
                except Error:  # it was just going elsewhere
                    page.wait_for_load_state()
                    page.evaluate("localStorage.clear()")
            page.close()

    def look(self, name: str, page: Page | None = None) -> None:
        """The page as it is must be good: nothing that axe-core finds in light or dark, nothing wider than a phone.

        With CONSOLE_PICTURES=FOLDER a picture of each is put there, to be looked at.
        """
        page = page or self.page
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
        """What axe-core finds: rule, impact, and where. `rules`: only these."""
        page = page or self.page
        if not page.evaluate("() => 'axe' in globalThis"):
            page.evaluate(AXE)  # by the browser's own door, which no page's policy closes
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
