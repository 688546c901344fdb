"""The browsers of the tests."""

import os
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, BrowserType

#: Also keeps Chromium from looking up names and connecting ahead of time.
_QUIET = "--disable-background-networking"
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
)


def launch(kind: BrowserType) -> Browser:
    """Start Debian's Chromium, or the one that CHROMIUM names."""
    return kind.launch(executable_path=_path(), args=[*_ARGUMENTS, _QUIET])


def launch_as_people_do(kind: BrowserType, folder: Path, *more: str, **profile: Any) -> BrowserContext:
    """Start a browser with a persistent profile in `folder`, so that it connects ahead if a page asks for that."""
    arguments = [*_ARGUMENTS, *more]
    return kind.launch_persistent_context(
        folder, executable_path=_path(), args=arguments, ignore_default_args=[_QUIET], **profile
    )


def _path() -> str:
    return os.environ.get("CHROMIUM", "/usr/bin/chromium")
