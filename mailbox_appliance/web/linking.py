"""The console's modules as one file: asked for once, and together they compress to two thirds of what they weigh alone.

Nothing is rewritten but what makes them modules: imports, exports, comments, and the space that lines begin with. Their
source obeys a few rules, so that this needs no parser of JavaScript: each import and export begins its line; what is
exported is a function, a class or a constant; imports make no circle (whoever breaks one of these is told when the
files are read, which the tests do); a line break in a text, but for markup, is written as `\\n`; and ` // ` stands in
no text right after a bracket, comma or semicolon. What the first module needs is made at once, and its names are known
everywhere: they need no import, and are none of the browser's own. Pages are made when they are first wanted.

    import { get } from "../api.js";     ->   nothing, or in a page: const { rowOf } = $take("pages/rows.js");
    export function Title() {            ->   function Title() {          ... return { Title };
    import("./pages/audit.js")           ->   $later("pages/audit.js")
"""

import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping

_OWN, _THEIRS = ".js", "vendor/"
_BLOCK = re.compile(r"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
_AFTER = re.compile(r"(?<=[;,(){}\[\]]) // [^\"'`\n]*$", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_BLANK = re.compile(r"\n{2,}")
_BROKEN = re.compile(r"^((?:(?! // ).)*)\n(?=<|\$\{)", re.MULTILINE)  # markup has no breaks beside tags
_CAST = re.compile(r"/\*\* @type \{[^*]*\} \*/ ?")
_IMPORT = re.compile(r'^import (?:(\* as \w+|\w+|\{[^}]*\}) from )?"([^"]+)";\n', re.MULTILINE)
_PASSED_ON = re.compile(r'^export (\{[^}]*\}) from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (default )?((?:async )?function|class|const) (\w+)", re.MULTILINE)
_LATER = re.compile(r'\bimport\("([^"]+)"\)')
_LEFT = re.compile(r"(?:^(?:import|export)\b|\bimport\().{0,60}", re.MULTILINE)

_BEGINNING = """\
{imports}
const $made = {{{made}}};
const $wanted = {wanted};
const $take = (path) => ($made[path] ??= $modules[path]());
const $later = async (path) => {{
  await Promise.all(($wanted[path] ?? []).map((one) => import(one)));
  return $take(path);
}};
const $modules = {{
{modules}}};
export {{ $take as take }};
{begun}"""


class NotLinked(ValueError):
    """A module is written in a way that is not understood here."""


def linked(sources: Mapping[str, str], first: str) -> str:
    """One module that does what `first` does with all that it imports; `sources`: path -> text, those of others too."""
    own = {path: text for path, text in sources.items() if path.endswith(_OWN) and not path.startswith(_THEIRS)}
    uses = {path: [_resolved(path, one) for one in _imported(text)] for path, text in own.items()}
    _check(own, uses)
    theirs = sorted({one for used in uses.values() for one in used if one.endswith(".mjs")})
    wanted = {path: scripts for path in own if (scripts := _scripts(path, uses))}
    begun = _needed(first, uses)
    known = _known(own, begun)
    return _BEGINNING.format(
        imports="\n".join(f'import * as $v{n} from "./{path}";' for n, path in enumerate(theirs)),
        made=", ".join(f'"{path}": $v{n}' for n, path in enumerate(theirs)),
        wanted=json.dumps(wanted),
        modules="".join(_later(path, own[path], known) for path in sorted(own) if path not in begun),
        begun="".join(_begun(path, own[path], known) for path in begun),
    )


def known_everywhere(sources: Mapping[str, str], first: str) -> set[str]:
    """The names that need no import once all is linked."""
    uses = {path: [_resolved(path, one) for one in _imported(text)] for path, text in sources.items()}
    return {name for names in _known(sources, _needed(first, uses)).values() for name in names}


def _needed(first: str, uses: Mapping[str, Iterable[str]]) -> list[str]:
    """Modules of ours that the first one needs, directly or not, each after those that it needs itself."""
    found: dict[str, None] = {}

    def visit(path: str) -> None:
        if path.startswith(_THEIRS) or path in found:
            return
        for one in uses.get(path, ()):
            visit(one)
        found[path] = None

    visit(first)
    return list(found)


def _known(own: Mapping[str, str], begun: Iterable[str]) -> dict[str, set[str]]:
    """By path, what is known everywhere: what these export under a name that no other of them has, `* as name` too."""
    given = {path: set(_exported(own[path])) for path in begun}
    for path, text in own.items():
        for found in _IMPORT.finditer(stripped(text)):
            if (place := _resolved(path, found[2])) in given and (found[1] or "").startswith("*"):
                given[place].add(found[1])
    often = Counter(name.removeprefix("* as ") for names in given.values() for name in names)
    return {path: {one for one in names if often[one.removeprefix("* as ")] == 1} for path, names in given.items()}


def _exported(source: str) -> list[str]:
    text = stripped(source)
    passed_on = [name for found in _PASSED_ON.finditer(text) for name in _NAME.findall(found[1])]
    return [*passed_on, *(found[3] for found in _EXPORT.finditer(text) if not found[1])]


def stripped(source: str) -> str:
    """The source without types, comments (lines, or ends of lines), the space that lines begin with, empty lines."""
    text = _INDENT.sub("", _CAST.sub("", _AFTER.sub("", _LINE.sub("", _BLOCK.sub("", source)))))
    return _BROKEN.sub(r"\1", _BLANK.sub("\n", text))


def styled(source: str) -> str:
    """A style sheet without comments, indentation and line breaks; no text in it has any of them."""
    return re.sub(r"\s*\n\s*", " ", re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL))


def _later(path: str, source: str, known: Mapping[str, set[str]]) -> str:
    text, names = _made(path, source, known)
    return f'"{path}": () => {{\n{text}return {{ {", ".join(names)} }};\n}},\n'


def _begun(path: str, source: str, known: Mapping[str, set[str]]) -> str:
    text, names = _made(path, source, known)
    taken = [name for name in names if name in known[path]]
    given = [f"{{ {', '.join(taken)} }}"] if taken else []
    given += [name.removeprefix("* as ") for name in sorted(known[path]) if name.startswith("*")]
    consts = "".join(f'const {one} = $made["{path}"];\n' for one in given)
    return f'$made["{path}"] = (() => {{\n{text}return {{ {", ".join(names)} }};\n}})();\n{consts}'


def _made(path: str, source: str, known: Mapping[str, set[str]]) -> tuple[str, list[str]]:
    """What makes a module, and the names that it exports."""
    names: list[str] = []

    def taken(found: re.Match[str]) -> str:
        what, place = found[1], _resolved(path, found[2])
        if what is None or what in known.get(place, ()):
            return ""
        if what.startswith("{"):
            left = [one for one in _ENTRY.findall(what) if one not in known.get(place, ())]
            if not left:
                return ""
            what = f"{{ {', '.join(left)} }}"
        if not what.startswith(("*", "{")):
            what = f"{{ default: {what} }}"
        return f'const {what.removeprefix("* as ").replace(" as ", ": ")} = $take("{place}");\n'

    def passed_on(found: re.Match[str]) -> str:
        names.extend(_NAME.findall(found[1]))
        return f'const {found[1]} = $take("{_resolved(path, found[2])}");\n'

    def kept(found: re.Match[str]) -> str:
        names.append(f"default: {found[3]}" if found[1] else found[3])
        return f"{found[2]} {found[3]}"

    text = _PASSED_ON.sub(passed_on, _IMPORT.sub(taken, stripped(source)))
    text = _LATER.sub(lambda found: f'$later("{_resolved(path, found[1])}")', _EXPORT.sub(kept, text))
    text = text.replace("import.meta.url", f'new URL("{path}", import.meta.url)')
    if left := _LEFT.search(text):
        raise NotLinked(f"{path}: {left[0]!r}")
    return text, names


_ENTRY = re.compile(r"\w+(?: as \w+)?")
_NAME = re.compile(r"\w+")


def _imported(source: str) -> list[str]:
    text = stripped(source)
    return [found[2] for pattern in (_IMPORT, _PASSED_ON) for found in pattern.finditer(text)]


def _resolved(path: str, given: str) -> str:
    return posixpath.normpath(posixpath.join(path, "..", given))


def _scripts(path: str, uses: Mapping[str, Iterable[str]]) -> list[str]:
    """The scripts of others that a module needs, directly or not, and that are loaded only with it."""
    found: dict[str, None] = {}
    waiting = [path]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found[here] = None
            waiting += uses.get(here, ())
    return [f"./{one}" for one in found if one.startswith(_THEIRS) and one.endswith(_OWN)]


def _check(own: Mapping[str, str], uses: Mapping[str, list[str]]) -> None:
    done: set[str] = set()

    def visit(path: str, above: tuple[str, ...]) -> None:
        if path in above:
            raise NotLinked(f"a circle of imports: {' -> '.join((*above, path))}")
        if path in done or path.startswith(_THEIRS):
            return
        if path not in own:
            raise NotLinked(f"{above[-1]} imports {path}, which is not there")
        for one in uses[path]:
            visit(one, (*above, path))
        done.add(path)

    for path in own:
        visit(path, ())
