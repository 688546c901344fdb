"""Read the visible tags and text of HTML. Content that a browser would not show is left out and counted.

Most personal mail has only a few elements that can hide text. It is read without computing styles, which halves the
time (`_SimpleReader`). All other mail is read as a browser reads it (`StyledReader`).
"""

import re
from collections import Counter
from collections.abc import Callable
from html import unescape

from mailbox_appliance.mail import invisible_characters
from mailbox_appliance.mail.html import tokenizer
from mailbox_appliance.mail.html.css_cascade import StyleResolver
from mailbox_appliance.mail.html.css_style import Style
from mailbox_appliance.mail.html.tokenizer import COMMENT, MAX_INPUT, NO_TEXT, Token, parse_attributes, tokenize
from mailbox_appliance.mail.html.tree import (
    IMPLIED_TOKEN,
    MOST_OPEN_ELEMENTS,
    SILENT_WHEN_HIDDEN,
    HiddenPiece,
    TreeBuilder,
)

_HIDING_WORDS = (
    *("style", "hidden", "color", "background", "<image", "<plaintext", "<small", "<su", "<button", "<mark", "popover"),
    *("<select", "<svg", "<math", "<template", "<object", "<applet", "<audio", "<video", "<canvas", "<iframe"),
    *("<datalist", "<dialog", "<meter", "<progress", "<rp", "<no", "<input", "<marquee", "<details"),
)
_HIDING_BY_VALUE = re.compile(
    r"(?:width|height)[\t\n\f\r ]*+=[\t\n\f\r ]*+[\"']?\s*+\+?0*+1?(?!\d)|(?:text|link)[\t\n\f\r ]*+="
)


def read_visible(
    html: str,
    write: Callable[[Token], object],
    hidden: Counter[str] | None = None,
    *,
    limit: int = MAX_INPUT,
    is_enough: Callable[[], bool] | None = None,
) -> None:
    """Call `write` with each visible token of the first `limit` characters of HTML. Stop as soon as `is_enough` returns
    True after a token.

    Texts are passed with entities decoded and invisible characters removed; attributes are passed as written. `hidden`:
    receives the counts of hidden text that is left out, by technique such as `opacity`.
    """
    counts = Counter[str]() if hidden is None else hidden
    reader = _SimpleReader(write, counts) if _is_simple(html, limit) else StyledReader(html, write, counts)
    for token in tokenize(html[:limit]):
        reader.feed(token)
        if is_enough and is_enough():
            return


def _is_simple(html: str, limit: int) -> bool:
    """Whether nothing but comments, titles and scripts can hide text in this HTML, so that styles need not be
    computed.
    """
    start = html[:limit].lower()
    if any(word in start for word in _HIDING_WORDS) or "<style" in html[limit:].lower():
        return False
    return not _HIDING_BY_VALUE.search(start)


class _SimpleReader:
    def __init__(self, write: Callable[[Token], object], hidden: Counter[str]) -> None:
        self._write, self._hidden = write, hidden
        self._is_text = True

    def feed(self, token: Token) -> None:
        """Process the next token of the HTML."""
        name, content = token.name, token.content
        if not name:
            if self._is_text:
                self._take_text(token, content)
        elif name == COMMENT:
            self._hidden["element"] += is_sender_comment(content)
        elif name in NO_TEXT:
            self._is_text = token.closes
        else:
            self._write(token)

    def _take_text(self, token: Token, content: str) -> None:
        words, zero_width, bidi = invisible_characters.strip_invisible(unescape(content) if "&" in content else content)
        if zero_width or bidi:
            self._hidden["zero-width"] += zero_width
            self._hidden["bidi"] += bidi
        self._write(token if words is content else Token(content=words))


_NO_SENDER_COMMENT = ("[if", "[endif", "<![endif", "doctype", "xml")
# HTML 13.2.5.53 and 13.2.6.4.1: declarations of modern documents. In an old document, a paragraph may contain a table.
_STANDARD = re.compile(r"doctype\s+html\s*\Z|xhtml|strict|dtd html 4\.01.*http|about:legacy-compat")
_BUTTONS = frozenset({"submit", "button", "reset"})
_ENDS_SELECT = frozenset({"input", "textarea", "keygen"})


def is_sender_comment(comment: str) -> bool:
    """Whether an HTML comment has text of the sender. Empty ones, declarations such as `doctype`, and conditions for
    one mail program (`[if mso]`) do not count.
    """
    start = comment.lstrip()
    return start != "" and not start[:20].lower().startswith(_NO_SENDER_COMMENT)


