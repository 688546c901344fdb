"""The files of the browser console: linked into one JavaScript module, minified, and served with a digest in their
path.

The digest of all files is part of each path (`/console/DIGEST/app.js`), so browsers may cache them permanently, and
fetch all of them again after an upgrade. The HTML page, which names the digest, is never cached.
"""

import gzip
import hashlib
import json
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import bottle

from mailbox_appliance.web.http import Response

# --- Linking: the modules as one file, fetched once and compressed to two thirds of their separate sizes ---
#
# Only imports, exports, comments and indentation are rewritten. The sources follow a few rules,
# so no JavaScript parser is needed. Loading the files checks the rules, and so do the tests:
#
# - each import and export is at the start of its line, and only functions, classes and constants are exported
# - imports have no cycles
# - a line break in a string, except in markup, is written as `\n`
# - no string contains ` // ` directly after a bracket, comma or semicolon
#
# Modules that the first one imports run immediately, and their names become global. These must differ from the names of
# the browser, and need no import. Pages run at first use.
#
#     import { get } from "../api.js";     ->   nothing, or in a page: const { rowOf } = $take("pages/rows.js");
#     export function Title() {            ->   function Title() {          ... return { Title };
#     import("./pages/audit.js")           ->   $later("pages/audit.js")


_OWN_SUFFIX, _VENDOR_PREFIX = ".js", "vendor/"
_BLOCK = re.compile(r"^[ \t]*/\*(?:(?!\*/).)*\*/[ \t]*\n", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
_AFTER = re.compile(r"(?<=[;,(){}\[\]]) // [^\"'`\n]*$", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_BLANK = re.compile(r"\n{2,}")
_BROKEN = re.compile(r"^((?:(?! // ).)*)\n(?=<|\$\{)", re.MULTILINE)  # no breaks next to tags in markup
_CAST = re.compile(r"/\*\* @type \{[^*]*\} \*/ ?")
_IMPORT = re.compile(r'^import (?:(\* as \w+|\w+|\{[^}]*\}) from )?"([^"]+)";\n', re.MULTILINE)
_REEXPORT = re.compile(r'^export (\{[^}]*\}) from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (default )?((?:async )?function|class|const) (\w+)", re.MULTILINE)
_LAZY_IMPORT = re.compile(r'\bimport\("([^"]+)"\)')
_LEFT_OVER = re.compile(r"(?:^(?:import|export)\b|\bimport\().{0,60}", re.MULTILINE)

_BUNDLE_TEMPLATE = """\
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


class CannotLink(ValueError):
    """A console module breaks one of the rules that allow `link_modules` to work without a JavaScript parser."""


def link_modules(sources: Mapping[str, str], first: str) -> str:
    """Return the source of one JavaScript module that does the same as the module `first` with everything that it
    imports.

    `sources`: the source texts by path, which may include modules that `first` does not import. Raises CannotLink.
    """
    own = {
        path: text
        for path, text in sources.items()
        if path.endswith(_OWN_SUFFIX) and not path.startswith(_VENDOR_PREFIX)
    }
    uses = {path: [_resolve_path(path, one) for one in _find_imports(text)] for path, text in own.items()}
    _check_imports(own, uses)
    theirs = sorted({one for used in uses.values() for one in used if one.endswith(".mjs")})
    wanted = {path: scripts for path in own if (scripts := _find_scripts(path, uses))}
    begun = _order_modules(first, uses)
    known = _global_names_by_path(own, begun)
    return _BUNDLE_TEMPLATE.format(
        imports="\n".join(f'import * as $v{n} from "./{path}";' for n, path in enumerate(theirs)),
        made=", ".join(f'"{path}": $v{n}' for n, path in enumerate(theirs)),
        wanted=json.dumps(wanted),
        modules="".join(_lazy_module(path, own[path], known) for path in sorted(own) if path not in begun),
        begun="".join(_eager_module(path, own[path], known) for path in begun),
    )


def global_names(sources: Mapping[str, str], first: str) -> set[str]:
    """Return the names that modules in the linked file can use without an import: those of modules that `first` imports
    directly or indirectly.

    `sources`: the source texts by path.
    """
    uses = {path: [_resolve_path(path, one) for one in _find_imports(text)] for path, text in sources.items()}
    return {name for names in _global_names_by_path(sources, _order_modules(first, uses)).values() for name in names}


def _order_modules(first: str, uses: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the modules that `first` imports, directly or indirectly, and `first` last. Each comes after its own
    imports.

    `uses`: the imported paths of each module.
    """
    found: dict[str, None] = {}

    def visit(path: str) -> None:
        if path.startswith(_VENDOR_PREFIX) or path in found:
            return
        for one in uses.get(path, ()):
            visit(one)
        found[path] = None

    visit(first)
    return list(found)


def _global_names_by_path(own: Mapping[str, str], begun: Iterable[str]) -> dict[str, set[str]]:
    """Return the names that become global in the linked file, by path of the module that exports them.

    - An export becomes global if no other of these modules exports the same name.
    - `* as name` becomes global for a module that another one imports as a whole.

    `own`: the sources by path. `begun`: the paths of the modules that are run when the linked file loads.
    """
    given = {path: set(_find_exports(own[path])) for path in begun}
    for path, text in own.items():
        for found in _IMPORT.finditer(strip_source(text)):
            if (place := _resolve_path(path, found[2])) in given and (found[1] or "").startswith("*"):
                given[place].add(found[1])
    often = Counter(name.removeprefix("* as ") for names in given.values() for name in names)
    return {path: {one for one in names if often[one.removeprefix("* as ")] == 1} for path, names in given.items()}


def _find_exports(source: str) -> list[str]:
    text = strip_source(source)
    passed_on = [name for found in _REEXPORT.finditer(text) for name in _NAME.findall(found[1])]
    return [*passed_on, *(found[3] for found in _EXPORT.finditer(text) if not found[1])]


def strip_source(source: str) -> str:
    """Return JavaScript source without type comments, other comments, indentation and empty lines."""
    text = _INDENT.sub("", _CAST.sub("", _AFTER.sub("", _LINE.sub("", _BLOCK.sub("", source)))))
    return _BROKEN.sub(r"\1", _BLANK.sub("\n", text))


def strip_styles(source: str) -> str:
    """Return a CSS style sheet without comments, indentation and line breaks. Its strings must not contain any of
    these.
    """
    return re.sub(r"\s*\n\s*", " ", re.sub(r"/\*.*?\*/", "", source, flags=re.DOTALL))


def _lazy_module(path: str, source: str, known: Mapping[str, set[str]]) -> str:
    text, names = _module_body(path, source, known)
    return f'"{path}": () => {{\n{text}return {{ {", ".join(names)} }};\n}},\n'


def _eager_module(path: str, source: str, known: Mapping[str, set[str]]) -> str:
    text, names = _module_body(path, source, known)
    taken = [name for name in names if name in known[path]]
    given = [f"{{ {', '.join(taken)} }}"] if taken else []
    given += [name.removeprefix("* as ") for name in sorted(known[path]) if name.startswith("*")]
    consts = "".join(f'const {one} = $made["{path}"];\n' for one in given)
    return f'$made["{path}"] = (() => {{\n{text}return {{ {", ".join(names)} }};\n}})();\n{consts}'


def _module_body(path: str, source: str, known: Mapping[str, set[str]]) -> tuple[str, list[str]]:
    """Return the source of a module with its imports and exports rewritten, and the names that it exports.

    `known`: the global names, by module, which need no import.
    """
    names: list[str] = []

    def taken(found: re.Match[str]) -> str:
        what, place = found[1], _resolve_path(path, found[2])
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
        return f'const {found[1]} = $take("{_resolve_path(path, found[2])}");\n'

    def kept(found: re.Match[str]) -> str:
        names.append(f"default: {found[3]}" if found[1] else found[3])
        return f"{found[2]} {found[3]}"

    text = _REEXPORT.sub(passed_on, _IMPORT.sub(taken, strip_source(source)))
    text = _LAZY_IMPORT.sub(lambda found: f'$later("{_resolve_path(path, found[1])}")', _EXPORT.sub(kept, text))
    text = text.replace("import.meta.url", f'new URL("{path}", import.meta.url)')
    if left := _LEFT_OVER.search(text):
        raise CannotLink(f"{path}: {left[0]!r}")
    return text, names


_ENTRY = re.compile(r"\w+(?: as \w+)?")
_NAME = re.compile(r"\w+")


def _find_imports(source: str) -> list[str]:
    text = strip_source(source)
    return [found[2] for pattern in (_IMPORT, _REEXPORT) for found in pattern.finditer(text)]


def _resolve_path(path: str, given: str) -> str:
    return posixpath.normpath(posixpath.join(path, "..", given))


def _find_scripts(path: str, uses: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the third-party scripts that a module needs, directly or indirectly, so that they load when the module
    does.
    """
    found: dict[str, None] = {}
    waiting = [path]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found[here] = None
            waiting += uses.get(here, ())
    return [f"./{one}" for one in found if one.startswith(_VENDOR_PREFIX) and one.endswith(_OWN_SUFFIX)]


def _check_imports(own: Mapping[str, str], uses: Mapping[str, list[str]]) -> None:
    done: set[str] = set()

    def visit(path: str, above: tuple[str, ...]) -> None:
        if path in above:
            raise CannotLink(f"import cycle: {' -> '.join((*above, path))}")
        if path in done or path.startswith(_VENDOR_PREFIX):
            return
        if path not in own:
            raise CannotLink(f"{above[-1]} imports {path}, which does not exist")
        for one in uses[path]:
            visit(one, (*above, path))
        done.add(path)

    for path in own:
        visit(path, ())


# --- Minifying: removing unneeded space, which saves a fortieth of the compressed size ---
#
# Strings, templates and regular expressions stay unchanged. It relies on the formatter: every statement ends with a
# semicolon or a brace, so a line break is equivalent to a space (ECMAScript 12.10).


_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[\w$]+)"""
    r"""|(?P<mark>\+\+|--|[^\s\w$"'])""",
    re.DOTALL,
)
_EXPRESSION = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
#: The text of a template, up to its end or to code within it (ECMAScript 12.9.6).
_TEMPLATE = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(?:`|\$\{)", re.DOTALL)
#: Words after which a slash starts a regular expression, since they are not values.
_NOT_A_VALUE = frozenset({"return", "typeof", "case", "in", "of", "await", "else", "void", "delete", "new", "throw"})
_CLOSING = (")", "]", "}")


def minify_script(source: str) -> str:
    """Return the same JavaScript program without unneeded spaces and without commas before closing brackets."""
    kept: list[str] = []
    last = ""
    for each in _tokens(source):
        if last == "," and each in _CLOSING and kept[-2:-1] not in ([","], ["["]):
            kept.pop()
        if _runs_together(last, each):
            kept.append(" ")
        kept.append(each)
        last = each
    return "".join(kept)


def _runs_together(before: str, after: str) -> bool:
    """Whether two JavaScript tokens would be parsed differently without a space between them."""
    if not before:
        return False
    first, second = before[-1], after[0]
    return (_is_word_character(first) and _is_word_character(second)) or (first == second and first in "+-/")


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character in "_$"


def _tokens(source: str) -> Iterator[str]:
    """Yield the tokens of a JavaScript program without spaces and comments. A template literal is split into its text
    parts and the code between them.
    """
    place, last = 0, ""
    braces: list[int] = []  # open braces in the code of each enclosing template
    while place < len(source):
        found = _next_token(source, place, last)
        each = found[0]
        if braces:
            braces[-1] += (each == "{") - (each == "}")
        if each == "`" or (braces and braces[-1] < 0):
            if each == "}":
                braces.pop()
            each += _text_of_template(source, place + 1)
            if each.endswith("${"):
                braces.append(0)
        place += len(each)
        if found.lastgroup != "space":
            last = each
            yield each


def _next_token(source: str, place: int, last: str) -> re.Match[str]:
    """Return the token at `place`. `last`: the previous token, which decides whether a slash is a division or starts a
    regular expression.
    """
    is_expression = source[place] == "/" and not _is_value(last)
    found = (_EXPRESSION.match(source, place) if is_expression else None) or _TOKEN.match(source, place)
    if found is None:
        raise ValueError(f"not valid JavaScript: {source[place : place + 40]!r}")
    return found


def _text_of_template(source: str, place: int) -> str:
    found = _TEMPLATE.match(source, place)
    if found is None:
        raise ValueError(f"unterminated template: {source[place : place + 40]!r}")
    return found[0]


def _is_value(before: str) -> bool:
    """Whether the token ends a value, so that a slash after it is a division."""
    if not before:
        return False
    return before[-1] in ")]`\"'" or (_is_word_character(before[-1]) and before not in _NOT_A_VALUE)


# --- Serving: small static files, which browsers cache permanently ---


CONSOLE_PREFIX = "/console"
_PAGE_NAME, _FRAME_NAME = "index.html", "frame.html"
_DIGEST_MARK, _PRELOADED_MARK = b"{digest}", b"{preloaded}"  # placeholders in pages
_APP_NAME, _STYLE_NAME, _VENDOR_FOLDER = "app.js", "app.css", "vendor/"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The console builds all content from values in its own code, so nothing is parsed as code or markup (Trusted Types).
# It gets the pictures of a message from the API and shows them as `blob:`.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self';"
    " frame-src 'self'; manifest-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
# The empty page for the message frame. Its policy allows a sender's styles and nothing else: no scripts run in it
# (sandbox), it makes no requests, and only the console can frame it.
_FRAME_POLICY = (
    "sandbox allow-same-origin; default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:;"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
_COMMON_HEADERS = (
    ("Referrer-Policy", "no-referrer"),
    ("X-DNS-Prefetch-Control", "off"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
)
_IMMUTABLE = ("Cache-Control", "public, max-age=31536000, immutable")


@dataclass(frozen=True)
class ConsoleFile:
    """The content of a static file, plain and compressed with gzip."""

    media_type: str
    plain: bytes
    compressed: bytes


@cache
def load_files() -> Mapping[str, ConsoleFile]:
    """Return all files that browsers fetch, by their path after the digest. The console's own modules are one file,
    `app.js`.
    """
    plain = {
        path: place.read_bytes() for path, place in sorted(_walk_folder(files("mailbox_appliance.web") / "console", ""))
    }
    modules = {path: text.decode() for path, text in plain.items() if path.endswith((".js", ".mjs"))}
    single = {path: text for path, text in plain.items() if path.startswith(_VENDOR_FOLDER) or path not in modules}
    ours = {
        _APP_NAME: minify_script(link_modules(modules, _APP_NAME)).encode(),
        _STYLE_NAME: strip_styles(plain[_STYLE_NAME].decode()).encode(),
    }
    return {path: _to_console_file(path, text) for path, text in {**single, **ours}.items()}


@cache
def files_digest() -> str:
    """Return the digest in the paths of console files. It changes in these cases:

    - the path or content of any file changes
    - the page of the frame that shows messages changes
    - the response headers that all files or that page have change
    """
    whole = hashlib.sha256(repr((_FRAME_POLICY, _COMMON_HEADERS)).encode() + _read_source(_FRAME_NAME))
    for path, file in load_files().items():
        whole.update(f"{path}\0{len(file.plain)}\0".encode() + file.plain)
    return whole.hexdigest()[:16]


def serve_page(environ: Mapping[str, Any]) -> Response:
    """Return the HTML page of the console."""
    return _file_response(environ, _load_page(_PAGE_NAME), ("Cache-Control", "no-cache"), _POLICY)


def serve_file(environ: Mapping[str, Any], asked: str, path: str) -> Response:
    """Return the console file at `path`. `asked`: the digest in the URL.

    Raises Bottle's 404 if the file does not exist or the digest is from another release.
    """
    file = load_files().get(path)
    if path == _FRAME_NAME and asked == files_digest():
        return _file_response(environ, _load_page(_FRAME_NAME), _IMMUTABLE, _FRAME_POLICY)
    if file is None or asked != files_digest():
        raise bottle.HTTPError(404)
    return _file_response(environ, file, _IMMUTABLE, "default-src 'none'")


def _file_response(environ: Mapping[str, Any], file: ConsoleFile, caching: tuple[str, str], policy: str) -> Response:
    is_compressed = _takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", ""))
    headers = [caching, ("Content-Security-Policy", policy), ("Vary", "Accept-Encoding"), *_COMMON_HEADERS]
    if is_compressed:
        headers.append(("Content-Encoding", "gzip"))
    body = file.compressed if is_compressed else file.plain
    return Response(200, body, tuple(headers), file.media_type)


def _takes_gzip(accepted: str) -> bool:
    """Whether the client accepts `gzip`. `accepted`: its Accept-Encoding header (RFC 9110 12.5.3)."""
    for one in accepted.lower().split(","):
        coding, _, weight = one.partition(";")
        if coding.strip() == "gzip":
            return weight.strip().removeprefix("q=").strip() not in ("0", "0.", "0.0", "0.00", "0.000")
    return False


@cache
def _load_page(name: str) -> ConsoleFile:
    plain = _read_source(name)
    links = "\n".join(f'<link rel="modulepreload" href="/console/{{digest}}/{path}">' for path in _preload_links())
    return _to_console_file(
        ".html", plain.replace(_PRELOADED_MARK, links.encode()).replace(_DIGEST_MARK, files_digest().encode())
    )


def _read_source(name: str) -> bytes:
    return (files("mailbox_appliance.web") / "console" / name).read_bytes()


def _preload_links() -> list[str]:
    """Return the paths of the files that the page needs first. The page announces them, so that browsers fetch them
    together instead of one after the other.
    """
    return [_APP_NAME, *(path for path in load_files() if path.endswith(".mjs"))]


def _to_console_file(path: str, plain: bytes) -> ConsoleFile:
    return ConsoleFile(_media_type(path), plain, gzip.compress(plain, 9, mtime=0))


def _media_type(path: str) -> str:
    return _TYPES.get(path[path.rindex(".") :], "text/html; charset=utf-8")


def _walk_folder(folder: Traversable, above: str) -> list[tuple[str, Traversable]]:
    found = []
    for place in folder.iterdir():
        if place.is_dir():
            found += _walk_folder(place, f"{above}{place.name}/")
        elif place.name.endswith(tuple(_TYPES)):
            found.append((above + place.name, place))
    return found


# --- The API reference: a page with a viewer of the OpenAPI document. Its files are read when they are asked for ---


# The viewer needs no inline script, style or evaluated code. Its style sheet has pictures as `data:`.
_REFERENCE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
#: The name of each file, and whether its name has a version, so that browsers may keep it.
_REFERENCE_FILES = {
    "index.html": False,
    "docs.css": False,
    "docs.js": False,
    "swagger-ui-5.35.0.css": True,
    "swagger-ui-5.35.0.js": True,
}


def serve_reference(environ: Mapping[str, Any], name: str = "index.html") -> Response:
    """Return the page of the API reference, or one of its files. Raises Bottle's 404 if no file has this name."""
    if name not in _REFERENCE_FILES:
        raise bottle.HTTPError(404)
    folder, is_kept = files("mailbox_appliance.web") / "docs", _REFERENCE_FILES[name]
    if is_kept:  # stored compressed: most browsers get it as it is
        compressed = (folder / f"{name}.gz").read_bytes()
        is_taken = _takes_gzip(environ.get("HTTP_ACCEPT_ENCODING", ""))
        file = ConsoleFile(_media_type(name), b"" if is_taken else gzip.decompress(compressed), compressed)
    else:
        file = _to_console_file(name, (folder / name).read_bytes())
    return _file_response(environ, file, _IMMUTABLE if is_kept else ("Cache-Control", "no-cache"), _REFERENCE_POLICY)
