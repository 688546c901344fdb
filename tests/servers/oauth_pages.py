"""The pages of an OAuth provider that a person sees: agreeing to access, and typing a code."""

from collections.abc import Iterable, Mapping
from html import escape

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<link rel="icon" href="data:,"></head><body><h1>{title}</h1><form method="post" action="{action}">{hidden}{fields}
<button name="choice" value="allow">Allow</button> <button name="choice" value="refuse">Refuse</button>
</form></body></html>"""


def consent(query: Mapping[str, str], person: str, scopes: Iterable[str]) -> bytes:
    """Who signs in, and a box for each access, as Google has them."""
    hidden = "".join(_hidden(name, value) for name, value in query.items() if name != "scope")
    boxes = "".join(
        f'<p><label><input type="checkbox" name="granted" value="{escape(scope)}" checked>{escape(scope)}</label></p>'
        for scope in scopes
    )
    return _page("Sign in", "/authorize", hidden, _text("person", "Email", person) + boxes)


def device(user_code: str, person: str) -> bytes:
    """Where a code is typed."""
    fields = _text("user_code", "Code", user_code) + _text("person", "Email", person)
    return _page("Type the code", "/device", "", fields)


def said(text: str) -> bytes:
    return f"<!doctype html><title>{escape(text)}</title><link rel=icon href=data:,><p>{escape(text)}</p>".encode()


def _page(title: str, action: str, hidden: str, fields: str) -> bytes:
    return _PAGE.format(title=title, action=action, hidden=hidden, fields=fields).encode()


def _hidden(name: str, value: str) -> str:
    return f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'


def _text(name: str, label: str, value: str) -> str:
    return f'<p><label>{label} <input name="{name}" value="{escape(value)}"></label></p>'
