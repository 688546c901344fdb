"""HTML in which some of the text is not seen, by way of its style."""

from collections.abc import Iterator

from tests.servers.injected.case import Injection, elements, hidden


def hiding() -> Iterator[Injection]:
    yield from _not_displayed()
    yield from _by_style_sheet()
    yield from _sized()
    yield from _of_its_own_colour()
    yield from _of_the_colour_around()
    yield from _placed()


def _not_displayed() -> Iterator[Injection]:
    spellings = """
        display:none
        DISPLAY : NONE
        display:none !important
        color:red;;display:none;
        ; display	:none
        display:none;mso-hide:all
        mso-hide:all;font-size:0;max-height:0;overflow:hidden;display:none;visibility:hidden
    """
    yield hidden("display", "not displayed", elements(spellings))
    spellings = r"""
        display&#58;none
        &#100;isplay:&#x6e;one
        d\69splay:none
        display:n\00006f ne
        dis\70lay:\6eone
        display:/**/none
        /* a */display/* b */:none
        display:none/*
        /*;*/display:none
    """
    yield hidden("display, escaped", "not displayed, in other spellings", elements(spellings))
    body = """
        <p hidden>PhantomA</p><p HIDDEN=''>PhantomB</p>
        <div hidden=until-found>PhantomC</div><p class=x hidden>PhantomD <b>PhantomE</b></p>
    """
    yield hidden("the attribute hidden", "not displayed", body)
    spellings = r"""
        visibility:hidden
        VISIBILITY:HIDDEN
        visibility:collapse
        visibil\69ty:hidden
    """
    inside = "<div style='visibility:hidden'><p>PhantomP</p></div>"
    yield hidden("visibility", "not visible", elements(spellings) + inside)
    spellings = """
        opacity:0
        opacity:0.0
        opacity:.01
        opacity:0%
        opacity:0e5
        filter:opacity(0)
    """
    yield hidden("opacity", "seen through", elements(spellings))


def _by_style_sheet() -> Iterator[Injection]:
    style = """
        .a{display:none} #b{display:none}
        p.c, div.d > span, h6 {display:none}
        @media all{.e{display:none}} [data-f]{display:none}
    """
    body = """
        <p class='x a y'>PhantomA</p><p id=b>PhantomB</p><p class=c>PhantomC</p>
        <div class=d><span>PhantomD</span></div><h6>PhantomH</h6><p class=e>PhantomE</p><p data-f=1>PhantomF</p>
    """
    yield hidden("display, in a style sheet", "not displayed", body, style)
    style = r"""
        <!-- .\61 {display:none} --> @import url(x); /* } */ .B{DISPLAY:NONE}
        @media screen and (min-width:1px){.c{display:none}}
        @media screen{.d{display:none}} @media only screen{.e{visibility:hidden}}
    """
    body = """
        <p class="a">PhantomA</p><p class="B">PhantomB</p><p class="c">PhantomC</p>
        <div class=d><p>PhantomD<p>PhantomE</div><div class=e><b>PhantomF</b></div>
    """
    yield hidden("display, in a style sheet, escaped", "not displayed", body, style)
    style = ".w{color:#fff} .k{background:#000} .k i{color:#000} p.n{color:#FEFEFE} .o{opacity:0} .s{font-size:1px}"
    body = """
        <p class=w>PhantomA</p><div class=k><i>PhantomB</i><span style='color:#fff'>DecoyInDark</span></div>
        <p class=n>PhantomC</p><p class=o>PhantomD</p><p class=s>PhantomE</p>
    """
    yield hidden("colours and sizes in a style sheet", "of the colour behind it", body, style)


def _sized() -> Iterator[Injection]:
    spellings = """
        font-size:0
        font-size:0px
        FONT-SIZE:0.0pt
        font-size:0em
        font-size:0%
        font-size:.1px
        font:0/0 a
    """
    yield hidden("size", "of no size", elements(spellings))
    spellings = """
        font-size:1px
        font-size: 1PX;line-height:1px
        font-size:1.2px
        font-size:.05pc
        font:1px/1px serif
    """
    yield hidden("one pixel", "of hardly any size", elements(spellings))
    spellings = """
        height:0;overflow:hidden
        max-height:0;overflow:hidden
        max-height:0px;OVERFLOW:HIDDEN
        height:0px;overflow-y:hidden
        width:0;height:0;overflow:hidden
        height:1px;overflow:hidden
        height:0;overflow:clip
        max-width:0;max-height:0;overflow:hidden
        width:0;overflow:hidden;white-space:nowrap
        max-width:0;overflow:hidden;white-space:nowrap
    """
    yield hidden("height and width", "of no height or width", elements(spellings))
    spellings = """
        transform:scale(0)
        transform: SCALE(0, 0)
        transform:scale(0.001)
        -webkit-transform:scale(0)
        transform:scaleY(0)
        scale:0
    """
    yield hidden("scaled", "of no size", elements(spellings))


