"""Pages of up to 2 MiB that take readers of HTML very long, or very much memory: deep, wide, repeated, never closed."""

from mailbox_appliance.mail.html.tags import MAX_INPUT


def _filled(piece: str, before: str = "", after: str = "", most: int = MAX_INPUT) -> str:
    return before + piece * ((most - len(before) - len(after)) // len(piece)) + after


def _numbered(rule: str, count: int) -> str:
    return "".join(rule.replace("#", str(number)) for number in range(count))


#: Pages by the name of what they have too much of.
HOSTILE_PAGES: dict[str, str] = {
    "nested blocks": _filled("<div>"),
    "nested and closed blocks": "<div>" * 180_000 + "x" + "</div>" * 180_000,
    "styled blocks": _filled("<div style='color:red'>"),
    "formatting in paragraphs": _filled("<p><b><i>"),
    "formatting in paragraphs with text": _filled("<p><b><i>x"),
    "links around paragraphs": _filled("<a><p>x"),
    "closed formatting": ("<font color=red><div>" * 900 + "</font>" * 900 + "</div>" * 900) * 40,
    "nested formatting": _filled("<b>"),
    "nested lists": _filled("<ul><li>"),
    "numbered lists": _filled("<ol><li>x"),
    "nested quotes": _filled("<blockquote>"),
    "quotes with text": _filled("<blockquote>x"),
    "nested tables": _filled("<table><tr><td>"),
    "text outside cells": _filled("<table>x"),
    "cells": _filled("<td>x", "<table><tr>"),
    "rows with header cells": _filled("<tr><th>x", "<table>"),
    "options": _filled("<option>", "<select>"),
    "drawings": _filled("<svg>"),
    "templates": _filled("<template>"),
    "preformatted text": _filled("<pre>\n"),
    "words": _filled("x "),
    "entities": _filled("&amp;"),
    "signs of entities": _filled("&"),
    "signs of Markdown": _filled("*_[`"),
    "opening signs": _filled("<"),
    "comments": _filled("<!-- x -->"),
    "a comment without an end": _filled("<!--"),
    "a tag with many attributes": _filled(" a=b", "<p", ">x"),
    "attributes without an end": _filled("<a b='"),
    "invisible characters": _filled("x\u200b"),
    "selectors that match everything": "<style>" + ".x{color:red}" * 20_000 + "</style>" + "<p class=x>x" * 100_000,
    "selectors for what is nested": "<style>"
    + _numbered(".z# div i{display:none}", 8_000)
    + "</style>"
    + "<div>" * 400
    + "<b><i>x</i></b>" * 100_000,
}
