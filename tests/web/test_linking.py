"""The console's modules linked into one: it does what the modules do, and modules that cannot be linked are
reported.
"""

import subprocess
from pathlib import Path

import pytest

from mailbox_appliance.web import console_files
from mailbox_appliance.web.console_files import CannotLink, link_modules, strip_source, strip_styles

CONSOLE = Path(console_files.__file__).parent / "console"
NODE = Path(__file__).parents[2] / ".venv/bin/node"
THEIRS = {"vendor/lib.mjs": "export const h = 1;", "vendor/big.js": "globalThis.big = 'big';"}
APP = """\
// @ts-check
/** What it is about,
 * on two lines. */
import { twice, Box as Case } from "./lib/twice.js";
import * as all from "./lib/twice.js";
import { NAME as OTHER, only } from "./lib/other.js";
import { h } from "./vendor/lib.mjs";

const text = `a // b /* c */ ${1}`; // stays
globalThis.now = [twice(2), new Case(3).held, all.NAME, OTHER, only(), h, text, globalThis.big ?? "not yet"];
globalThis.after = (async () => {
  const page = await import("./page.js");
  return [page.default(), globalThis.big];
})();
"""
TWICE = """\
/** @type {number} */
export const FACTOR = /** @type {any} */ (2);
export const NAME = "twice";
export function twice(value) {
  return FACTOR * value;
}
export class Box {
  constructor(held) {
    this.held = held;
  }
}
"""
OTHER = """\
export const NAME = "other"; // as another module calls one of its own
export function only() {
  return "known"; // of one
}
"""
PAGE = """\
import "./vendor/big.js";
import * as all from "./lib/twice.js";
import {
  twice,
} from "./lib/twice.js";
import { NAME, only } from "./lib/other.js";

export default function Page() {
  return inner() + twice(4);
}

export function inner() {
  return `page ${all.FACTOR} ${NAME} ${only()} `;
}
"""


def test_what_is_linked_does_what_its_modules_do(tmp_path: Path) -> None:
    modules = {"app.js": APP, "lib/twice.js": TWICE, "lib/other.js": OTHER, "page.js": PAGE, **THEIRS}
    (tmp_path / "vendor").mkdir()
    (tmp_path / "package.json").write_text('{"type": "module"}')
    for path, text in {**THEIRS, "app.js": link_modules(modules, "app.js")}.items():
        (tmp_path / path).write_text(text)
    program = 'await import("./app.js"); console.log(JSON.stringify([globalThis.now, await globalThis.after]))'
    (tmp_path / "run.js").write_text(program)
    done = subprocess.run([NODE, "run.js"], cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (
        done.stdout == '[[4,3,"twice","other","known",1,"a // b /* c */ 1","not yet"],["page 2 other known 8","big"]]\n'
    ), done.stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("export let count = 0;\n", "export let"),
        ("const a = 1;\nexport { a };\n", "export {"),
        ("  import('./x.js');\n", "import("),
        ('import { a } from "./nowhere.js";\n', "nowhere"),
        ('import { a } from "./page.js";\n', "cycle"),
    ],
)
def test_what_cannot_be_linked_is_told(text: str, told: str) -> None:
    page = 'import "./app.js";\nexport const a = 1;\n'
    with pytest.raises(CannotLink, match=told.replace("(", r"\(")):
        link_modules({"app.js": text, "page.js": page}, "app.js")


def test_the_console_itself_is_linked_and_is_a_module(tmp_path: Path) -> None:
    app = tmp_path / "app.mjs"
    app.write_bytes(console_files.load_files()["app.js"].plain)
    done = subprocess.run([NODE, "--check", app], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr


def test_comments_types_and_indentation_are_taken_out() -> None:
    for path in sorted(CONSOLE.rglob("*.js")):
        if "vendor" not in path.parts:
            left = strip_source(path.read_text("utf-8"))
            for gone in ("@param", "@typedef", "@type", "// @ts-check", "\n  "):
                assert gone not in left, path


def test_a_style_sheet_is_sent_in_one_line_without_its_comments() -> None:
    sheet = "/* Rows,\n * and more. */\n.row {\n  left: 0;\n}\n@media (width) {\n  .row::after {\n    top: 0;\n  }\n}\n"
    assert strip_styles(sheet).strip() == ".row { left: 0; } @media (width) { .row::after { top: 0; } }"
