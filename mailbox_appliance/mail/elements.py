"""What kind of element is which (HTML 13.1.2, 13.2.4.2, 13.2.6)."""

# fmt: off
VOID = frozenset({
    "area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input", "keygen", "link",
    "meta", "param", "source", "track", "wbr"
})
FORMATTING = frozenset({
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"
})
CELLS = frozenset({"td", "th"})
SECTIONS = frozenset({"tbody", "thead", "tfoot"})
TABLE_PARTS = CELLS | SECTIONS | {"tr", "caption"}
ROWS_AND_ABOVE = SECTIONS | {"table", "tr"}  # text in these is not theirs: it stands before the table
HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
LISTS = frozenset({"ol", "ul"})
ITEMS = frozenset({"dd", "dt"})
OPTIONS = frozenset({"option"})
CLOSES_PARAGRAPH = frozenset({
    "address", "article", "aside", "blockquote", "center", "details", "dialog", "dir", "div", "dl", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "listing", "main", "menu", "nav", "ol", "p",
    "plaintext", "pre", "search", "section", "summary", "ul", "xmp", "li"
}) | HEADINGS | ITEMS
#: These close more than a paragraph when they open.
MAKES_WAY = HEADINGS | ITEMS | OPTIONS | {"button", "li", "optgroup", "table"}
#: A closing tag does not reach beyond these.
SCOPES = frozenset({"applet", "caption", "marquee", "object", "table"}) | CELLS
#: In these, letters are formatted anew.
MARKERS = SCOPES - {"table"}
SPECIAL = CLOSES_PARAGRAPH | SCOPES | SECTIONS | {
    "audio", "button", "canvas", "iframe", "noembed", "noframes", "noscript", "script", "select", "style", "template",
    "textarea", "title", "tr", "video"
} - {"dialog"}
#: What does not stand in a line with the text around it, or is a box in it.
BLOCKS = CLOSES_PARAGRAPH | TABLE_PARTS | {
    "body", "button", "html", "iframe", "img", "input", "legend", "marquee", "meter", "object", "optgroup", "option",
    "progress", "select", "table", "textarea"
}
#: Special ones that an item of a list does not lie beyond.
BARRIERS = SPECIAL - {"address", "div", "p"}
#: No program shows what is in them, or it shows something else in its stead. They end with what they lie in.
UNSHOWN = frozenset({
    "audio", "datalist", "iframe", "meter", "noembed", "noframes", "progress", "rp", "script", "style", "title", "video"
})
#: Only their own closing tag ends them.
CLOSED = frozenset({"math", "select", "svg", "template"})
#: What is in them is no text of the message, and is not counted.
NO_TEXT = frozenset({"script", "style", "title"})
OUTER = frozenset({"body", "html"})
#: Of what opens nothing, and of what is in force without its tag.
PASSED_OVER = frozenset({"base", "basefont", "bgsound", "col", "colgroup", "frame", "frameset", "head", "link", "meta"})
# fmt: on
