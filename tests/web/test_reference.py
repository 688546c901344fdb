"""The files of the API reference at `/api/v1/docs`; `tests/console/test_api_reference.py` opens it in a browser."""

import gzip
import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest
from webtest import TestApp

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.web.app import App
from mailbox_appliance.web.console_files import _REFERENCE_FILES, serve_reference

FOLDER = Path(str(files("mailbox_appliance.web") / "docs"))
LOCAL = {"HTTP_HOST": "127.0.0.1:8025", "REMOTE_ADDR": "127.0.0.1"}
VENDORED = sorted(name for name, is_kept in _REFERENCE_FILES.items() if is_kept)


@pytest.fixture
def web(appliance: Appliance) -> TestApp:
    return TestApp(App(appliance), extra_environ=LOCAL)


def test_the_page_needs_no_credential_and_keeps_to_its_policy(web: TestApp) -> None:
    page = web.get("/api/v1/docs")
    assert page.status_int == 200
    assert page.content_type == "text/html"
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "style-src 'self';" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Cache-Control"] == "no-cache"
    assert not re.search(r"<script>|style=|https?://", page.text)
    assert web.get("/api/v1/docs/").body == page.body


def test_the_page_names_files_that_there_are(web: TestApp) -> None:
    named = re.findall(r'(?:href|src)="(/api/v1/docs/[^"]+)"', web.get("/api/v1/docs").text)
    assert sorted(named) == sorted(f"/api/v1/docs/{name}" for name in _REFERENCE_FILES if name != "index.html")
    types = {path.rpartition(".")[2]: web.get(path).content_type for path in named}
    assert types == {"css": "text/css", "js": "text/javascript"}


@pytest.mark.parametrize("name", VENDORED)
def test_the_viewer_comes_compressed_or_not_and_may_be_kept(name: str) -> None:
    plain, compressed = (serve_reference({"HTTP_ACCEPT_ENCODING": one}, name) for one in ("identity", "br, gzip"))
    assert gzip.decompress(compressed.body) == plain.body
    assert compressed.body == (FOLDER / f"{name}.gz").read_bytes()
    assert dict(compressed.headers)["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in dict(plain.headers)
    assert "immutable" in dict(plain.headers)["Cache-Control"]


@pytest.mark.parametrize(
    "name", ["README.md", "licences/swagger-ui.txt", "..%2fopenapi.py", "swagger-ui-5.32.15.js.gz"]
)
def test_nothing_else_is_served(web: TestApp, name: str) -> None:
    assert web.get(f"/api/v1/docs/{name}", status="*").status_int == 404


def test_a_query_changes_nothing(web: TestApp) -> None:
    assert web.get("/api/v1/docs?url=https://example.org/evil.json").body == web.get("/api/v1/docs").body


def test_the_viewer_is_what_its_table_says() -> None:
    readme = (FOLDER / "README.md").read_text("utf-8")
    told = {name: digest for digest, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", readme, re.MULTILINE)}
    assert sorted(told) == VENDORED
    assert {path.name.removesuffix(".gz") for path in FOLDER.glob("*.gz")} == told.keys()
    for name, digest in told.items():
        plain = gzip.decompress((FOLDER / f"{name}.gz").read_bytes())
        assert hashlib.sha256(plain).hexdigest() == digest, name
        assert f"| {name} |" in readme
    assert "Apache License" in (FOLDER / "licences" / "swagger-ui.txt").read_text("utf-8")
