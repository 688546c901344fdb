"""Mail that only looks as if it hid something: what a person sees of it must be there."""

from collections.abc import Iterator

from tests.servers.injected.case import Injection, coded, honest, message, page, plain

_FAMILY, _SCOTLAND = "👨‍👩‍👧‍👦", "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
_PERSIAN, _HINDI = "می‌خواهم کتاب‌ها را ببینم", "क्‍ष और श्री‌मान"
_HEBREW, _ARABIC = "שלום, הפגישה ב-10:00", "مرحبا بالعالم"


def honest_mail() -> Iterator[Injection]:
    yield from _newsletters()
    yield from _styles()
    yield from _languages()


def _newsletters() -> Iterator[Injection]:
    body = """
        <div style='display:none;max-height:0;overflow:hidden;mso-hide:all'>PhantomPreheader of this week</div>
        <table style='font-size:0;line-height:0'><tr>
          <td style='font-size:16px;line-height:20px'>DecoyInColumn</td>
          <td style='font-size:0;line-height:0'><span style='font-size:1rem;line-height:1'>DecoyInOther</span>
            <a style='font-size:14px;line-height:1;color:#06c' href='https://news.example/'>DecoyInLink</a></td>
        </tr></table>
    """
    yield honest("newsletter of columns", body)
    body = """
        <table width=100% bgcolor='#111111'><tr><td style='color:#ffffff'>DecoyInDark
          <p style='color:white'>DecoyInWhite</p><font color='#eeeeee'>DecoyInFont</font>
          <div style='background:#fff;color:#111'>DecoyInLight</div></td></tr></table>
        <a style='background:#0055cc;color:#fff;padding:8px' href='https://shop.example/'>DecoyInButton</a>
        <table bgcolor=navy><tr><td style='background:none;color:#fff'>DecoyInNavy</td></tr></table>
    """
    yield honest("white on dark", body)
    body = """
        <table cellpadding=0><tr><td style='font-size:1px;line-height:1px' height=10>&nbsp;</td></tr>
        <tr><td>DecoyInRow</td></tr></table><span style='color:#ffffff'>&nbsp;</span>
        <img width=1 height=1 src='https://news.example/o.gif'><p style='color:inherit'>DecoyInInherited</p>
        <p style='color:#000;background:transparent'>DecoyInTransparent</p>
        <p style='background:url(https://news.example/x.png);color:#333'>DecoyInPicture</p>
    """
    yield honest("spacers", body)


def _styles() -> Iterator[Injection]:
    style = """
        @media (prefers-color-scheme: dark){.text{color:#fff !important} .light{display:none}}
        @media print{.screen{display:none}} @media (max-width:100px){.wide{display:none !important}}
        .dark{background:#000} .dark p{color:#fff} u+.body .gmail{display:none}
    """
    body = """
        <p class=text>DecoyInText</p><p class=light>DecoyInLogo</p><p class=screen>DecoyInScreen</p>
        <p class=wide>DecoyInWide</p><div class=dark><p>DecoyInDark</p></div><p class=gmail>DecoyInGmail</p>
    """
    yield honest("style sheet for other circumstances", body, style=style)
    style = """
        .a{display:none} .b{display:block} .c{display:block!important} .c{display:none}
        p:empty{display:none} p::after{display:none}
    """
    body = """
        <p style='display:none;display:block'>DecoyInLast</p><p class=a style='display:block'>DecoyInOwn</p>
        <p class='a b'>DecoyInLater</p><p class=c>DecoyInImportant</p><p style='/*display:none*/'>DecoyInComment</p>
        <div style='visibility:hidden'><p style='visibility:visible'>DecoyInVisible</p></div>
        <p style='xdisplay:none'>DecoyInOther</p><p style='--display:none'>DecoyInCustom</p>
        <p style="font-family:'display:none'">DecoyInQuote</p>
        <p style='display:nonesuch;opacity:0.9'>DecoyInUnknown</p>
    """
    yield honest("hidden and shown again", body, style=style)
    body = """
        <p style='font-size:10px;color:#888'>DecoyInSmallPrint</p><p style='color:#bbbbbb'>DecoyInGrey</p>
        <p style='opacity:.5'>DecoyInFaint</p><div style='max-height:300px;overflow:hidden'>DecoyInBox</div>
        <div style='height:0'>DecoyInOverflow</div><br><br><div style='overflow:hidden'>DecoyInClear</div>
        <p style='text-indent:-10px;margin-left:30px'>DecoyInIndent</p><br>
        <p style='position:relative;left:5px;top:-2px'>DecoyInMoved</p>
        <table height=0 width=0><tr><td width=1>DecoyInTable</td></tr></table>
        <p style='line-height:0'>DecoyInLine</p><div style='height:1px;line-height:1px'><b>DecoyInRuler</b></div>
    """
    yield honest("small, grey and moved", body)
    body = """
        <p>DecoyInCode: <code>&lt;div style="display:none"&gt; DecoyInSample &lt;/div&gt;</code></p>
        <pre>.x { display: none } /* DecoyInSheet */</pre><p>&lt;!-- DecoyInMarks --&gt; 1 < 2 > 0 & so on</p>
    """
    yield honest("mail about HTML", body)


def _languages() -> Iterator[Injection]:
    text = f"DecoyInBody {_PERSIAN} {_HINDI}"
    source = message(text, subject=coded(f"DecoyInSubject {_PERSIAN}"))
    yield plain("Persian and Hindi", "nothing: honest mail", source, "DecoyInBody", _PERSIAN, _HINDI)
    emoji = f"DecoyInBody {_FAMILY} {_SCOTLAND} ❤️ 👍🏽 🏳️‍🌈 1️⃣ 🇩🇪"
    source = message(emoji, subject=coded(f"DecoyInSubject {_FAMILY}"))
    yield plain("emoji", "nothing: honest mail", source, "DecoyInBody", _FAMILY, "👍🏽", "🇩🇪", "🏳️‍🌈")
    marked = page(f"""
        <p dir=rtl>DecoyInBody \u200f{_HEBREW}\u200e (ABC)</p><p dir=rtl>&rlm;{_ARABIC}&lrm;</p>
        <p>\u2067{_HEBREW}\u2069 DecoyInEnd</p>
    """)
    source = message(marked, subject=coded(f"\u200fDecoyInSubject {_HEBREW}"), kind="text/html; charset=utf-8")
    seen = ("DecoyInBody", "DecoyInEnd", _HEBREW, _ARABIC)
    yield plain("Hebrew and Arabic", "nothing: honest mail", source, *seen)
