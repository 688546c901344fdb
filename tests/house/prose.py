"""Measure the language of the project: terms, lengths of sentences, and the form of summaries.

    scripts/measure-prose [PATH...]     findings in these files or folders (default: everything), then the figures

Read are Markdown pages, strings, docstrings and comments of Python, and strings and comments of the console's
JavaScript. Code, examples and names in backticks are no prose and are left out.
"""

import argparse
import ast
import io
import re
import sys
import textwrap
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mailbox_appliance"
#: Words that a page, a paragraph and one sentence may have, and what nine of ten sentences of a surface may have.
LONGEST_PAGE, LONGEST_PARAGRAPH, LONGEST_SENTENCE, NINE_OF_TEN = 1_500, 80, 40, 25

#: A term that is not used, as a pattern, and what to write instead.
TERMS: dict[str, str] = {
    r"log-ins?|log(s|ged|ging)? in|getting in|let(s|ting)? in": "sign in, session",
    r"hand(s|ed|ing)?[- ](over|in)|handovers?": "submit; accepted by the mail server",
    r"doubt\w*": "uncertain, unknown",
    r"set-up": "setup (noun), set up (verb)",
    r"take(s|n)? up|took up|taking up": "accept, reload",
    r"good (once|for \d+|for (a|an|one|ten)) ?\w*": "single-use; expires after ...",
    r"(out of|within) (its |your |their )?reach": "no access, unavailable",
    r"from elsewhere": "remote, from another computer",
    r"by HTTPS": "over HTTPS",
    r"(offers?|offered|offering) HTTPS|HTTPS is (not )?offered": "HTTPS is on; enable HTTPS",
    r"vouch\w*": "is trusted by, self-signed",
    r"assistants?": "AI agent; MCP client",
    r"beside the clock": "tray icon",
    r"lives? again|comes? to rest|came to nothing|comes? to nothing": "a literal description",
    r"faults? of (ours|its own|the appliance)|own faults?": "internal error",
    r"mend(s|ed|ing)?": "fix",
    r"anew|for good|besides|meanwhile": "again; permanently; also; until then",
    r"told|tells|telling": "report, show, return, warn",
    r"said|says": "report, state, mean",
    r"look(s|ed|ing)? whether|(is|are|was|were|be) looked (for|at|after)": "check, search",
    r"whoever|whom|whomever": "a plain subject",
    r"go(es)? on|went on|going on|goes by itself": "continue",
    r"belie(ve|ves|ved|ving)": "trust, accept",
    r"in step": "synced",
    r"(is|are) (called|taken) back|(call|take)s? (it|them) back|(call|take)(s|n)? back": "cancel",
    r"at odds": "conflicts with",
    r"to be had": "available",
    r"(?<!there )(is|are|was|were) no (?!longer|more\b|other|one\b)\w+": "is not a ...",
    r"doors?|floors?|errands?|chores?": "interface, layer, task",
    r"rooms?": "disk space, memory, package",
    r"heeds?|heeded": "obey, handle",
    r"licence[sd]?|colour(s|ed)?|behaviours?|honour(s|ed)?|favourites?|cancell(ed|ing)|"
    r"(?:organ|recogn|author|initial|normal|serial|synchron|summar|optim)is(?:e|es|ed|ing|ation|ations)": "US spelling",
}
_TERM = {re.compile(rf"(?<![\w@./-])(?:{pattern})(?![\w-])", re.IGNORECASE): say for pattern, say in TERMS.items()}
_OPENER = re.compile(r"(What|Who|Whom|Whose|Where|Which|That|How|When|Why|Those|Whatever|Of|As)\b")
_CODE = re.compile(r"(`+)[^`].*?\1|<[^>\s][^>]*>|https?://\S+|\b[\w.-]+@[\w.-]+", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
#: A row of a table or diagram, an item of a list, or a heading, which is no part of the sentence beside it.
_ROW = re.compile(r"^\s{2,}\S|\S {3,}\S| \.{2,} |^\s*([-*]|\d+\.) |^--- |->")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*_A-Z0-9`x])|\n\s*\n")
_NO_PROSE = re.compile(r"\b(SELECT|INSERT|UPDATE \w+ SET|DELETE FROM|CREATE (TABLE|INDEX|TRIGGER)|PRAGMA)\b")
_PROSE = re.compile(r"[A-Za-z]{2,},? [a-z]{2,},? [a-z]{2,}")
_JS_TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`""", re.DOTALL)
#: The sample mail of the demo, whose senders write as people do.
_SAMPLES = PACKAGE / "demo" / "mail.py"
#: Data in strings: names of colors, and patterns that match the texts of mail servers.
_NO_TEXT = re.compile(r"aliceblue|\(via\|with\|through\)")


@dataclass(frozen=True)
class Prose:
    """A piece of text and its place; `surface` is docs, text (strings), docstring, comment or console."""

    file: Path
    line: int
    surface: str
    text: str

    def sentences(self) -> Iterator[str]:
        """Yield the sentences, names in backticks as `x`."""
        lines = (f"\n\n{line}\n\n" if _ROW.search(line) else line for line in self.text.split("\n"))
        plain = _CODE.sub("x", _LINK.sub(r"\1", "\n".join(lines)))
        yield from (one.strip() for one in _SENTENCE_END.split(plain) if one and one.strip())


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule."""

    prose: Prose
    rule: str

    def __str__(self) -> str:
        name = self.prose.file.relative_to(ROOT) if self.prose.file.is_relative_to(ROOT) else self.prose.file
        return f"{name}:{self.prose.line}: {self.rule}"


def count_words(text: str) -> int:
    """Count the words of a text; signs that stand alone are none."""
    return sum(1 for word in text.split() if re.search(r"\w", word))


def read_page(file: Path) -> Iterator[Prose]:
    """Yield headings, paragraphs, list items and table cells of a Markdown page."""
    block: list[str] = []
    start, fence = 1, ""
    text = re.sub(r"<!--.*?-->", lambda found: "\n" * found[0].count("\n"), file.read_text(), flags=re.DOTALL)
    for number, line in enumerate([*text.splitlines(), ""], 1):
        bare = line.strip()
        mark = re.match(r"(`{3,}|~{3,})", bare)
        if fence or mark:
            fence = "" if fence and bare == fence else fence or (mark[1] if mark else "")
            bare = ""
        starts_new = not bare or re.match(r"([-*+]|\d+\.|>|#+|\|)(\s|$)", bare) or bare.startswith("|")
        if starts_new and block:
            yield Prose(file, start, "docs", " ".join(block))
            block = []
        if bare.startswith("|"):
            yield from (Prose(file, number, "docs", cell.strip()) for cell in bare.split("|") if cell.strip(" -:"))
        elif bare:
            if not block:
                start = number
            block.append(re.sub(r"^([-*+]|\d+\.|>|#+)\s+", "", bare))


def read_python(file: Path) -> Iterator[Prose]:
    """Yield docstrings, comments and the strings that people may read."""
    source = file.read_text()
    docstrings, inner = set(), set()
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                docstrings.add(node.body[0].value)  # type: ignore[attr-defined]
                yield Prose(file, node.body[0].lineno, "docstring", text)
        elif isinstance(node, ast.JoinedStr):
            inner.update(node.values)
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "`x`" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {node} & (docstrings | inner):
            text = node.value
        if _PROSE.search(text) and not _NO_PROSE.search(text) and not _NO_TEXT.search(text):
            yield Prose(file, node.lineno, "text", text)  # type: ignore[attr-defined]
    yield from _read_comments(file, source)


def _read_comments(file: Path, source: str) -> Iterator[Prose]:
    block: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(noqa|type:|fmt:|pragma|!)", token.string):
            continue
        follows = block and token.start == (block[-1].start[0] + 1, block[-1].start[1])
        if block and not follows:
            yield _comment(file, block)
            block = []
        block.append(token)
    if block:
        yield _comment(file, block)


def _comment(file: Path, block: list[tokenize.TokenInfo]) -> Prose:
    text = "\n".join(token.string[1:].lstrip(":") for token in block)
    return Prose(file, block[0].start[0], "comment", textwrap.dedent(text))


def read_script(file: Path) -> Iterator[Prose]:
    """Yield comments and strings of a JavaScript module of the console."""
    source = file.read_text()
    for found in _JS_TEXT.finditer(source):
        text, is_comment = found[0], found[0][:2] in ("//", "/*")
        if is_comment:
            text = re.sub(r"@\w+ \{[^}]*\}( \w+)?|^\s*\*+/?|^//|/\*+", "", text, flags=re.MULTILINE)
        else:
            text = re.sub(r"\$\{[^}]*\}", "`x`", text[1:-1])
        if _PROSE.search(text):
            line = source.count("\n", 0, found.start()) + 1
            yield Prose(file, line, "comment" if is_comment else "console", text)


def read_all(paths: Iterable[Path]) -> Iterator[Prose]:
    """Yield all prose in files and folders."""
    readers = {".md": read_page, ".py": read_python, ".js": read_script}
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            name = file.as_posix()
            if file.suffix in readers and "vendor" not in name and file != _SAMPLES:
                yield from readers[file.suffix](file)


def find(prose: Prose) -> Iterator[Finding]:
    """Yield what breaks a rule in one piece of text."""
    for sentence in prose.sentences():
        for term, say in _TERM.items():
            for found in term.finditer(sentence):
                yield Finding(prose, f"{prose.surface}: '{found[0]}' -> {say}: {sentence[:110]}")
        if (words := count_words(sentence)) > LONGEST_SENTENCE:
            yield Finding(prose, f"{prose.surface}: a sentence of {words} words: {sentence[:110]}")
    if prose.surface == "docstring" and (opener := _OPENER.match(prose.text)):
        yield Finding(prose, f"docstring: opens with '{opener[0]}': {prose.text[:110]}")
    if prose.surface == "docs" and (words := count_words(prose.text)) > LONGEST_PARAGRAPH:
        yield Finding(prose, f"docs: a paragraph of {words} words: {prose.text[:110]}")


def nine_of_ten(all_prose: Iterable[Prose]) -> dict[str, int]:
    """Return for each surface the words that nine of ten of its sentences have at most."""
    lengths: dict[str, list[int]] = defaultdict(list)
    for prose in all_prose:
        lengths[prose.surface] += [count for one in prose.sentences() if (count := count_words(one)) > 2]
    return {surface: sorted(counts)[int(len(counts) * 0.9)] for surface, counts in sorted(lengths.items())}


def long_pages(all_prose: Iterable[Prose]) -> dict[Path, int]:
    """Return the pages with more than LONGEST_PAGE words, and how many each has. Code blocks are not counted."""
    pages: dict[Path, int] = defaultdict(int)
    for prose in all_prose:
        if prose.surface == "docs":
            pages[prose.file] += count_words(prose.text)
    return {page: words for page, words in sorted(pages.items()) if words > LONGEST_PAGE}


def default_paths() -> list[Path]:
    """Return what the suite reads: the pages of the root, the docs, the packages' notes and the package."""
    return [*sorted(ROOT.glob("*.md")), ROOT / "docs", ROOT / "packaging", PACKAGE]


def main() -> int:
    """Print findings and figures; the exit code is 1 if there are findings."""
    parser = argparse.ArgumentParser(
        prog="scripts/measure-prose", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--figures", action="store_true", help="print the figures alone")
    given = parser.parse_args()
    all_prose = list(read_all([path.resolve() for path in given.paths] or default_paths()))
    findings = [] if given.figures else [finding for prose in all_prose for finding in find(prose)]
    lines = [
        *map(str, findings),
        *(f"{name}: 9 of 10 sentences have at most {words} words" for name, words in nine_of_ten(all_prose).items()),
        *(f"{page}: {words} words" for page, words in long_pages(all_prose).items()),
        f"{len(findings)} findings",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
