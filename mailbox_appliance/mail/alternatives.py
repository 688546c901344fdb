"""Warn if the plain text of a message differs from its HTML.

Senders write the same text in both forms (RFC 2046 5.1.4). Mail programs show one of them, and nothing ensures that
they agree.

The comparison uses runs of three words, so that one differing sentence in a long letter is found. It takes a
millisecond, four times as long as parsing, so it is made when a message is read, not when it arrives. Usual sentences
of newsletters, such as "View this in your browser", do not count as a difference.
"""

import re
from functools import cache
from itertools import islice

from mailbox_appliance.model.base import own_text

#: The warning for a plain text with content that the HTML does not show.
DIFFERENCE_WARNING = own_text(
    "The plain-text and HTML versions of this message differ. Mail clients show the HTML; request `markdown` to read"
    " it."
)
LONGEST_COMPARED = 50_000  # characters that are compared
# Characters of HTML text, which includes its addresses; and words of each text that are compared.
_LONGEST_HTML_TEXT, _MOST_WORDS = 1_000_000, 60_000
_RUN_WORDS, _RUN_LETTERS = 5, 12  # of the shortest run that counts; letters, for scripts without spaces
_STUB = 4  # a plain text with fewer than one in this many words of the HTML is a stub

# Content of only one form: addresses, pictures, references to links, and entities. Only ASCII: a sentence in Chinese
# may follow an address without a space.
_NO_WORDS = re.compile(
    r"(?:https?://|www\.|mailto:|tel:)[!-;=?-~]*|<[!-;=?A-~]{1,200}@[!-;=?A-~]{1,200}>"
    r"|\[cid:[!-Z^-~]{0,200}\]|\[image: |\[[0-9]{1,3}\]|&(?:nbsp|amp|lt|gt|quot);|\bmessage-?id:",
    re.I,
)
#: A word. In scripts without spaces (Thai to Myanmar, Khmer, Chinese and Japanese) each letter is a word.
_COMPARED_WORD = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]"
    "|[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+"
)
#: Phrases about themselves and about the HTML that plain parts contain.
_BOILERPLATE = """
View this email in your browser. View it online. Read this email in your web browser. View the web version.
View this message in your browser. View this post on the web at.
View the online version of this email. Open this email in your browser.
If you cannot view this email, click here. If you can't see this message, please click here.
If you are having trouble viewing this email, click here. If this email is not displayed correctly, click here.
If you have trouble viewing this message, read it online. Trouble viewing this email? To view this email as a web page,
go here. To view this email in your browser, visit the following link. Copy and paste this link into your browser.
To unsubscribe, click here. To unsubscribe from this list, visit the following link. Unsubscribe from this list here.
To unsubscribe from these emails, click on the link below. Update your subscription preferences.
This is a multi-part message in MIME format. This message was sent in HTML. This is an HTML message.
Your mail program does not support HTML. Your email client does not support HTML messages.
Please use an email client that supports HTML. This email requires a client that can display HTML.
Diese E-Mail im Browser ansehen. Falls diese E-Mail nicht richtig angezeigt wird, klicken Sie bitte hier.
Wenn diese Nachricht nicht korrekt dargestellt wird, klicken Sie hier. Ihr E-Mail-Programm unterstützt kein HTML.
Voir cet e-mail dans votre navigateur. Si ce message ne s'affiche pas correctement, cliquez ici.
Ver este correo en su navegador. Si no puede ver este mensaje, haga clic aquí.
"""
_Runs = frozenset[tuple[str, str, str]]


def alternatives_differ(text: str, seen: str) -> bool:
    """Whether a plain text has content that the HTML does not show, or has fewer than a quarter of the HTML's words.
    `text`: the plain text. `seen`: the visible text of the HTML.

    Only sentences of five words or more count, within the first 50,000 characters. Phrases that plain texts add ("View
    this in your browser") do not count, unless there is little else. Takes time linear in the length of both.
    """
    plain, shown = _compared_words(text[:LONGEST_COMPARED]), _compared_words(seen[:_LONGEST_HTML_TEXT])
    if not shown:
        return False
    is_stub = len(text) <= LONGEST_COMPARED and len({*plain} & {*shown}) * _STUB < len({*shown})
    return is_stub or _has_unknown_run(plain, _word_runs(shown) | _boilerplate_runs())


def _has_unknown_run(plain: list[str], known: _Runs) -> bool:
    """Whether the words contain a passage of about five words or more that is not in the other text. `known`: the runs
    of three words in the other text.

    A known word does not end a passage, since it may be in the other text by chance. It only counts against the length.
    """
    unknown = _mark_unknown(plain, known)
    words = letters = 0  # twice the unknown words, minus the known ones among them
    for word, is_unknown in zip(plain, unknown, strict=True):
        if is_unknown and not word.isdecimal():  # lists number their links and lines
            words, letters = words + 2, letters + len(word)
            if words >= 2 * _RUN_WORDS and letters >= _RUN_LETTERS:
                return True
        elif words and not is_unknown:
            words -= 1
            letters = letters if words else 0
    return False


def _mark_unknown(words: list[str], known: _Runs) -> list[bool]:
    """Return for each word whether it is unknown: none of the runs of three words that contain it is in `known`."""
    around = ["", "", *words, "", ""]
    is_known = [run in known for run in zip(around, around[1:], around[2:], strict=False)]
    return [not any(is_known[place : place + 3]) for place in range(len(words))]


def _word_runs(words: list[str]) -> _Runs:
    around = ["", "", *words, "", ""]
    return frozenset(zip(around, around[1:], around[2:], strict=False))


def _compared_words(text: str) -> list[str]:
    found = _COMPARED_WORD.finditer(_NO_WORDS.sub(" ", text).casefold())
    return [word[0] for word in islice(found, _MOST_WORDS)]


@cache
def _boilerplate_runs() -> _Runs:
    return frozenset().union(
        *(_word_runs(_compared_words(sentence)) for sentence in _BOILERPLATE.replace("\n", " ").split("."))
    )