class StyledReader(TreeBuilder):
    """Reads HTML token by token as a browser does, computes styles, and passes on the visible tokens to `write`.

    Entities are decoded in texts, but not in attributes. `hidden`: receives the counts of hidden text that is left out,
    by technique such as `opacity`.
    """

    def __init__(self, html: str, write: Callable[[Token], object], hidden: Counter[str]) -> None:
        super().__init__(StyleResolver(html), write, hidden)
        # inside an element that only its own tag closes
        self._within, self._depth, self._piece = "", 0, self._base_piece

    def feed(self, token: Token) -> None:
        """Process the next token of the HTML."""
        name = token.name
        if self._within:
            self._feed_within(token)
        elif not name:
            self._add_text(token)
        elif token.closes:
            if name == "br":
                self._start("br", Token("br"))
            else:
                self._close(name, token)
        elif name == COMMENT:
            if token.content[:7].lower() == "doctype" and not self._open.stack:
                self._open.is_standard = _STANDARD.search(token.content[:500].lower()) is not None
            self._hidden["element"] += is_sender_comment(token.content) and not self._style_around("").hidden
        else:
            self._start("img" if name == "image" else name, token)

    def _feed_within(self, token: Token) -> None:
        """Process a token inside an element that only its own closing tag ends, such as `svg` or `select`. Text inside
        counts as hidden, except in a `select`.
        """
        if self._within == "select":
            self._feed_option(token)
        elif not token.name:
            if token.content.strip():
                self._count(self._piece)
        elif token.name == self._within:
            is_empty = token.content.endswith("/") and self._within in ("svg", "math")
            self._depth += -1 if token.closes else 0 if is_empty else 1
            if self._depth == 0:
                self._within = ""

    def _feed_option(self, token: Token) -> None:
        """Process a token inside a `select`. Apart from text, only the tags of options and tags that end the `select`
        have an effect.
        """
        name, select = token.name, self._open.last_place_of("select")
        if not name:
            self._add_text(token)
        elif name == "option":
            self._pop(select + 1)
            if not token.closes:
                self._open_void("br", Token("br"))
                self._push(name, token.content)
        elif name == "select" or (name in _ENDS_SELECT and not token.closes):
            self._within = ""
            self._pop(select)
            if name != "select":
                self.feed(token)

    def _count(self, piece: HiddenPiece | None) -> None:
        if piece and not piece.is_counted:
            piece.is_counted = True
            self._hidden[piece.technique] += 1

    # --- text ---

    def _add_text(self, token: Token) -> None:
        content = token.content
        if self._open.waiting[-1] and not content.isspace():
            self._go_on_formatting()
        style = self._style_around("")
        words, zero_width, bidi = invisible_characters.strip_invisible(unescape(content) if "&" in content else content)
        if style.hidden or self._deeper.piece or self._line:
            if words and not words.isspace():
                self._count(self._deeper.piece or (self._piece_here(style) if style.hidden else self._line))
            return
        if zero_width or bidi:
            self._hidden["zero-width"] += zero_width
            self._hidden["bidi"] += bidi
        if words:
            if not words.isspace():
                self._has_text = self._is_behind_text = True
                if style.unjudged or self._covers:
                    self._count_doubts(style)
            self._write(token if words is content else Token(content=words))

    def _count_doubts(self, style: Style) -> None:
        """Count, for visible text, the styles that may hide it but whose effect is unknown: once for each element that
        declares them.
        """
        stack = self._open.stack
        for piece in self._doubts_of(style, stack[-1].doubts if stack else self._base_doubts).values():
            self._count(piece)
        self._hidden["position: absolute"] += self._covers
        self._covers = 0

    def _piece_of_unshown(self) -> HiddenPiece | None:
        style = self._style_around("")
        return self._piece_here(style) if style.hidden else HiddenPiece("element", is_counted=False)

    def _piece_here(self, style: Style) -> HiddenPiece | None:
        stack = self._open.stack
        piece = stack[-1].piece if stack else self._base_piece
        if piece is None and not (stack and stack[-1].style.hidden):
            return HiddenPiece(style.hidden, is_counted=False)
        return piece

    def _go_on_formatting(self) -> None:
        """Open formatting elements such as `b` again if the element around them was closed first (HTML 13.2.4.3)."""
        waiting, self._open.waiting[-1] = self._open.waiting[-1], []
        for element in waiting:
            self._push(element.name, element.content, piece=element.piece)

    # --- opening tags ---

    def _start(self, name: str, token: Token) -> None:
        content, opened = token.content, self._open
        if name in tokenizer.OUTER_ELEMENTS:
            self._start_outer(name, content)
        elif name in ("col", "colgroup"):
            self._add_column(name, self._style_of(self._style_around(name), name, content), parse_attributes(content))
        elif name in tokenizer.IGNORED_ELEMENTS:
            return
        elif self._deeper.count or len(opened.stack) >= MOST_OPEN_ELEMENTS:
            self._start_deeper(name, token)
        elif name in tokenizer.SELF_CONTAINED_ELEMENTS:
            self._start_closed(name, content)
        elif name in tokenizer.TABLE_PARTS:
            self._start_table_part(name, content)
        else:
            if name in tokenizer.CLOSES_OTHERS or (
                name in tokenizer.CLOSES_PARAGRAPH and opened.last_place_of("p") >= 0
            ):
                for place in opened.places_to_close_first(name):
                    self._pop(place)
            if name in ("a", "nobr") and opened.is_formatted_by(name):
                self._close_formatting(name)
            if name not in tokenizer.CLOSES_PARAGRAPH and opened.waiting[-1]:
                self._go_on_formatting()
            if name in tokenizer.VOID_ELEMENTS:
                self._open_void(name, token)
            else:
                self._push(name, content, token)

    def _start_closed(self, name: str, content: str) -> None:
        """Process the opening tag of an element that only its own closing tag ends, such as `svg`. `content`: its
        attributes as written.
        """
        if name == "svg":
            self._note_cover(name, self._style_around(name), self._styles.tag_style(name, content).declared)
        if content.endswith("/") and name in ("svg", "math"):
            return
        self._within, self._depth, self._piece = name, 1, self._piece_of_unshown()
        if name == "select":
            self._push(name, content)

    def _start_outer(self, name: str, content: str) -> None:
        """Process the opening tag of `html` or `body`. `content`: its attributes as written.

        The first tag sets the style of the page. A further one, or one after other content, has an effect only if its
        style hides text.
        """
        if not self._open.stack and name not in dict(self._outer):
            self._outer.append((name, content))
            self._set_outermost()
            self._write(Token(name, content=content))
        elif (
            self._style_of(self._style_around(name), name, content).hidden
            and len(self._open.stack) < MOST_OPEN_ELEMENTS
        ):
            self._push(name, content)

    def _start_table_part(self, name: str, content: str) -> None:
        """Process the opening tag of a row, cell or other part of a table (HTML 13.2.6.4.9 to 15). Outside a table it
        is ignored.
        """
        opened = self._open
        top = opened.stack[-1].name if opened.stack else ""
        if (top == "tr" and name in tokenizer.CELLS) or (name == "tr" and top in tokenizer.SECTIONS):
            if name == "tr" and (columns := opened.stack[opened.last_place_of("table")].columns):
                columns.next = 0
            self._push(name, content)  # as nearly always
            return
        table = opened.last_place_of("table")
        if table < 0:
            return
        if name in tokenizer.SECTIONS or name == "caption":
            self._pop(table + 1)
        else:
            if opened.place_of_section() < 0:
                self._pop(table + 1)
                self._push("tbody", "", IMPLIED_TOKEN)
            if name != "tr" and opened.place_of_table_part("tr") < 0:
                self._pop(opened.place_of_section() + 1)
                self._push("tr", "", IMPLIED_TOKEN)
            self._pop((opened.place_of_section() if name == "tr" else opened.place_of_table_part("tr")) + 1)
        if name == "tr" and (columns := opened.stack[table].columns):
            columns.next = 0
        self._push(name, content)

    def _open_void(self, name: str, token: Token) -> None:
        around = self._style_around(name)
        style = self._style_of(around, name, token.content)
        if name in ("br", "hr"):
            self._line = None
        is_unseen = name == "input" and parse_attributes(token.content).get("type", "").strip().lower() == "hidden"
        if name in ("img", "hr", "input") and not is_unseen:
            self._note_cover(name, style, self._styles.tag_style(name, token.content).declared)
        if name == "img":
            self._open_picture(token, around, style)
        elif name == "input":
            self._open_input(parse_attributes(token.content), style)
        elif not (style.gone or (style.hidden and name in SILENT_WHEN_HIDDEN)):
            self._write(token)

    def _open_input(self, attributes: dict[str, str], style: Style) -> None:
        """Process an `input` field. Of these, only buttons show text: their label."""
        kind, value = (attributes.get(each, "").strip() for each in ("type", "value"))
        if not value or style.gone:
            return
        if kind.lower() == "hidden":
            self._hidden["element"] += 1
        elif kind.lower() in _BUTTONS and style.visible:
            if style.hidden:
                self._hidden[style.hidden] += 1
                return
            self._hidden.update(style.unjudged)
            self._write(Token(content=invisible_characters.strip_invisible(unescape(value))[0]))

    def _open_picture(self, token: Token, around: Style, style: Style) -> None:
        """Process an `img`. A picture is visible whatever the size and color of text around it. Without an address it
        shows its description, which counts as text. `around`: the style of its parent.
        """
        attributes = parse_attributes(token.content)
        is_letters = not attributes.get("src", "").strip()
        if not style.gone and style.visible and not (is_letters and style.hidden):
            self._write(token)
            if not is_letters:
                self._open.mark_picture()
                self._is_behind_text = False
        elif around.gone or not around.visible:
            self._count(self._piece_here(around))
        elif attributes.get("alt", "").strip():
            self._hidden[style.hidden or "visibility"] += 1

    def _start_deeper(self, name: str, token: Token) -> None:
        style = self._style_of(self._style_around(name), name, token.content)
        self._deeper.open(name, style.hidden)
        if style.unjudged and not self._deeper.piece:
            self._count_doubts(style)
        if not self._deeper.piece:
            self._write(token)