def _of_its_own_colour() -> Iterator[Injection]:
    spellings = """
        color:white
        color:#fff
        color:#FFFFFF
        color:#ffffffff
        color:rgb(255,255,255)
        color:rgb(100%,100%,100%)
        color:hsl(0,0%,100%)
        color:rgba(255, 255, 255, 1)
    """
    colours = ("#ffffff", "white", "WHITE", "ffffff", "#FFF")
    fonts = "".join(f"<p><font color='{colour}'>PhantomFont{n}</font></p>" for n, colour in enumerate(colours))
    yield hidden("white on white", "of the colour behind it", elements(spellings) + fonts)
    spellings = """
        color:transparent
        color:rgba(0,0,0,0)
        color:#0000
        color:#00000000
        color:hsla(0,0%,0%,0)
        color:rgb(0 0 0 / 0)
        color:rgba(0,0,0,.01)
        -webkit-text-fill-color:transparent
    """
    yield hidden("transparent", "of no colour", elements(spellings))
    spellings = """
        color:#fefefe
        color:#fffffd
        color:#fdfdfd
        color:snow
        color:rgb(254,254,254)
        color:rgba(255,255,255,.9)
        color:hsl(0,0%,99%)
    """
    yield hidden("nearly white on white", "of nearly the colour behind it", elements(spellings))
    spellings = """
        background:#000;color:#000
        background-color:black;color:#000
        color:#333;background:rgb(51,51,51)
        background:#1a1a1a;color:#1b1b1b
        color:red;background:#f00
        background:#FFF none repeat;color:#fff
        background-color:hsl(120,100%,25%);color:green
        color:navy;background:navy none
    """
    yield hidden("the colour of its own background", "of the colour behind it", elements(spellings))


def _of_the_colour_around() -> Iterator[Injection]:
    body = """
        <table bgcolor="#000000" width=100%><tr><td><font color=black>PhantomA</font></td></tr></table>
        <table width=100%><tr bgcolor=navy><td style="color:#000080">PhantomB</td></tr></table>
        <table width=100%><tr><td bgcolor="112233"><span style="color:#112233">PhantomC <b>PhantomD</b></span></table>
        <div style="background:#000">
          <p style="color:#fff">DecoyInDark <span style="color:#010101">PhantomE</span></p>
          <div style="background:#fff"><p style="color:#fff">PhantomF</p></div>
        </div>
        <div style="background-color:#222;color:#eee"><p>DecoyInGrey</p><p style="color:#222222">PhantomG</p></div>
        <div style="color:#fff"><p>PhantomH <b>PhantomI</b></p></div>
    """
    yield hidden("the colour of a background further out", "of the colour behind it", body)


def _placed() -> Iterator[Injection]:
    spellings = """
        position:absolute;left:-9999px
        position:absolute;top:-5000px
        POSITION:ABSOLUTE; LEFT:-9999PX
        position:fixed;top:-200em
        position:absolute;right:9999px
        position:relative;left:-5000px
        position:absolute;left:-1000in
        position:fixed;bottom:9999px
    """
    yield hidden("off the page", "off the page", elements(spellings))
    spellings = """
        text-indent:-9999px;overflow:hidden
        text-indent:-999em
        margin-left:-9999px
        margin:0 0 0 -9999px
    """
    yield hidden("off the page by its margin", "off the page", elements(spellings))
    spellings = """
        transform:translateX(-9999px)
        transform:translate(-9999px, 0)
        transform:translate3d(-9999px,0,0)
        translate:-9999px 0
        position:absolute;clip:rect(0,0,0,0)
        position:absolute;clip:rect(0 0 0 0);width:1px;height:1px;overflow:hidden
        position:absolute;clip:rect(1px,1px,1px,1px)
        clip-path:inset(100%)
        clip-path:inset(50%)
        clip-path:circle(0)
    """
    yield hidden("moved by a transform, and clipped", "off the page, or cut off", elements(spellings))
