"""The console's own files: small, the same for everybody, and kept by browsers for as long as they do not change.

Their address holds a digest of them all (`/console/DIGEST/app.js`), so that a browser that has them never asks again,
and after an upgrade takes the new ones together. Only the page that names the digest is asked for anew.
"""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import bottle

from mailbox_appliance.web.linking import linked, styled
from mailbox_appliance.web.responses import Response
from mailbox_appliance.web.squeezing import squeezed

PREFIX = "/console"
_PAGE, _FRAME = "index.html", "frame.html"
_DIGEST, _PRELOADED = b"{digest}", b"{preloaded}"  # what stands for them in pages
_APP, _LOOK, _VENDOR = "app.js", "app.css", "vendor/"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# What is shown is made by code of ours from values, so that nothing anywhere is read as code or as markup (Trusted
# Types); pictures of a message are taken by the API and shown as `blob:`.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " frame-src 'self'; manifest-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
# The empty page that a message is shown in. Its own policy allows a sender's styles and nothing else: no script runs in
# it (sandbox), nothing is fetched for it, nobody but the console may hold it.
_FRAME_POLICY = (
    "sandbox allow-same-origin; default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:;"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
_ALWAYS = (
    ("Referrer-Policy", "no-referrer"),
    ("X-DNS-Prefetch-Control", "off"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
)
_FOR_EVER = ("Cache-Control", "public, max-age=31536000, immutable")


@dataclass(frozen=True)
class File:
    """One file as it is sent: as it is, and compressed."""

    media_type: str
    plain: bytes
    compressed: bytes


@cache
def files_served() -> Mapping[str, File]:
    """Every file that a browser gets, by its path below the digest: our modules are one (see linking)."""
    plain = {path: place.read_bytes() for path, place in sorted(_walk(files("mailbox_appliance.web") / "console", ""))}
    modules = {path: text.decode() for path, text in plain.items() if path.endswith((".js", ".mjs"))}
    single = {path: text for path, text in plain.items() if path.startswith(_VENDOR) or path not in modules}
    ours = {_APP: squeezed(linked(modules, _APP)).encode(), _LOOK: styled(plain[_LOOK].decode()).encode()}
    return {path: _file(path, text) for path, text in {**single, **ours}.items()}


@cache
def digest() -> str:
    """Another one whenever any of the files, the page for messages or what it is sent with changes."""
    whole = hashlib.sha256(repr((_FRAME_POLICY, _ALWAYS)).encode() + _read(_FRAME))
    for path, file in files_served().items():
        whole.update(f"{path}\0{len(file.plain)}\0".encode() + file.plain)
    return whole.hexdigest()[:16]


def page(environ: Mapping[str, Any]) -> Response:
    """The console's one page."""
    return _response(environ, _page(_PAGE), ("Cache-Control", "no-cache"), _POLICY)


def served(environ: Mapping[str, Any], asked: str, path: str) -> Response:
    """One of the files; raises bottle's 404 where there is none, or where they are of another release."""
    file = files_served().get(path)
    if path == _FRAME and asked == digest():
        return _response(environ, _page(_FRAME), _FOR_EVER, _FRAME_POLICY)
    if file is None or asked != digest():
        raise bottle.HTTPError(404)
    return _response(environ, file, _FOR_EVER, "default-src 'none'")


def _response(environ: Mapping[str, Any], file: File, caching: tuple[str, str], policy: str) -> Response:
    is_compressed = _takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", ""))
    headers = [caching, ("Content-Security-Policy", policy), ("Vary", "Accept-Encoding"), *_ALWAYS]
    if is_compressed:
        headers.append(("Content-Encoding", "gzip"))
    body = file.compressed if is_compressed else file.plain
    return Response(200, body, tuple(headers), file.media_type)


def _takes_gzip(accepted: str) -> bool:
    """Whether `gzip` is among the codings that are accepted (RFC 9110 12.5.3)."""
    for one in accepted.lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() == "gzip":
            return weight.strip().removeprefix("q=").strip() not in ("0", "0.", "0.0", "0.00", "0.000")
    return False


@cache
def _page(name: str) -> File:
    plain = _read(name)
    links = "\n".join(f'<link rel="modulepreload" href="/console/{{digest}}/{path}">' for path in _modules())
    return _file(".html", plain.replace(_PRELOADED, links.encode()).replace(_DIGEST, digest().encode()))


def _read(name: str) -> bytes:
    return (files("mailbox_appliance.web") / "console" / name).read_bytes()


def _modules() -> list[str]:
    """What the page begins with: named in it, a browser need not find it out step by step."""
    return [_APP, *(path for path in files_served() if path.endswith(".mjs"))]


def _file(path: str, plain: bytes) -> File:
    suffix = path[path.rindex(".") :]
    return File(_TYPES.get(suffix, "text/html; charset=utf-8"), plain, gzip.compress(plain, 9, mtime=0))


def _walk(folder: Traversable, above: str) -> list[tuple[str, Traversable]]:
    found = []
    for place in folder.iterdir():
        if place.is_dir():
            found += _walk(place, f"{above}{place.name}/")
        elif place.name.endswith(tuple(_TYPES)):
            found.append((above + place.name, place))
    return found
