"""Hostile messages: the console shows text and inert markup, runs nothing, and loads nothing from other servers."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, FrameLocator, expect

from tests.console.browsers import launch_as_people_do
from tests.console.hostile import MUTATIONS, foreign, forms, loads, mails, scripts, styles
from tests.console.house import Box, House, a_mail
from tests.console.walker import PROFILE, Walker
from tests.servers.mailboxes import wait_until
from tests.servers.recorder import HOSTILE, Recorder

#: Everything in the frame that is not plain markup, as the browser parsed it.
_FOREIGN = """() => {
  const tags = new Set((
    "a abbr acronym address article aside b bdi bdo big blockquote body br caption center cite code col colgroup dd del"
    + " dfn dir div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 head header hr html i img ins kbd li main"
    + " mark menu ol p pre q rp rt ruby s samp section small span strike strong sub sup table tbody td tfoot th thead"
    + " time tr tt u ul var wbr").split(" "));
  const attributes = new Set((
    "align alt bgcolor border cellpadding cellspacing class clear color colspan data-address data-cid dir face height"
    + " hspace id lang noshade nowrap reversed role rowspan rules size span start style tabindex title type valign"
    + " value vspace width").split(" "));
  const found = [];
  const { contentDocument: inside } = document.querySelector("iframe.mail-frame");
  for (const element of inside.querySelectorAll("*")) {
    if (element.parentElement === inside.head) continue;
    const isPlain = tags.has(element.localName) && element.namespaceURI === "http://www.w3.org/1999/xhtml";
    if (!isPlain) found.push(element.localName);
    if (element.shadowRoot || element.onclick || element.onload) found.push(element.localName);
    for (const { name, value } of element.attributes) {
      const isOwn = name === "src" && /^(?:blob:|data:image\\/(?!svg))/.test(value);
      if (!attributes.has(name) && !isOwn) found.push(`${element.localName} ${name}=${value}`);
      if (name === "data-address" && !/^(?:https?:|mailto:|tel:|#)/.test(value)) found.push(value);
      if (name === "role" && value !== "link") found.push(value);
      if (name === "style" && /url|image|(?:^|;)\\s*position|animation|\\\\/i.test(value)) found.push(value);
    }
  }
  for (const sheet of inside.adoptedStyleSheets) for (const rule of sheet.cssRules)
    if (/url\\(|@import|@font|keyframes|fixed|animation|content/i.test(rule.cssText)) found.push(rule.cssText);
  return found;
}"""
_STATE = """() => JSON.stringify([location.href, document.title, window.pwned ?? null, window.frames[0]?.pwned ?? null,
  {...localStorage}, {...sessionStorage}, document.cookie, history.length,
  document.querySelectorAll("dialog[open]").length])"""


_CONTROL = """<meta http-equiv=x-dns-prefetch-control content=on>
<link rel=dns-prefetch href="//looked-up.control.example"><link rel=preconnect href="https://ahead.control.example">
<img src="http://picture.control.example/it.png">"""


class Watched:
    """A browser that resolves every host to the recorder, and logs which hosts it looked up."""

    def __init__(self, like: Browser, house: House, folder: Path) -> None:
        self.recorder = Recorder(_CONTROL)
        self._log = folder / "net-log.json"
        rules = f"--host-resolver-rules={self.recorder.rules()}"
        log = f"--log-net-log={self._log}"
        context = launch_as_people_do(like.browser_type, folder / "profile", rules, log, **PROFILE)
        self.walker = Walker(None, house, context)
        self.page = self.walker.page
        #: Dialogs, tabs and files that the browser would have opened.
        self.opened: list[str] = []
        self.page.on("dialog", self._asked)
        self.page.on("popup", lambda page: self.opened.append(page.url))
        self.page.on("download", lambda file: self.opened.append(file.url))

    def _asked(self, dialog: Dialog) -> None:
        self.opened.append(dialog.message)
        dialog.dismiss()

    def read(self, box: Box, subject: str) -> FrameLocator:
        """Open a message and return its frame."""
        listed = {one["subject"]: one["id"] for one in self.walker.house.messages(box)}
        self.walker.open(f"/mail/{box.id}/{listed[subject]}", box.owner)
        frame = self.page.frame_locator("iframe.mail-frame")
        expect(frame.get_by_text("Canary before.")).to_be_visible(timeout=30_000)
        return frame

    def looked_for(self) -> str:
        """Close the browser; return its network log, with the host names that it looked up."""
        self.walker.close()
        constants, _, events = self._log.read_text("utf-8", "replace").partition("\n")
        assert HOSTILE in constants  # the rule itself
        return events


@pytest.fixture
def watched(chromium: Browser, house: House, tmp_path: Path) -> Iterator[Watched]:
    made = Watched(chromium, house, tmp_path)
    yield made
    made.walker.context.close()
    made.recorder.stop()


@pytest.fixture(scope="module")
def box(house: House) -> Box:
    """The hostile mailbox."""
    return house.connect(
        house.add_member("victim"), *(a_mail(subject, "A text.", html) for subject, html in mails().items())
    )


def _use(watched: Watched, frame: FrameLocator) -> None:
    """Use a message as a person can: point, click, move through it by keyboard, scroll."""
    page = watched.page
    for link in frame.locator("[data-address]").all()[:6]:
        link.hover(force=True)
        link.focus()
        link.click(button="middle", force=True)
    frame.locator("body > div").click(position={"x": 40, "y": 20})
    for key in ("Tab", "Tab", "Enter", "Space", "End", "PageDown", "Home", "Tab", "Tab"):
        page.keyboard.press(key)
    _leave_question(watched)
    for step in range(8):
        around = page.locator("iframe.mail-frame").bounding_box()  # each time, since it may have moved
        assert around is not None
        top, bottom = max(20, around["y"] + 5), min(880, around["y"] + around["height"] - 5)
        page.mouse.click(around["x"] + 30 + 8 * step, min(top + 40 * step, bottom))
        _leave_question(watched)
    page.mouse.wheel(0, 5_000)


def _leave_question(watched: Watched) -> None:
    """Close the question that a clicked link opens."""
    while watched.page.get_by_role("dialog").count():
        watched.page.keyboard.press("Escape")


@pytest.mark.slow
def test_a_hostile_mailbox_loads_nothing_and_runs_nothing(watched: Watched, box: Box) -> None:
    page = watched.page
    for subject in mails():
        frame = watched.read(box, subject)
        before = page.evaluate(_STATE)
        assert page.evaluate(_FOREIGN) == [], subject
        assert watched.walker.complaints == [], subject
        _use(watched, frame)
        assert watched.walker.complaints == [], subject
        assert page.evaluate(_FOREIGN) == [], subject
        assert page.evaluate(_STATE) == before, subject
    assert watched.opened == []
    assert watched.recorder.visits == ()
    _control(watched)
    log = watched.looked_for()
    assert HOSTILE not in log
    assert ".hostile.example" not in log
    assert "looked-up.localhost" in log


def _control(watched: Watched) -> None:
    """Check that the recorder sees a picture and a connection ahead of time, and that the log has look-ups."""
    watched.walker.context.new_page().goto("http://page.control.example/it.html")
    for host in ("picture.control.example", "ahead.control.example"):
        _wait_for(watched.recorder, host)


def _wait_for(recorder: Recorder, host: str) -> None:
    wait_until(lambda: any(one.names(host) for one in recorder.visits), lambda: str(recorder.visits), 10)


def test_the_frame_keeps_markup_that_nobody_cleaned_from_loading_and_running(watched: Watched, box: Box) -> None:
    watched.read(box, "styles")
    page = watched.page
    before = page.evaluate(_STATE)
    for html in (scripts(), loads(), styles(), foreign(), forms(), *MUTATIONS):
        page.evaluate(_PUT_AS_IT_IS, _without_hints(html))
    watched.walker.hide(page)  # the stream of events never ends
    page.wait_for_load_state("networkidle")
    assert page.evaluate(_STATE) == before
    assert watched.opened == []
    visits = watched.recorder.visits
    _control(watched)
    assert [visit.said for visit in visits] == []
    assert watched.walker.complaints  # the policy refused
    watched.walker.complaints.clear()


_PUT_AS_IT_IS = """html => {
  const { contentDocument: inside } = document.querySelector("iframe.mail-frame");
  inside.body.innerHTML = html;
}"""


def _without_hints(html: str) -> str:
    """Remove DNS hints, which no policy can stop, so the sanitizer must remove them."""
    return re.sub(r"preconnect|dns-prefetch|x-dns-prefetch-control", "x", html)


def test_markup_that_is_read_in_two_ways_stays_harmless(walker: Walker, box: Box) -> None:
    listed = {one["subject"]: one["id"] for one in walker.house.messages(box)}
    page = walker.open(f"/mail/{box.id}/{listed['forms']}", box.owner)
    expect(page.frame_locator("iframe.mail-frame").get_by_text("Canary before.")).to_be_visible()
    before = page.evaluate(_STATE)
    for html in MUTATIONS:
        page.evaluate(_FILL, html)
        assert page.evaluate(_FOREIGN) == [], html
    assert page.evaluate(_STATE) == before


_FILL = """async html => {
  const app = document.querySelector('script[type="module"]').src;
  const { fill } = await import(new URL("pages/mail/frame.js", app).href);
  fill(document.querySelector("iframe.mail-frame"), html, () => undefined);
}"""


def test_a_sender_s_styles_keep_their_looks(walker: Walker, box: Box) -> None:
    listed = {one["subject"]: one["id"] for one in walker.house.messages(box)}
    page = walker.open(f"/mail/{box.id}/{listed['styles']}", box.owner)
    frame = page.frame_locator("iframe.mail-frame")
    expect(frame.get_by_text("kept")).to_have_css("color", "rgb(1, 2, 3)")
    expect(frame.get_by_text("styled").first).to_have_css("position", "static")
    walker.look("hostile-styles")
    walker.open(f"/mail/{box.id}/{listed['loads']}", box.owner)
    expect(frame.get_by_text("a remote picture")).to_be_visible()
    walker.look("hostile-loads")
