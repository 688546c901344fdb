"""Which parts of a message are its text, and that text as a person reads it (RFC 8621 4.1.4, RFC 3676)."""

import html as html_entities
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mailbox_appliance.mail import charsets
from mailbox_appliance.mail.readers import TAGS, UNANALYZED_PART, HtmlReader
from mailbox_appliance.mail.structure import Part

MAX_BODY = 4 * 1024 * 1024  # characters of text, and of HTML, that are kept
MAX_RAW = 3 * MAX_BODY  # bytes of a part that are looked at: quoted-printable needs up to three for one
TOO_LONG = "The text is very long; its end is left out."

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s{0,10}=\s{0,10}[\"']?([A-Za-z0-9_.:-]{1,40})", re.I)
_QUOTE = re.compile(r">*")


@dataclass
class Chosen:
    """The parts that make the text, those that make the HTML, and all others."""

    text: list[Part] = field(default_factory=list)
    html: list[Part] = field(default_factory=list)
    attachments: list[Part] = field(default_factory=list)


def choose(root: Part) -> Chosen:
    """The parts as RFC 8621 4.1.4 sorts them; pictures amid the text are attachments here, so that none is lost."""
    chosen = Chosen()
    _choose([root], root, "mixed", chosen, in_alternative=False)
    return chosen


def charset_of(root: Part, chosen: Chosen) -> str | None:
    """The character set that 8-bit header fields are likely to be in: that of the message, else of its first text."""
    named = (part.parameters.get("charset") for part in (root, *chosen.text[:1], *chosen.html[:1]))
    return next(filter(None, named), None)


def _choose(parts: Sequence[Part], main: Part, multipart: str, chosen: Chosen, *, in_alternative: bool) -> None:
    texts, htmls = len(chosen.text), len(chosen.html)
    for part in parts:
        before = len(chosen.html)
        if part.children:
            subtype = part.mime_type.partition("/")[2]
            inside = in_alternative or subtype == "alternative"
            _choose(part.children, _main(part), subtype, chosen, in_alternative=inside)
        elif not _is_body(part, part is main, multipart):
            chosen.attachments.append(part)
        elif multipart == "alternative" or in_alternative:
            (chosen.text if part.mime_type == "text/plain" else chosen.html).append(part)
        else:
            chosen.text.append(part)
            chosen.html.append(part)
        if multipart == "alternative" and htmls < before < len(chosen.html):
            _supersede(chosen, htmls, before)
    if multipart == "alternative":
        # RFC 8621 4.1.4: where there is one form only, it stands for the other as well.
        if len(chosen.text) == texts:
            chosen.text += chosen.html[htmls:]
        elif len(chosen.html) == htmls:
            chosen.html += chosen.text[texts:]


def _supersede(chosen: Chosen, start: int, end: int) -> None:
    """Of several forms the last is shown, alone (RFC 2046 5.1.4); HTML that is not shown is an attachment, not lost."""
    texts = {part.number for part in chosen.text}
    chosen.attachments += [part for part in chosen.html[start:end] if part.number not in texts]
    del chosen.html[start:end]


def _main(multipart: Part) -> Part:
    """The first part, or the one that a multipart/related names as its root (RFC 2387 3.2)."""
    if start := multipart.parameters.get("start", "").strip().removeprefix("<").removesuffix(">"):
        return next((part for part in multipart.children if part.content_id() == start), multipart.children[0])
    return multipart.children[0]


def _is_body(part: Part, is_main: bool, multipart: str) -> bool:
    if part.mime_type not in ("text/plain", "text/html") or part.disposition == "attachment":
        return False
    return is_main or (multipart != "related" and not part.filename())


def text_of(chosen: Chosen, warn: Callable[[str], None], reader: HtmlReader = TAGS) -> str | None:
    """The plain text, its parts one after the other; None where the message has none.

    HTML beside plain parts is shown with them (the footers of lists, Apple Mail's text around pictures), so its text
    stands between theirs. Where they say nothing, all of it is left to the HTML. HTML that cannot be analyzed is left
    out, with a warning, and so is the HTML after it: previews and excerpts are made of this text, and come without
    warnings.
    """
    found = [_plain(part, warn) if part.mime_type == "text/plain" else None for part in chosen.text]
    plain = [piece for piece in found if piece is not None]
    if len(plain) < len(found) and any(map(str.strip, plain)):
        plain = _with_html(chosen.text, found, warn, reader)
    return (
        _bounded("\n\n".join(piece for piece in plain if piece) if len(plain) > 1 else plain[0], warn)
        if plain
        else None
    )


