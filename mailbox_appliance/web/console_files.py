"""The files of the browser console and of the API reference, and the page to which a provider's sign-in returns.

The console's files are served as they are. The digest of all of them is part of each path (`/console/DIGEST/app.js`),
so browsers may cache them permanently, and fetch all of them again after an upgrade. The HTML page, which names the
digest, is never cached.
"""

import gzip
import hashlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import bottle

from mailbox_appliance.web.http import Response

CONSOLE_PREFIX = "/console"
_FOLDER = Path(__file__).parent / "console"
_PAGE_NAME, _FRAME_NAME = "index.html", "frame.html"
# The console itself and its two start pages.
_FIRST_MODULES = ("app.js", "pages/sign-in.js", "pages/mail/list.js")
_IMPORT = re.compile(r'^(?:import|export)\s(?:[^;"=()]*\sfrom\s)?"([^"]+)";', re.MULTILINE)
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The console builds all content from values in its own code, so nothing is parsed as code or markup (Trusted Types).
# It gets the pictures of a message from the API and shows them as `blob:`.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " frame-src 'self'; manifest-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
# The empty page for the message frame. Its policy allows a sender's styles and nothing else: no scripts run in it
# (sandbox), it makes no requests, and only the console can frame it.
_FRAME_POLICY = (
    "sandbox allow-same-origin; default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:;"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
_COMMON_HEADERS = (
    ("Referrer-Policy", "no-referrer"),
    ("X-DNS-Prefetch-Control", "off"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
)
_IMMUTABLE = ("Cache-Control", "public, max-age=31536000, immutable")


@dataclass(frozen=True)
class ConsoleFile:
    """The content of a static file, plain and compressed with gzip."""

    media_type: str
    plain: bytes
    compressed: bytes


@cache
def load_files() -> Mapping[str, ConsoleFile]:
    """Return all files that browsers fetch, by their path after the digest."""
    paths = (path for path in sorted(_FOLDER.rglob("*")) if path.suffix in _TYPES and path.name != _PAGE_NAME)
    return {path.relative_to(_FOLDER).as_posix(): _to_console_file(path.name, path.read_bytes()) for path in paths}


@cache
def first_modules() -> tuple[str, ...]:
    """Return the paths of the modules that the first page needs, those of the console itself first. The page announces
    them, so that browsers fetch them together instead of one after the other.
    """
    found: dict[str, None] = {}
    waiting = [*reversed(_FIRST_MODULES)]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = None
            imported = _IMPORT.findall(load_files()[path].plain.decode())
            waiting += (posixpath.normpath(posixpath.join(path, "..", one)) for one in imported)
    return tuple(found)


@cache
def files_digest() -> str:
    """Return the digest in the paths of console files. It changes if the path or content of any file changes, or the
    response headers that they have in common.
    """
    whole = hashlib.sha256(repr((_FRAME_POLICY, _COMMON_HEADERS)).encode())
    for path, file in load_files().items():
        whole.update(f"{path}\0{len(file.plain)}\0".encode() + file.plain)
    return whole.hexdigest()[:16]


def serve_page(environ: Mapping[str, Any]) -> Response:
    """Return the HTML page of the console."""
    return _file_response(environ, _load_page(), ("Cache-Control", "no-cache"), _POLICY)


def serve_file(environ: Mapping[str, Any], asked: str, path: str) -> Response:
    """Return the console file at `path`. `asked`: the digest in the URL.

    Raises Bottle's 404 if the file does not exist or the digest is from another release.
    """
    file = load_files().get(path)
    if file is None or asked != files_digest():
        raise bottle.HTTPError(404)
    return _file_response(environ, file, _IMMUTABLE, _FRAME_POLICY if path == _FRAME_NAME else "default-src 'none'")


def _file_response(environ: Mapping[str, Any], file: ConsoleFile, caching: tuple[str, str], policy: str) -> Response:
    is_compressed = _takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", ""))
    headers = [caching, ("Content-Security-Policy", policy), ("Vary", "Accept-Encoding"), *_COMMON_HEADERS]
    if is_compressed:
        headers.append(("Content-Encoding", "gzip"))
    body = file.compressed if is_compressed else file.plain
    return Response(200, body, tuple(headers), file.media_type)


def _takes_gzip(accepted: str) -> bool:
    """Whether the client accepts `gzip`. `accepted`: its Accept-Encoding header (RFC 9110 12.5.3)."""
    for one in accepted.lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() == "gzip":
            return weight.strip().removeprefix("q=").strip() not in ("0", "0.", "0.0", "0.00", "0.000")
    return False


@cache
def _load_page() -> ConsoleFile:
    links = "\n".join(
        f'<link rel="modulepreload" href="{CONSOLE_PREFIX}/{{digest}}/{path}">' for path in first_modules()
    )
    text = (_FOLDER / _PAGE_NAME).read_text("utf-8").replace("{preloaded}", links).replace("{digest}", files_digest())
    return _to_console_file(_PAGE_NAME, text.encode())


def _to_console_file(name: str, plain: bytes) -> ConsoleFile:
    return ConsoleFile(_TYPES[Path(name).suffix], plain, gzip.compress(plain, 9, mtime=0))


# --- The API reference: a page with a viewer of the OpenAPI document. Its files are read when they are asked for ---


# The viewer needs no inline script, style or evaluated code. Its style sheet has pictures as `data:`.
_REFERENCE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
#: The name of each file, and whether its name has a version, so that browsers may keep it.
_REFERENCE_FILES = {
    "index.html": False,
    "docs.css": False,
    "docs.js": False,
    "swagger-ui-5.32.15.css": True,
    "swagger-ui-5.32.15.js": True,
}


def serve_reference(environ: Mapping[str, Any], name: str = "index.html") -> Response:
    """Return the page of the API reference, or one of its files. Raises Bottle's 404 if no file has this name."""
    if name not in _REFERENCE_FILES:
        raise bottle.HTTPError(404)
    folder, is_kept = Path(__file__).parent / "docs", _REFERENCE_FILES[name]
    if is_kept:  # stored compressed: most browsers get it as it is
        compressed = (folder / f"{name}.gz").read_bytes()
        is_taken = _takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", ""))
        file = ConsoleFile(_TYPES[Path(name).suffix], b"" if is_taken else gzip.decompress(compressed), compressed)
    else:
        file = _to_console_file(name, (folder / name).read_bytes())
    return _file_response(environ, file, _IMMUTABLE if is_kept else ("Cache-Control", "no-cache"), _REFERENCE_POLICY)


# --- The page to which a provider's sign-in returns. It passes the result to the console, and stores nothing ---
#
# The result goes into the fragment of the console's address, which browsers do not send (RFC 3986 3.5). A person who
# started the sign-in in a terminal pastes the address of this page there. Only the fields below are passed on, and of
# the provider's free text only the number of a Microsoft error.


#: RFC 6749 4.1.2 and 4.1.2.1.
_CALLBACK_FIELDS = ("state", "code", "error")
_MAX_QUERY = 16_384
#: learn.microsoft.com/entra/identity-platform/reference-error-codes
_MICROSOFT_ERROR = re.compile(r"AADSTS[0-9]{4,9}")
#: The page needs no scripts, makes no requests, and must not be framed.
_CALLBACK_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
_CALLBACK_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Signing in</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="0; url={address}"><link rel="icon" href="data:,">
<style>body {{ font: 1.1rem/1.5 system-ui, sans-serif; max-width: 36rem; margin: 3rem auto; padding: 0 1rem }}</style>
</head><body><main><h1>Signing in</h1>
<p>You can continue in the console: <a href="{address}">continue</a>.</p></main></body></html>
"""


def callback_page(query: str) -> Response:
    """Return the page to which a provider's sign-in redirects. It forwards the browser to the console.

    `query`: the query string with the result of the sign-in, which the console gets in the URL fragment.
    """
    address = escape(f"/#/oauth-callback?{urlencode(_read_callback(query))}")
    headers = (("Content-Security-Policy", _CALLBACK_POLICY), ("Referrer-Policy", "no-referrer"))
    return Response(200, _CALLBACK_PAGE.format(address=address).encode(), headers, "text/html; charset=utf-8")


def _read_callback(query: str) -> dict[str, str]:
    try:
        given = parse_qsl(query[:_MAX_QUERY], max_num_fields=32)
    except ValueError:  # more fields than any provider sends
        return {}
    # Only the first value of each field counts: providers send each once.
    first = dict(reversed(given))
    brought = {name: first[name] for name in _CALLBACK_FIELDS if name in first}
    number = _MICROSOFT_ERROR.search(first.get("error_description", ""))
    return brought if number is None or "error" not in brought else {**brought, "error_description": number[0]}
