"""The documentation as a site, built by Zensical without the internet: the pages of `docs`, and what they link to.

scripts/docs                build it into `site`
scripts/docs --serve        build it and serve it at http://127.0.0.1:8000
"""

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent.parent
_DOCUMENTS = ("README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE", "packaging/README.md")
#: Parts of the site, in order: a title, and the folders or pages whose pages it has.
_PARTS = {
    "Tutorials": ("tutorials/quick-start.md", "tutorials/first-agent.md", "tutorials/safe-sending.md"),
    "How-to": ("how-to",),
    "Cookbook": ("cookbook",),
    "Reference": ("reference",),
    "Explanation": ("explanation",),
    "Help": ("faq.md", "troubleshooting.md", "upgrading.md"),
    "Contributing": (
        "contributing.md",
        "architecture.md",
        "writing-docs.md",
        "glossary.md",
        "portability.md",
        "decisions",
    ),
}
#: A link to a test: the site has no tests, so there its text and the path of the file stand instead.
_LINK_TO_TEST = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(tests/[^)#]+)\)")
_HREF = re.compile(r"""<(?:a|link)\b[^>]*?\bhref=("[^"]*"|'[^']*'|[^\s>"']+)""")
_TITLES = {"http-api": "HTTP API", "cli": "Command line"}
_SETTINGS = """
[project]
site_name = "mailbox-appliance"
site_description = "Self-hosted email API for scripts, apps and AI agents"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = false
nav = {nav}

[project.theme]
font = false
features = ["content.code.copy", "navigation.footer", "navigation.indexes", "navigation.tabs", "navigation.top"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to light mode"
"""


class BuildFailed(Exception):
    """The site cannot be built, or a link in it leads nowhere; the text names each problem and its place."""


def build(target: Path) -> int:
    """Build the site into a folder, which is replaced. Returns the number of pages; raises BuildFailed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pages = _copy_pages(folder / "pages")
        (folder / "zensical.toml").write_text(_SETTINGS.format(nav=_make_navigation()), "utf-8")
        done = subprocess.run(
            (sys.executable, "-m", "zensical", "build", "--strict"),
            cwd=folder,
            env={**os.environ, "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BuildFailed("\n".join(_find_problems(done.stdout + done.stderr)) or done.stderr)
        if dead := find_dead_links(folder / "site"):
            raise BuildFailed("\n".join(dead))
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folder / "site", target)
    return pages


def _find_problems(output: str) -> list[str]:
    """Return what Zensical complains of, each in one line with its place."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", output)
    return [
        f"{place}: {what}"
        for what, place in re.findall(r"^(?:Warning|Error): (.*)\n.*\[ (\S+) \]", plain, re.MULTILINE)
    ]


def find_dead_links(site: Path) -> list[str]:
    """Return the links of a built site that lead to no file of it, each with its page.

    Zensical checks links between pages only: it ignores those to folders and to other files.
    """
    found = []
    for page in sorted(site.rglob("*.html")):
        for link in sorted({html.unescape(link.strip("\"'")) for link in _HREF.findall(page.read_text("utf-8"))}):
            place = urlsplit(link)
            if place.scheme or place.netloc or not place.path:
                continue
            target = (site if place.path.startswith("/") else page.parent) / unquote(place.path).lstrip("/")
            if not target.is_file() and not (target / "index.html").is_file():
                found.append(f"{page.relative_to(site)}: no file for the link {link}")
    return found


def _copy_pages(folder: Path) -> int:
    shutil.copytree(ROOT / "docs", folder / "docs")
    for name in _DOCUMENTS:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    pages = list(folder.rglob("*.md"))
    for page in pages:
        page.write_text(_LINK_TO_TEST.sub(r"\1 `\2`", page.read_text("utf-8")), "utf-8")
    return len(pages)


def _make_navigation() -> str:
    nav = ['{ "Home" = "README.md" }', '{ "Documentation" = "docs/index.md" }']
    for title, places in _PARTS.items():
        nav.append(f"{{ {json.dumps(title)} = [{', '.join(_list_entries(places))}] }}")
    more = ("CHANGELOG.md", "SECURITY.md", "packaging/README.md")
    nav.append(f'{{ "Project" = {json.dumps(list(more))} }}')
    return "[\n  " + ",\n  ".join(nav) + ",\n]"


def _list_entries(places: Iterable[str]) -> list[str]:
    """Return the entries of pages and folders; folders within a folder come first, as sections of their own."""
    entries = []
    for place in places:
        path = ROOT / "docs" / place
        inner = sorted(one for one in path.iterdir() if one.is_dir()) if path.is_dir() else []
        for folder in reversed(inner):
            title = _TITLES.get(folder.name, folder.name.capitalize())
            entries.append(f"{{ {json.dumps(title)} = [{', '.join(_list_entries([f'{place}/{folder.name}']))}] }}")
        files = sorted(path.glob("*.md"), key=_order) if path.is_dir() else [path]
        entries += [json.dumps(str(file.relative_to(ROOT))) for file in files if file.exists()]
    return entries


def _order(file: Path) -> tuple[bool, bool, str]:
    """Put the index first and the pages of objects last; `messages` comes before `messages-2`."""
    return file.stem != "index", "-objects" in file.stem, file.stem


def main() -> int:
    """Build the site; with `--serve` also serve it until Ctrl-C."""
    target = ROOT / "site"
    try:
        pages = build(target)
    except BuildFailed as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    sys.stdout.write(
        f"{pages} pages: {target / 'README.html' if (target / 'README.html').exists() else target / 'index.html'}\n"
    )
    if sys.argv[1:] == ["--serve"]:
        command = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(target), "8000")
        return subprocess.run(command, check=False).returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
