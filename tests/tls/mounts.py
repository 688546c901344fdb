"""File systems and files that are mounted for a test, which needs root."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def mounted(*what: str) -> Iterator[None]:
    """Mount with these arguments, the target last; unmount afterwards. Skips the test if that is not possible."""
    if os.geteuid() != 0 or subprocess.run(["mount", *what], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", what[-1]], check=True, capture_output=True)
