"""Proves with a real browser that hidden text of the injection corpus is invisible, and that visible text is visible.

A word is visible if replacing it by another of the same length changes the picture readably. Only pixels count: the
browser is not asked about styles. Then random pages are compared with the text that the appliance extracts. Run by
`scripts/prove-hidden`.
"""

import argparse
import re
import sys
from collections.abc import Sequence

from mailbox_appliance.mail.html.analysis import extract_visible
from tests.mail.doubting import QUIET, UNJUDGED
from tests.mail.hiding import HIDDEN
from tests.mcp_server.browser import Browser, NoBrowser
from tests.mcp_server.random_pages import RandomPage
from tests.servers.injected.case import ARRIVES, NEVER_ARRIVES, Injection
from tests.servers.injections import INJECTIONS

#: Of a page with very many words, some of the first and some of the last are checked.
_MANY, _LOOKED_AT = 60, 10
#: Pages with more words are skipped, as each word must be drawn.
_MOST_WORDS = 25
#: On random pages, the browser may disagree about one word of so many.
_AT_MOST_ONE_OF = 50


def seen(browser: Browser, page: str, words: Sequence[str]) -> list[str]:
    """Return the visible ones of these words."""
    if len(words) > _MANY:
        words = [*words[:_LOOKED_AT], *words[-_LOOKED_AT:]]
    picture = browser.drawn(page)
    return [word for word in words if _is_seen(browser, page, word, picture)]


def _is_seen(browser: Browser, page: str, word: str, picture: str) -> bool:
    other = re.sub(rf"\b{word}\b", "X" * len(word), page)
    assert other != page, word
    return browser.difference(picture, browser.drawn(other)).is_readable


def judged(browser: Browser, injection: Injection) -> list[str]:
    """Return the differences between the browser and the corpus."""
    page = injection.page or ""
    hidden = [word for word in injection.unseen if re.search(rf"\b{word}\b", page)]
    shown = [word for word in injection.seen if re.search(rf"\b{word}\b", page)]
    wrong = [f"{word} is seen" for word in seen(browser, page, hidden)]
    looked_at = [*shown[:_LOOKED_AT], *shown[-_LOOKED_AT:]] if len(shown) > _MANY else shown
    found = set(seen(browser, page, looked_at))
    return wrong + [f"{word} is not seen" for word in looked_at if word not in found]


def corpus(browser: Browser, only: str) -> int:
    """Print and count the pages of the corpus that the browser shows differently."""
    pages = [one for one in INJECTIONS if one.page is not None and only in one.name]
    wrong = counted = 0
    for injection in pages:
        found = judged(browser, injection)
        wrong += bool(found)
        counted += len(re.findall(f"{NEVER_ARRIVES}|{ARRIVES}", injection.page or ""))
        print(f"{'WRONG' if found else 'right'}  {injection.name}{': ' if found else ''}{', '.join(found)}", flush=True)
    print(f"{len(pages)} pages with {counted} marked words, {wrong} pages otherwise than the corpus says")
    return wrong


#: The X of a page of the tables, where it is text.
_MARK = re.compile(r"(<style>.*?</style>|<!--.*?-->|<[A-Za-z/][^>]*>)|(?<![A-Z])X(?![A-Z])", re.S)


def _with(word: str, page: str) -> str:
    return _MARK.sub(lambda found: found[1] or word, page)


def tables(browser: Browser) -> int:
    """Print and count the pages in the tables of tests/mail whose X a browser contradicts.

    Text that a browser does not show must be removed or doubted: it never comes without a warning.
    """
    pages = [page for cases in (*HIDDEN.values(), *UNJUDGED.values(), QUIET) for page in cases]
    wrong = 0
    for page in pages:
        text, hidden = extract_visible(page, "text")
        if "X" not in text or hidden.unjudged:
            continue
        pictures = [browser.drawn(_with(word, page)) for word in ("HWM", "...")]
        if not browser.difference(*pictures).is_readable:
            wrong += 1
            print(f"WRONG  given without a warning: {page[:150]}", flush=True)
    doubted = [page for cases in UNJUDGED.values() for page in cases]
    print(f"{len(pages)} pages of tables, {len(doubted)} of them doubted, {wrong} given though they are not seen")
    return wrong


def at_random(browser: Browser, seeds: range) -> tuple[int, int, int]:
    """Return, for random pages: the words, the visible ones that are removed, the invisible ones that are kept."""
    words = left_out = given = 0
    for seed in seeds:
        made = RandomPage(seed)
        page = made.text()
        if len(made.words) > _MOST_WORDS:
            continue
        text, _ = extract_visible(page, "text")
        shown, ours = (
            set(seen(browser, page, made.words)),
            {word for word in made.words if re.search(rf"\b{word}\b", text)},
        )
        words, left_out, given = words + len(made.words), left_out + len(shown - ours), given + len(ours - shown)
        if shown != ours:
            print(f"seed {seed}: left out {sorted(shown - ours)}, given {sorted(ours - shown)}", flush=True)
    return words, left_out, given


def main() -> int:
    """The command line of `scripts/prove-hidden`."""
    parser = argparse.ArgumentParser(prog="scripts/prove-hidden", description="Look at mail in a real browser.")
    parser.add_argument("--only", default="", help="messages of the corpus with this in their name")
    parser.add_argument("--random", type=int, default=100, metavar="N", help="so many pages made at random (100)")
    parser.add_argument("--seed", type=int, default=0, help="of the first of them")
    given = parser.parse_args()
    try:
        with Browser() as browser:
            wrong = corpus(browser, given.only)
            wrong += 0 if given.only else tables(browser)
            words, left_out, shown = at_random(browser, range(given.seed, given.seed + given.random))
    except NoBrowser as problem:
        print(f"prove-hidden: {problem}", file=sys.stderr)
        return 1
    print(f"at random: {words} words; {left_out} left out though they are seen, {shown} given though they are not")
    return 1 if wrong or (left_out + shown) * _AT_MOST_ONE_OF > words else 0


if __name__ == "__main__":
    sys.exit(main())
