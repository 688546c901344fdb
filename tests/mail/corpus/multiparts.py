"""Trees of parts: RFC 2046 5.1, RFC 2387, RFC 2392, RFC 2557, RFC 8621 4.1.4; and broken boundaries."""
# ruff: noqa: E501 - a case on one line is easier to compare with its neighbors

from tests.mail.corpus.case import Case, case, verbatim


def mixed(body: str, parameters: str = '; boundary="b"', subtype: str = "mixed") -> str:
    return f"Subject: x\nMIME-Version: 1.0\nContent-Type: multipart/{subtype}{parameters}\n\n{body}"


PLAIN, HTML = "Content-Type: text/plain\n\nplain\n", "Content-Type: text/html\n\n<p>html</p>\n"
PNG = "Content-Type: image/png\nContent-Transfer-Encoding: base64\n"
PDF = 'Content-Type: application/pdf; name="a.pdf"\nContent-Disposition: attachment\nContent-Transfer-Encoding: base64\n\nJVBERg==\n'
LISTED_PDF = ("a.pdf", "application/pdf", 4, None, "attachment")
EML = "Content-Type: message/rfc822\n\nFrom: z@example.com\nSubject: Inner\nMIME-Version: 1.0\n\nInner text.\n"
ALTERNATIVE = f"--a\n{PLAIN}--a\n{HTML}--a--\n"

