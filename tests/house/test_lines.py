"""Lines are counted as they are written, and data is left out."""

from pathlib import Path

from tests.house.lines import Lines, count_folder, count_lines, is_data

_MODULE = '''"""Two lines
of prose."""

import os  # not prose

#: a comment
def name() -> str:
    """One line."""

    return """text

of code"""
'''


def test_each_line_is_code_prose_or_blank() -> None:
    assert count_lines(_MODULE) == Lines(code=4, prose=4, blank=4)


def test_a_module_of_values_alone_is_data(tmp_path: Path) -> None:
    assert is_data('"""Rows."""\nfrom enum import Enum\nROWS = {"a": 1}\n')
    assert not is_data("ROWS = [1]\n\ndef find() -> int:\n    return ROWS[0]\n")
    assert not is_data('"""What lies in this folder."""\n')
    (tmp_path / "rows.py").write_text("ROWS = [1]\n")
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "code.py").write_text("def one() -> int:\n    return 1\n")
    modules, counted, data = count_folder(tmp_path)
    assert (dict(modules), counted, data) == ({"part": 1}, {"part": Lines(code=2)}, {"rows.py": Lines(code=1)})
