"""Random pages of elements and styles as in mail, with a distinguishable word in each place."""

import random
from dataclasses import dataclass, field

_STYLES = """
display:none
display:block
display:inline
display:inline-block
display:none !important
display:block!important
visibility:hidden
visibility:visible
visibility:collapse
opacity:0
opacity:.5
opacity:1
font-size:0
font-size:0;line-height:0
font-size:1px
font-size:14px
font-size:1em
font-size:2em
font-size:150%
font:12px serif
font:0/0 serif
line-height:0
color:white
color:black
color:red
color:#fefefe
color:#777
color:rgb(0,0,0)
color:hsl(0,100%,50%)
color:inherit
color:transparent
color:white!important
background:none
background:white
background:black
background:#000
background:#eee
background-color:red
background-color:transparent
overflow:hidden
height:0
height:0;overflow:hidden
height:1px;overflow:hidden
max-height:0;overflow:hidden
width:0;overflow:hidden
max-width:0
position:absolute;left:-9999px
position:absolute;top:-9999px
position:static;left:-9999px
position:relative
text-indent:-9999px
text-indent:-9999px;overflow:hidden;display:block
text-indent:0
margin-left:-9999px
clip-path:inset(100%)
transform:scale(0)
float:left
white-space:nowrap
"""
STYLES = tuple(filter(None, _STYLES.split("\n")))
_SELECTORS = (".a", ".b", "#i", "div", "p", "span", ".a .b", "div > p", ".a,.b", "p.a", "[data-x]", "b", "td", "*")
_MEDIA = ("screen", "print", "(max-width:10px)", "all", "only screen and (min-width:5px)")
_TAGS = ("div", "div", "p", "span", "span", "b", "table", "font", "ul", "h2", "center", "a", "section")
_CELLS = ("", " bgcolor=#000000", " style=color:white", " style=display:none")
_ROWS = ("", "", " style=display:none", " bgcolor=black")


@dataclass
class RandomPage:
    """A page; its words are `Word1x`, `Word2x` and so on."""

    seed: int
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    def text(self) -> str:
        """Return the page; call it once."""
        chance = self._chance
        body = "\n".join(self._node(chance.choice((2, 3))) for _ in range(4))
        rules = "".join(
            f"{chance.choice(_SELECTORS)}{{{self._styles(chance.choice((1, 2)))}}} " for _ in range(chance.randrange(3))
        )
        if rules and chance.random() < 0.3:
            rules = f"@media {chance.choice(_MEDIA)}{{{rules}}}"
        kind = "" if chance.random() < 0.2 else "<!DOCTYPE html>"
        return f"{kind}<html><head><style>{rules}</style></head><body>{body}</body></html>"

    def _node(self, depth: int) -> str:
        if depth == 0 or self._chance.random() < 0.2:
            self.words.append(f"Word{len(self.words) + 1}x")
            return self.words[-1] + " "
        tag = self._chance.choice(_TAGS)
        attributes = self._attributes(tag)
        if tag == "table":
            rows = f"<tr>{self._cell(depth)}{self._cell(depth)}</tr>"
            return f"<table{attributes}>{rows}<tr{self._chance.choice(_ROWS)}>{self._cell(depth)}</tr></table>"
        if tag == "ul":
            hidden = self._chance.choice(("", " hidden"))
            return f"<ul{attributes}><li>{self._node(depth - 1)}<li{hidden}>{self._node(depth - 1)}</ul>"
        is_left_open = tag == "p" and self._chance.random() < 0.3
        return f"<{tag}{attributes}>{self._inside(depth)}{'' if is_left_open else f'</{tag}>'}"

    def _inside(self, depth: int) -> str:
        return "".join(self._node(depth - 1) for _ in range(self._chance.randint(1, 2)))

    def _cell(self, depth: int) -> str:
        return f"<td{self._chance.choice(_CELLS)}>{self._inside(depth)}</td>"

    def _attributes(self, tag: str) -> str:
        chance = self._chance
        found = [f'style="{self._styles(chance.choice((1, 1, 1, 2, 2, 3)))}"'] if chance.random() < 0.6 else []
        found += [f'class="{chance.choice(("a", "b", "a b", "c"))}"'] if chance.random() < 0.25 else []
        found += [mark for mark in ("id=i", "data-x", "hidden") if chance.random() < 0.05]
        if tag == "table" and chance.random() < 0.7:
            found.append(f"bgcolor={chance.choice(('black', 'white', '#ff0000'))}")
        if tag == "font":
            found.append(f"color={chance.choice(('white', 'black', 'red', '#fff'))}")
        if tag == "a":
            found.append('href="https://x.example/"')
        return "".join(f" {each}" for each in found)

    def _styles(self, count: int) -> str:
        return ";".join(self._chance.sample(STYLES, count))