CASES: list[Case] = [
    case(
        "RFC 2046 5.1.1",
        'Subject: x\nMIME-Version: 1.0\nContent-type: multipart/mixed; boundary="simple boundary"\n\n'
        "This is the preamble.  It is to be ignored, though it\nis a handy place to note.\n\n--simple boundary\n\n"
        "This is implicitly typed plain US-ASCII text.\nIt does NOT end with a linebreak.\n--simple boundary\n"
        "Content-type: text/plain; charset=us-ascii\n\nThis is explicitly typed plain US-ASCII text.\n"
        "It DOES end with a linebreak.\n\n--simple boundary--\n\nThis is the epilogue.  It is also to be ignored.\n",
        text="This is implicitly typed plain US-ASCII text.\nIt does NOT end with a linebreak.\n\n"
        "This is explicitly typed plain US-ASCII text.\nIt DOES end with a linebreak.",
        html=None,
        listed=[],
    ),
    case(
        "alternative", mixed(f"--b\n{PLAIN}--b\n{HTML}--b--\n", subtype="alternative"), text="plain", html="<p>html</p>"
    ),
    case(
        "alternative, HTML first",
        mixed(f"--b\n{HTML}--b\n{PLAIN}--b--\n", subtype="alternative"),
        text="plain",
        html="<p>html</p>",
    ),
    case(
        "alternative of HTML alone",
        mixed(f"--b\n{HTML}--b--\n", subtype="alternative"),
        text=None,
        html="<p>html</p>",
        snippet="html",
    ),
    case("alternative of text alone", mixed(f"--b\n{PLAIN}--b--\n", subtype="alternative"), text="plain", html=None),
    case(
        "alternative with a third form",
        mixed(
            f"--b\n{PLAIN}--b\n{HTML}--b\nContent-Type: text/x-amp-html\n\n<html amp4email>\n--b--\n",
            subtype="alternative",
        ),
        text="plain",
        html="<p>html</p>",
        listed=[("attachment-3", "text/x-amp-html", 16, None, None)],
    ),
    case(
        "alternative with an invitation",
        mixed(
            f"--b\n{PLAIN}--b\n{HTML}--b\nContent-Type: text/calendar; method=REQUEST\n\nBEGIN:VCALENDAR\n--b--\n",
            subtype="alternative",
        ),
        text="plain",
        html="<p>html</p>",
        listed=[("attachment-3.ics", "text/calendar", 15, None, None)],
    ),
    case("mixed with a file", mixed(f"--b\n{PLAIN}--b\n{PDF}--b--\n"), text="plain", listed=[LISTED_PDF], parts=["2"]),
    case("a file first", mixed(f"--b\n{PDF}--b\n{PLAIN}--b--\n"), text="plain", listed=[LISTED_PDF], parts=["1"]),
    case("only a file", mixed(f"--b\n{PDF}--b--\n"), text=None, html=None, snippet="", listed=[LISTED_PDF]),
    case(
        "a footer", mixed(f"--b\n{PLAIN}--b\n{PDF}--b\n\nfooter\n--b--\n"), text="plain\n\nfooter", listed=[LISTED_PDF]
    ),
    case(
        "alternative in mixed",
        mixed(f"--b\nContent-Type: multipart/alternative; boundary=a\n\n{ALTERNATIVE}--b\n{PDF}--b--\n"),
        text="plain",
        html="<p>html</p>",
        parts=["2"],
    ),
    case(
        "related in alternative",
        mixed(
            f"--b\n{PLAIN}--b\nContent-Type: multipart/related; boundary=r\n\n--r\nContent-Type: text/html\n\n"
            f"<img src=cid:i@x>\n--r\n{PNG}Content-ID: <i@x>\nContent-Disposition: inline; filename=i.png\n\niVBO\n--r--\n--b--\n",
            subtype="alternative",
        ),
        text="plain",
        html="<img src=cid:i@x>",
        listed=[("i.png", "image/png", 3, "i@x", "inline")],
        parts=["2.2"],
    ),
    case(
        "related whose root is named",  # RFC 2387 3.2
        mixed(
            f"--b\n{PNG}Content-ID: <i@x>\n\niVBO\n--b\nContent-Type: text/html\nContent-ID: <root@x>\n\n<img src=cid:i@x>\n--b--\n",
            '; boundary=b; type="text/html"; start="<root@x>"',
            "related",
        ),
        text=None,
        html="<img src=cid:i@x>",
        listed=[("attachment-1.png", "image/png", 3, "i@x", None)],
    ),
    case(
        "related with a second HTML",
        mixed(
            f"--b\n{HTML}--b\nContent-Type: text/html\nContent-ID: <two@x>\n\n<p>frame\n--b--\n",
            "; boundary=b",
            "related",
        ),
        html="<p>html</p>",
        listed=[("attachment-2.html", "text/html", 8, "two@x", None)],
    ),
    case(
        "content ids",  # RFC 2392
        mixed(
            f"--b\n{HTML}--b\n{PNG}Content-ID:  <a.b+c@x.example>  \n\niVBO\n--b\n{PNG}Content-ID: <%41@x>\n\niVBO\n--b--\n",
            "; boundary=b",
            "related",
        ),
        cids=["a.b+c@x.example", "%41@x"],
    ),
    case(
        "content ids that are broken",
        mixed(
            f"--b\n{HTML}--b\n{PNG}Content-ID: bare@x\n\niVBO\n--b\n{PNG}Content-ID: <>\n\niVBO\n--b\n{PNG}Content-ID: <a b>\n\niVBO\n--b--\n"
        ),
        broken=True,
        cids=["bare@x", None, "a b"],
    ),
    case(
        "a location instead of an id",  # RFC 2557
        mixed(f"--b\n{HTML}--b\n{PNG}Content-Location: images/i.png\n\niVBO\n--b--\n", "; boundary=b", "related"),
        listed=[("attachment-2.png", "image/png", 3, None, None)],
    ),
    case(
        "pictures amid text",
        mixed(f"--b\n{PLAIN}--b\n{PNG}Content-Disposition: inline\n\niVBO\n--b\n\nafter\n--b--\n"),
        text="plain\n\nafter",
        names=["attachment-2.png"],
    ),
    case(
        "text and HTML side by side",
        mixed(f"--b\n{PLAIN}--b\n{HTML}--b--\n"),
        text="plain\n\nhtml",
        html="<pre>plain</pre>\n<p>html</p>",
        snippet="plain html",
    ),
    case(
        "a list's footer below HTML",
        mixed(f"--b\n{HTML}--b\nContent-Type: text/plain\n\n____\nfooter\n--b--\n"),
        text="html\n\n____\nfooter",
        html="<p>html</p>\n<pre>____\nfooter</pre>",
        snippet="html ____ footer",
    ),
    case("text around HTML", mixed(f"--b\n{PLAIN}--b\n{HTML}--b\n{PLAIN}--b--\n"), text="plain\n\nhtml\n\nplain"),
    case("a blank text beside HTML", mixed(f"--b\n\n \n--b\n{HTML}--b--\n"), text=" ", snippet="html"),
    case(
        "what is hidden in HTML beside a text",
        mixed(f"--b\n{PLAIN}--b\nContent-Type: text/html\n\n<p>html</p><p hidden>no</p>\n--b--\n"),
        warned="1 passage (display 1)",
        text="plain\n\nhtml",
    ),
    case(
        "two forms of HTML: the last is shown, alone",
        mixed(f"--b\n{PLAIN}--b\n{HTML}--b\nContent-Type: text/html\n\n<p>last</p>\n--b--\n", subtype="alternative"),
        text="plain",
        html="<p>last</p>",
        names=["attachment-2.html"],
    ),
    case("two HTML parts", mixed(f"--b\n{HTML}--b\n{HTML}--b--\n"), text=None, html="<p>html</p>\n<p>html</p>"),
    case(
        "text to be escaped",
        mixed(f"--b\n\n<b> & c\n--b\n{HTML}--b--\n"),
        html="<pre>&lt;b&gt; &amp; c</pre>\n<p>html</p>",
    ),
    case(
        "text with a name behind the first",
        mixed(f"--b\n{PLAIN}--b\nContent-Type: text/plain; name=log.txt\n\nlog\n--b--\n"),
        text="plain",
        names=["log.txt"],
    ),
    case(
        "text inline with a name",
        mixed(f"--b\n{PLAIN}--b\nContent-Disposition: inline; filename=log.txt\n\nlog\n--b--\n"),
        text="plain",
        names=["log.txt"],
    ),
    case("a part without a header", mixed("--b\n\nHi\n--b--\n"), text="Hi"),
    case("an empty part", mixed(f"--b\n\n--b\n{PLAIN}--b--\n"), text="plain"),
    case(
        "a part that is only a header",
        mixed(f"--b\nContent-Type: text/plain\n--b\n{PDF}--b--\n"),
        broken=True,
        text="",
        listed=[LISTED_PDF],
    ),
    case(
        "a subtype that nobody knows",
        mixed(f"--b\n{PLAIN}--b\n{PDF}--b--\n", subtype="x-new"),
        text="plain",
        listed=[LISTED_PDF],
    ),
    case("parallel", mixed(f"--b\n{PLAIN}--b\n{PDF}--b--\n", subtype="parallel"), text="plain", listed=[LISTED_PDF]),
    case(
        "form data",
        mixed('--b\nContent-Disposition: form-data; name="a"\n\nvalue\n--b--\n', subtype="form-data"),
        text="value",
    ),
    case(
        "an attached message",
        mixed(f"--b\n{PLAIN}--b\n{EML}--b--\n"),
        text="plain",
        listed=[("Inner.eml", "message/rfc822", 69, None, None)],
    ),
    case(
        "an attached message with files",
        mixed(
            "--b\nContent-Type: message/rfc822\n\n"
            + mixed(f"--c\n{PLAIN}--c\n{PDF}--c--\n", "; boundary=c")
            + "--b--\n"
        ),
        text=None,
        names=["x.eml"],
    ),
    case(
        "an attached message in base64",
        mixed(
            f"--b\n{PLAIN}--b\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\nU3ViamVjdDogSW5uZXINCg0KSGk=\n--b--\n"
        ),
        broken=True,
        listed=[("Inner.eml", "message/rfc822", 20, None, None)],
    ),
    case(
        "an attached message in UTF-8",
        mixed(f"--b\n{PLAIN}--b\nContent-Type: message/global\n\nSubject: Grüße\n\nHi\n--b--\n"),
        broken=True,
        names=["Grüße.eml"],
    ),
    case(
        "an attached message with a path for a subject",
        mixed(f"--b\n{PLAIN}--b\nContent-Type: message/rfc822\n\nSubject: ../a/b\n\nHi\n--b--\n"),
        names=["..-a-b.eml"],
    ),
    case("a message that is all message", "Subject: Fwd\n" + EML, text=None, names=["Inner.eml"]),
    case(
        "digest",  # RFC 2046 5.1.5
        mixed("--b\n\nSubject: one\n\nOne.\n--b\n\nSubject: two\n\nTwo.\n--b--\n", subtype="digest"),
        text=None,
        types=["message/rfc822", "message/rfc822"],
        names=["one.eml", "two.eml"],
    ),
    case(
        "a digest with an introduction",
        mixed(
            f"--b\n{PLAIN}--b\nContent-Type: multipart/digest; boundary=d\n\n--d\n\nSubject: one\n\nOne.\n--d--\n--b--\n"
        ),
        text="plain",
        names=["one.eml"],
    ),
    # --- boundaries
    case(
        "a boundary with specials",
        mixed(f"--=_(a)'+,-./:=?\n{PLAIN}--=_(a)'+,-./:=?--\n", '; boundary="=_(a)\'+,-./:=?"'),
        text="plain",
    ),
    case(
        "a boundary of 70 characters",
        mixed(f"--{'b' * 70}\n{PLAIN}--{'b' * 70}--\n", f"; boundary={'b' * 70}"),
        text="plain",
    ),
    case(
        "a boundary of 300 characters",
        mixed(f"--{'b' * 300}\n{PLAIN}--{'b' * 300}--\n", f"; boundary={'b' * 300}"),
        broken=True,
        text="plain",
    ),
    case("white space behind a boundary", mixed(f"--b \t \n{PLAIN}--b--  \n"), text="plain"),
    case("white space in a boundary", mixed(f"--b b\n{PLAIN}--b b--\n", '; boundary="b b"'), text="plain"),
    case(
        "white space at the end of a boundary",
        mixed(f"--b\n{PLAIN}--b--\n", '; boundary="b "'),
        broken=True,
        text="plain",
    ),
    case(
        "an unquoted boundary with specials",
        mixed(f"--=_b=c\n{PLAIN}--=_b=c--\n", "; boundary==_b=c"),
        broken=True,
        text="plain",
    ),
    case(
        "a boundary with a comment",
        mixed(f"--b\n{PLAIN}--b--\n", "; boundary=b (see below)"),
        broken=True,
        text="plain",
    ),
    case(
        "a quoted pair in a boundary",
        mixed(f'--a"b\n{PLAIN}--a"b--\n', '; boundary="a\\"b"'),
        broken=True,
        text="plain",
    ),
    case("a folded boundary", mixed(f"--b\n{PLAIN}--b--\n", ';\n\tboundary="b"'), text="plain"),
    case(
        "a boundary that begins another",
        mixed("--b\nContent-Type: multipart/mixed; boundary=bb\n\n--bb\n\ninner\n--bb--\n--b\n\nouter\n--b--\n"),
        text="inner\n\nouter",
    ),
    case(
        "a boundary that another begins",
        mixed(
            "--bb\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\ninner\n--b--\n--bb\n\nouter\n--bb--\n",
            "; boundary=bb",
        ),
        text="inner\n\nouter",
    ),
    case(
        "a boundary amid a line", mixed("--b\n\nsee --b\nx--b\n--bc\n --b\n--b--\n"), text="see --b\nx--b\n--bc\n --b"
    ),
    case("a boundary in another case", mixed(f"--B\n{PLAIN}--b\n\nHi\n--b--\n"), text="Hi"),
    case("a boundary in UTF-8", mixed(f"--ü\n{PLAIN}--ü--\n", '; boundary="ü"'), broken=True, text="plain"),
    case(
        "the same boundary inside",
        mixed(f"--b\nContent-Type: multipart/alternative; boundary=b\n\n--b\n{PLAIN}--b\n{HTML}--b--\n--b--\n"),
        warned="boundary",
        text="plain\n\nhtml",
        html="<pre></pre>\n<pre>plain</pre>\n<p>html</p>",
    ),
    case("no preamble line", f"Content-Type: multipart/mixed; boundary=b\n\n--b\n{PLAIN}--b--", text="plain"),
    case(
        "no blank line before the parts",
        f"Content-Type: multipart/mixed; boundary=b\n--b\n{PLAIN}--b--\n",
        broken=True,
        text="plain",
    ),
    case(
        "an end that is missing",
        mixed(f"--b\n{PLAIN}--b\n{PDF}"),
        warned="end of a part",
        text="plain",
        listed=[LISTED_PDF],
    ),
    case(
        "an inner end that is missing",
        mixed(f"--b\nContent-Type: multipart/alternative; boundary=a\n\n--a\n{PLAIN}--a\n{HTML}--b\n{PDF}--b--\n"),
        warned="end of a part",
        text="plain",
        html="<p>html</p>",
        listed=[LISTED_PDF],
    ),
    case(
        "cut off in a header",
        mixed(f"--b\n{PLAIN}--b\nContent-Type: application/pdf; na"),
        warned="end of a part",
        text="plain",
        types=["application/pdf"],
    ),
    case("cut off in base64", mixed(f"--b\n{PLAIN}--b\n{PDF}")[:-5], warned="end of a part", text="plain", sizes=[3]),
    case("parts behind the end", mixed(f"--b\n{PLAIN}--b--\n--b\n{PDF}--b--\n"), broken=True, text="plain", listed=[]),
    case("only an end", mixed("--b--\n"), warned="boundary", text="--b--"),
    case("no boundary in the body", mixed("Hi there\n"), warned="boundary", text="Hi there"),
    case("no boundary in the type", mixed(f"--zz\n{PLAIN}--zz--\n", ""), warned="boundary", text="plain"),
    case("no boundary anywhere", mixed("Hi there\n", ""), warned="boundary", text="Hi there"),
    case("an empty boundary", mixed(f"--\n{PLAIN}----\n", '; boundary=""'), warned="boundary", text=f"--\n{PLAIN}----"),
    case(
        "an empty boundary before a real one",
        mixed(f"--zz\n{PLAIN}--zz--\n", '; boundary=""'),
        warned="boundary",
        text="plain",
    ),
    case("a boundary in quotes without end", mixed(f"--b\n{PLAIN}--b--\n", '; boundary="b'), broken=True, text="plain"),
    case(
        "a multipart in base64",
        mixed(f"--b\n{PLAIN}--b--\n").replace("\nMIME", "\nContent-Transfer-Encoding: base64\nMIME"),
        broken=True,
        text="plain",
    ),
    case("an empty multipart", mixed(""), warned="boundary", text=""),
    verbatim(
        "parts with line feeds alone",
        mixed(f"--b\n{PLAIN}--b\n{PDF}--b--\n").encode(),
        text="plain",
        listed=[LISTED_PDF],
    ),
    verbatim(
        "parts with carriage returns alone",
        mixed(f"--b\n{PLAIN}--b\n{PDF}--b--\n").replace("\n", "\r").encode(),
        broken=True,
        text="plain",
        listed=[LISTED_PDF],
    ),
    verbatim(
        "line breaks of both kinds in parts",
        mixed(f"--b\r\n{PLAIN}--b\n{PDF}\r\n--b--").encode(),
        text="plain",
        listed=[LISTED_PDF],
    ),
    case(
        "1,000 parts",
        mixed("".join(f"--b\nContent-Type: a/b; name=f{n}\n\nx\n" for n in range(1000)) + "--b--\n"),
        text=None,
        attachment_count=1000,
    ),
    case(
        "1,001 parts",
        mixed("".join(f"--b\nContent-Type: a/b; name=f{n}\n\nx\n" for n in range(1001)) + "--b--\n"),
        warned="too many parts",
        attachment_count=1000,
    ),
    case("1,000 texts", mixed("--b\n\nx\n" * 1000 + "--b--\n"), text="\n\n".join("x" * 1000)),
    case(
        "100 levels",
        "".join(f"Content-Type: multipart/mixed; boundary=b{n}x\n\n--b{n}x\n" for n in range(100))
        + "\ndeep\n"
        + "".join(f"--b{n}x--\n" for n in reversed(range(100))),
        broken=True,
        text="deep",
    ),
    case(
        "150 levels",
        "".join(f"Content-Type: multipart/mixed; boundary=b{n}x\n\n--b{n}x\n" for n in range(150)) + "\ndeep\n",
        warned="end of a part|nested too deeply",
        text=None,
    ),
]
