"""The files of the browser console, served as they are, with a digest in their path.

The digest of all files is part of each path (`/console/DIGEST/app.js`), so browsers may cache them permanently, and
fetch all of them again after an upgrade. The HTML page, which names the digest, is never cached.
"""

import gzip
import hashlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

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
    "swagger-ui-5.35.0.css": True,
    "swagger-ui-5.35.0.js": True,
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