def html_of(chosen: Chosen, warn: Callable[[str], None]) -> str | None:
    """The HTML, with plain parts that stand beside it; None where the message has none."""
    if not any(part.mime_type == "text/html" for part in chosen.html):
        return None
    pieces = [
        _decoded(part, warn)
        if part.mime_type == "text/html"
        else f"<pre>{html_entities.escape(_plain(part, warn), quote=False)}</pre>"
        for part in chosen.html
    ]
    return _bounded("\n".join(pieces).rstrip("\n"), warn)


def _bounded(text: str, warn: Callable[[str], None]) -> str:
    if len(text) > MAX_BODY:
        warn(TOO_LONG)
    return text[:MAX_BODY]


def _with_html(
    parts: Sequence[Part], texts: Sequence[str | None], warn: Callable[[str], None], reader: HtmlReader
) -> list[str]:
    """Return the texts of parts, with those of HTML in their places up to the first that cannot be analyzed."""
    pieces: list[str] = []
    is_analyzed = True
    for part, text in zip(parts, texts, strict=True):
        if text is not None:
            pieces.append(text)
        elif is_analyzed:
            seen = reader.extract(_bounded(_decoded(part, warn), warn), "text")
            is_analyzed = seen.is_analyzed
            for sentence in seen.hidden.warnings() if is_analyzed else (UNANALYZED_PART,):
                warn(sentence)
            if is_analyzed:
                pieces.append(seen.text)
    return pieces


def _plain(part: Part, warn: Callable[[str], None]) -> str:
    text = _decoded(part, warn)
    if part.parameters.get("format", "").lower() == "flowed":
        text = unflow(text, delete_space=part.parameters.get("delsp", "").lower() == "yes")
    return text.rstrip("\n")


def _decoded(part: Part, warn: Callable[[str], None]) -> str:
    """The text of a part with line feeds, and without NUL."""
    raw, whole = part.content(limit=MAX_RAW, is_text=True)
    if not whole:
        warn("The encoding of a text is broken; what could be read is shown.")
    charset = part.parameters.get("charset") or None
    if charset is None and part.mime_type == "text/html":
        charset = _meta_charset(raw[:2048])
    text, sure = charsets.decode(raw, charset)
    if not sure:
        warn("The character set of a text is missing or wrong; some characters may be wrong.")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.replace("\0", "").removeprefix("\ufeff")  # a byte order mark that was no part of the character set


def _meta_charset(start: bytes) -> str | None:
    """The character set that HTML names itself (HTML 13.2.3.2, leniently)."""
    meta = _META_CHARSET.search(start) if b"charset" in start.lower() else None
    # HTML 13.2.3.2: whoever could read this declaration has not read UTF-16.
    return re.sub("^utf-?16.*", "utf-8", meta[1].decode("ascii").lower()) if meta else None


def unflow(text: str, *, delete_space: bool) -> str:
    """Paragraphs of format=flowed, each on one line (RFC 3676 4.1 to 4.5)."""
    pieces: list[str] = []
    open_depth = -1  # quote depth of a paragraph that goes on; -1: none
    for raw in text.split("\n"):
        depth = _QUOTE.match(raw).end()  # type: ignore[union-attr]
        content = raw[depth:].removeprefix(" ")  # 4.4: space-stuffing
        flows = content.endswith(" ") and content != "-- "  # 4.3: the signature line is fixed
        kept = content[:-1] if flows and delete_space else content
        if depth == open_depth and content != "-- ":
            pieces.append(kept)
        else:  # 4.5: a paragraph that changes its depth ends
            pieces += ["\n", ">" * depth + " " if depth else "", kept]
        open_depth = depth if flows else -1
    return "".join(pieces)[1:]
