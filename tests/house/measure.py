"""Measures of the package's shape, from its sources alone: modules, folders, cycles, chains, names used twice.

scripts/measure-house     prints them, each with its bound; ends with 1 where one is passed
"""

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import mailbox_appliance

PACKAGE = "mailbox_appliance"
ROOT = Path(mailbox_appliance.__file__).parent
#: A module of fewer lines that one neighbor alone imports belongs into that neighbor.
SLICE_LINES = 60


@dataclass(frozen=True)
class Import:
    """A module of ours that a line imports. `lazy`: inside a function. `typing`: for the type checker alone."""

    module: str
    line: int
    lazy: bool
    typing: bool


@dataclass(frozen=True)
class Module:
    """A source file of the package by its dotted name without the package's, e.g. `store.files`."""

    name: str
    lines: int
    imports: tuple[Import, ...]
    classes: tuple[str, ...]

    @property
    def folder(self) -> str:
        return self.name.rpartition(".")[0]


@dataclass(frozen=True)
class House:
    """All modules of the package, without the `__init__.py` that describe their folders."""

    modules: Mapping[str, Module]

    @cached_property
    def folders(self) -> Mapping[str, int]:
        """How many modules lie in each folder; the top is the empty name."""
        return Counter(module.folder for module in self.modules.values())

    def graph(self, *, lazy: bool) -> dict[str, set[str]]:
        """What each module imports at run time, with or without what its functions import."""
        return {
            name: {each.module for each in module.imports if not each.typing and (lazy or not each.lazy)} - {name}
            for name, module in self.modules.items()
        }

    def cycles(self) -> list[list[str]]:
        """A group of modules that import each other, also inside functions; none where there is none."""
        try:
            TopologicalSorter(self.graph(lazy=True)).prepare()
        except CycleError as error:
            return [sorted(set(error.args[1]))]
        return []

    def longest_chain(self) -> list[str]:
        """The longest row of modules of which each imports the next when it is loaded. There must be no cycle."""
        graph = self.graph(lazy=False)
        longest: dict[str, list[str]] = {}

        def chain(name: str) -> list[str]:
            if name not in longest:
                longest[name] = [name, *max((chain(other) for other in sorted(graph[name])), key=len, default=[])]
            return longest[name]

        return max((chain(name) for name in sorted(graph)), key=len)

    def slices(self) -> list[str]:
        """Small modules that one neighbor of their folder alone imports."""
        importers = defaultdict(set)
        for name, module in self.modules.items():
            for each in module.imports:
                importers[each.module].add(name)
        return sorted(
            name
            for name, module in self.modules.items()
            if module.lines < SLICE_LINES
            and len(importers[name]) == 1
            and all(self.modules[other].folder == module.folder for other in importers[name])
        )

    def classes_of_two_modules(self) -> dict[str, list[str]]:
        """Public class names that stand for more than one class, and where."""
        found = defaultdict(list)
        for module in self.modules.values():
            for name in module.classes:
                found[name].append(module.name)
        return {name: where for name, where in sorted(found.items()) if len(where) > 1}

    def stems_of_two_modules(self) -> dict[str, list[str]]:
        """Names of modules that stand twice, and where."""
        found = defaultdict(list)
        for name in self.modules:
            found[name.rpartition(".")[2]].append(name)
        return {stem: where for stem, where in sorted(found.items()) if len(where) > 1}


def read_house(root: Path = ROOT) -> House:
    """The package under a folder."""
    files = {_name(file, root): file for file in sorted(root.rglob("*.py")) if file.name != "__init__.py"}
    return House({name: _read(name, file, set(files)) for name, file in files.items()})


def _name(file: Path, root: Path) -> str:
    return ".".join(file.relative_to(root).with_suffix("").parts)


def _read(name: str, file: Path, names: set[str]) -> Module:
    text = file.read_text("utf-8")
    tree = ast.parse(text)
    classes = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_"))
    return Module(name, len(text.splitlines()), tuple(_imports(tree, names)), classes)


def _imports(node: ast.AST, names: set[str], lazy: bool = False, typing: bool = False) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            found = [alias.name.removeprefix(f"{PACKAGE}.") for alias in child.names]
        elif isinstance(child, ast.ImportFrom) and (child.module or "").split(".")[0] == PACKAGE:
            base = (child.module or "").removeprefix(PACKAGE).lstrip(".")
            # `from mailbox_appliance.store import files` names a module, `from ...store.files import move` is in one.
            found = [inner if (inner := f"{base}.{alias.name}".lstrip(".")) in names else base for alias in child.names]
        else:
            deeper = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, names, deeper, typing or _is_for_types(child))
            continue
        yield from (Import(each, child.lineno, lazy, typing) for each in sorted(set(found) & names))


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


@dataclass(frozen=True)
class Measure:
    """A figure of the house and the most that it may be."""

    name: str
    value: float
    most: float
    detail: str = ""


def measure(house: House) -> list[Measure]:
    """The figures that the suite holds."""
    longest_file = max(house.modules.values(), key=lambda module: module.lines)
    fullest = max(house.folders, key=lambda folder: house.folders[folder])
    cycles = house.cycles()
    chain = house.longest_chain() if not cycles else []
    twice = house.classes_of_two_modules()
    slices = house.slices()
    return [
        Measure("modules", len(house.modules), 300),
        Measure("modules at the top", house.folders[""], 12),
        Measure("modules a folder, mean", round(len(house.modules) / len(house.folders), 1), 12),
        Measure("modules a folder, most", house.folders[fullest], 26, fullest),
        Measure("lines of a file, most", longest_file.lines, 900, longest_file.name),
        Measure("import cycles, lazy ones too", len(cycles), 0, "; ".join(" ".join(group) for group in cycles)),
        Measure("longest import chain", len(chain), 28, " ".join(chain)),
        Measure("public class names used twice", len(twice), 5, " ".join(twice)),
        Measure(f"modules under {SLICE_LINES} lines with one importer, a neighbor", len(slices), 0, " ".join(slices)),
    ]


def main() -> None:
    measures = measure(read_house())
    for each in measures:
        mark = " " if each.value <= each.most else "!"
        print(f"{mark} {each.name}: {each.value:g} (at most {each.most:g}) {each.detail}".rstrip())
    sys.exit(any(each.value > each.most for each in measures))


if __name__ == "__main__":
    main()
