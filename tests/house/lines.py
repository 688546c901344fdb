"""Count the lines of the program and of its tests.

scripts/measure-lines     prints them by folder

A module that only assigns values, such as a table of examples, is data and not counted. Neither are files that are not
Python: golden texts, messages, pages of the console.
"""

import ast
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Lines:
    """Lines of one or more modules: of statements, of docstrings and comments, and empty ones."""

    code: int = 0
    prose: int = 0
    blank: int = 0

    @property
    def all(self) -> int:
        return self.code + self.prose + self.blank

    def __add__(self, other: "Lines") -> "Lines":
        return Lines(self.code + other.code, self.prose + other.prose, self.blank + other.blank)


def count_lines(source: str) -> Lines:
    """Return the lines of a module."""
    lines = source.splitlines()
    blank = {number for number, line in enumerate(lines, 1) if not line.strip()}
    prose = {number for number, line in enumerate(lines, 1) if line.lstrip().startswith("#")}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstring = node.body[0]
            prose.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    prose -= blank
    return Lines(len(lines) - len(prose) - len(blank), len(prose), len(blank))


def is_data(source: str) -> bool:
    """Whether a module holds values alone: it assigns, and defines nothing."""
    body = ast.parse(source).body
    assigns = [node for node in body if isinstance(node, ast.Assign | ast.AnnAssign)]
    rest = [node for node in body if not isinstance(node, ast.Assign | ast.AnnAssign | ast.Import | ast.ImportFrom)]
    return bool(assigns) and all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in rest)


def count_folder(folder: Path) -> tuple[Counter[str], dict[str, Lines], dict[str, Lines]]:
    """Return how many modules a folder has, and the lines of its modules and of its data, each by its subfolder."""
    modules: Counter[str] = Counter()
    counted: dict[str, Lines] = {}
    data: dict[str, Lines] = {}
    for path in sorted(folder.rglob("*.py")):
        name, source = path.relative_to(folder), path.read_text()
        if is_data(source):
            data[str(name)] = count_lines(source)
        else:
            room = name.parts[0] if len(name.parts) > 1 else "."
            modules[room] += 1
            counted[room] = counted.get(room, Lines()) + count_lines(source)
    return modules, counted, data


def _total(each: Iterable[Lines]) -> Lines:
    return sum(each, Lines())


def main() -> int:
    """Print the lines of the program and of the tests, by folder."""
    for name in ("mailbox_appliance", "tests"):
        modules, counted, data = count_folder(ROOT / name)
        total = _total(counted.values())
        print(f"{name + ' (.py)':32}{'modules':>9}{'lines':>9}{'code':>9}{'prose':>9}{'blank':>9}")
        for room, lines in sorted(counted.items(), key=lambda each: -each[1].all):
            print(f"  {room:30}{modules[room]:9,}{lines.all:9,}{lines.code:9,}{lines.prose:9,}{lines.blank:9,}")
        print(f"  {'all':30}{modules.total():9,}{total.all:9,}{total.code:9,}{total.prose:9,}{total.blank:9,}")
        print(f"  not counted, as data: {_total(data.values()).all:,} lines in {', '.join(data) or 'no module'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
