"""File systems and files that are mounted for a test, which takes root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def mounted(*what: str) -> Iterator[None]:
    """What `mount` is told, the place last; it is unmounted afterwards. Skips the test where it cannot be done."""
    if os.geteuid() != 0 or subprocess.run(["mount", *what], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", what[-1]], check=True, capture_output=True)
