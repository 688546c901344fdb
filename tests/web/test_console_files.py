"""The console's own files: their size, how they are sent, and that vendored files are what the console declares."""

import gzip
import hashlib
import re
from operator import itemgetter
from pathlib import Path

import pytest
from webtest import TestApp

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.web import console_files
from mailbox_appliance.web.app import App
from tests.checked_client import HOST, CheckedClient

CONSOLE = Path(console_files.__file__).parent / "console"
OLD = "/console/0123456789abcdef/app.js"
OWN = sorted(path for path in CONSOLE.rglob("*.js") if "vendor" not in path.parts)
#: Directives that allow nothing but the appliance's own scripts, styles, requests and pictures.
POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data: blob:",
    "connect-src": "'self'",
    "frame-src": "'self'",
    "manifest-src": "'none'",
    "form-action": "'none'",
    "base-uri": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}


@pytest.fixture
def anybody(appliance: Appliance) -> CheckedClient:
    """Return a browser in which nobody is signed in."""
    return CheckedClient(appliance)


def _path(name: str) -> str:
    return f"/console/{console_files.files_digest()}/{name}"


def _policy(text: str) -> dict[str, str]:
    parts = (part.strip().partition(" ") for part in text.split(";"))
    return {name: value for name, _, value in parts}


def test_what_the_first_page_needs_weighs_at_most_130_kb_compressed(anybody: CheckedClient) -> None:
    text = anybody.ask("GET", "/", root="").content
    names = re.findall(r'(?:href|src)="/console/[^/]+/([^"]+)"', text.decode())
    sizes = {name: len(console_files.load_files()[name].compressed) for name in names}
    assert len(gzip.compress(text)) + sum(sizes.values()) <= 130_000, sorted(sizes.items(), key=itemgetter(1))[-8:]


def test_what_is_of_others_is_what_its_table_says() -> None:
    readme = (CONSOLE / "vendor/README.md").read_text("utf-8")
    told = {name: digest for digest, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", readme, re.MULTILINE)}
    there = {path.name for path in (CONSOLE / "vendor").iterdir() if path.suffix in (".css", ".js", ".mjs")}
    assert told.keys() == there
    for name, digest in told.items():
        assert hashlib.sha256((CONSOLE / "vendor" / name).read_bytes()).hexdigest() == digest, name
        assert f"| {name} |" in readme


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(CONSOLE).as_posix())
def test_a_file_of_ours_is_short_checked_and_lets_the_browser_read_no_markup(path: Path) -> None:
    source = path.read_text("utf-8")
    assert source.startswith("// @ts-check\n")
    assert len(source.splitlines()) <= 300
    assert not re.search(r"dangerouslySetInnerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\(", source)
    assert not re.search(r"localStorage\.setItem\((?!KEPT)", source), "only small preferences are kept"


def test_the_page_lets_in_nothing_but_our_own(anybody: CheckedClient) -> None:
    page = anybody.ask("GET", "/", root="")
    assert _policy(page.headers["content-security-policy"]) == POLICY
    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    assert page.headers["x-dns-prefetch-control"] == "off"
    text = page.content.decode()
    assert "{" not in text
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\son\w+=|\sstyle=", text)
    for place in re.findall(r'(?:href|src)="([^"]+)"', text):
        assert anybody.ask("GET", place, root="").status == 200, place


def test_the_empty_page_for_messages_runs_no_script_and_loads_nothing(anybody: CheckedClient) -> None:
    frame = anybody.ask("GET", _path("frame.html"), root="")
    policy = _policy(frame.headers["content-security-policy"])
    assert policy["default-src"] == "'none'"
    assert "allow-scripts" not in policy["sandbox"]
    assert "script-src" not in policy
    assert policy["frame-ancestors"] == "'self'"
    assert b"<script" not in frame.content


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("", False),
        ("gzip", True),
        ("br;q=1, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("identity", False),
        ("x-gzip", False),
    ],
)
def test_files_are_kept_for_ever_and_sent_compressed_to_who_takes_that(accepted: str, is_packed: bool) -> None:
    answer = console_files.serve_file({"HTTP_ACCEPT_ENCODING": accepted}, console_files.files_digest(), "app.js")
    headers = dict(answer.headers)
    assert headers.get("Content-Encoding") == ("gzip" if is_packed else None)
    text = (gzip.decompress(answer.body) if is_packed else answer.body).decode()
    assert text == (CONSOLE / "app.js").read_text("utf-8")
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert headers["Vary"] == "Accept-Encoding"
    assert answer.media_type == "text/javascript; charset=utf-8"


def test_a_file_is_told_apart_from_what_the_api_answers(anybody: CheckedClient) -> None:
    answer = anybody.ask("GET", _path("app.js"), root="")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert anybody.ask("GET", "").headers["cache-control"] == "no-store"


def test_what_is_no_file_of_this_release_is_not_found(anybody: CheckedClient) -> None:
    for path in (
        OLD,
        _path("nothing.js"),
        _path("vendor/README.md"),
        _path("vendor/preact.d.mts"),
        _path("../app.py"),
        _path("%2e%2e/app.py"),
        _path("index.html"),
        "/console/",
    ):
        assert anybody.ask("GET", path, root="").status == 404, path


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(CONSOLE).as_posix())
def test_every_module_that_is_imported_is_there(path: Path) -> None:
    named = re.findall(r'(?:\bfrom |^import |\bimport\()"(\.[^"]+)"', path.read_text("utf-8"), re.MULTILINE)
    assert [name for name in named if not (path.parent / name).is_file()] == []


def test_while_the_appliance_starts_again_the_console_can_be_loaded(appliance: Appliance) -> None:
    app = App(appliance)
    client = TestApp(app, extra_environ={"HTTP_HOST": HOST, "REMOTE_ADDR": "127.0.0.1", "SERVER_PROTOCOL": "HTTP/1.1"})
    assert app.handle.pause(1)
    try:
        answers = {
            path: client.get(path, status="*").status_int for path in ("/", _path("app.js"), OLD, "/api/v1/", "/x")
        }
        foreign = client.get("/", status="*", headers={"Host": "evil.example"}).status_int
    finally:
        app.handle.resume(appliance)
    assert answers == {"/": 200, _path("app.js"): 200, OLD: 503, "/api/v1/": 503, "/x": 503}
    assert foreign == 503
