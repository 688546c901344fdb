"""Messages of HTML: the declaration of the character set, and the text that a preview shows or must not show."""
# ruff: noqa: E501 - a case on one line is easier to compare with its neighbors

from tests.mail.corpus.case import Case, case, verbatim


def page(body: str | bytes, parameters: str = "; charset=utf-8") -> bytes:
    raw = body.encode() if isinstance(body, str) else body
    return f"Subject: x\r\nContent-Type: text/html{parameters}\r\n\r\n".encode() + raw


def shown(name: str, body: str, snippet: str) -> Case:
    """Return a page with the expected preview."""
    return verbatim(name, page(body), text=None, html=body, snippet=snippet)


CASES: list[Case] = [
    shown("a page", "<html><head><title>T</title></head><body><p>One</p><p>Two</p></body></html>", "One Two"),
    shown("a fragment", "Hi <b>Ann</b>,<br>bye", "Hi Ann, bye"),
    shown("entities", "<p>Gr&uuml;&szlig;e &amp; 1 &lt; 2 &#8364;&nbsp;5</p>", "Grüße & 1 < 2 € 5"),
    shown("styles and scripts", "<style>p{color:red}</style><script>var a='<p>no</p>'</script><p>Yes</p>", "Yes"),
    shown("a style in the body", "<body>One<style>\n@media x { p { } }\n</style>Two</body>", "OneTwo"),
    shown("a preheader that is hidden", '<div style="display:none">Hidden words</div><p>Yes</p>', "Yes"),
    shown("hidden by an attribute", "<p hidden>No</p><p>Yes</p>", "Yes"),
    shown("hidden for one program", "<p style='mso-hide:all'>No</p><p>Yes</p>", "Yes"),
    shown("hidden by visibility", "<p style='visibility: hidden'>No</p><p>Yes</p>", "Yes"),
    shown("comments for one program", "<!--[if mso]><p>No</p><![endif]--><p>Yes</p>", "Yes"),
    shown("a comment without end", "<p>Yes</p><!-- <p>No</p>", "Yes"),
    shown("tables", "<table><tr><td>One</td><td>Two</td></tr></table>", "One | Two"),
    shown("a picture with words", "<img src=x alt='A cat'> says", "A cat says"),
    shown("tags that are broken", "<p>One<p>Two</div></b><i>Three", "One TwoThree"),
    shown("filler of bulk mail", "<p>Yes</p>" + "&zwnj;&nbsp;" * 100, "Yes"),
    shown("not HTML at all", "just text, 1 < 2", "just text, 1 < 2"),
    shown(
        "XHTML",
        '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body>Yes<br/></body></html>',
        "Yes",
    ),
    shown("nothing", "", ""),
    shown("only a picture", "<img src='https://t.example/o.gif'>", ""),
    shown("only white space", " \n ", ""),
    shown(
        "an office document",
        '<html xmlns:o="urn:x"><body><o:p>&nbsp;</o:p><p class=MsoNormal>Hi<o:p></o:p></p></body></html>',
        "Hi",
    ),
    shown("a quoted mail", "<p>Mine</p><blockquote>Theirs</blockquote>", "Mine"),
    shown("a text area", "<textarea><p>in it</p></textarea><p>Yes</p>", "<p>in it</p> Yes"),
    verbatim("Latin 1 by the header", page(b"<p>Gr\xfc\xdfe", "; charset=iso-8859-1"), html="<p>Grüße"),
    verbatim(
        "the header wins over the page", page("<meta charset=iso-8859-2><p>ü"), html="<meta charset=iso-8859-2><p>ü"
    ),
    verbatim(
        "a character set in the page",
        page(b'<meta charset="iso-8859-2"><p>\xb3', ""),
        html='<meta charset="iso-8859-2"><p>ł',
    ),
    verbatim(
        "a character set in the page, as HTML 4 has it",
        page(b'<META http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>\xcf\xf0', ""),
        html='<META http-equiv="Content-Type" content="text/html; charset=windows-1251"><p>Пр',
    ),
    verbatim(
        "a page in UTF-8 that claims UTF-16",  # HTML 13.2.3.2
        page("<meta charset=utf-16><p>ü", ""),
        html="<meta charset=utf-16><p>ü",
    ),
    verbatim("no character set", page("<p>ü", ""), html="<p>ü"),
    verbatim("no character set and no UTF-8", page(b"<p>\xfc", ""), warned="character set", html="<p>ü"),
    verbatim("a mark at the start", page(b"\xef\xbb\xbf<p>\xc3\xbc", ""), html="<p>ü"),
    verbatim("UTF-16", page("<p>ü".encode("utf-16"), "; charset=utf-16"), html="<p>ü"),
    verbatim("GB 18030 under another name", page("<p>丂".encode("gb18030"), "; charset=gb2312"), html="<p>丂"),
    verbatim("ISO-2022-JP that is not declared", page("<p>会議".encode("iso-2022-jp"), ""), html="<p>会議"),
    case(
        "quoted-printable",
        "Subject: x\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
        '<p style=3D"color:red">Gr=C3=BC=C3=\n=9Fe</p>\n',
        html='<p style="color:red">Grüße</p>',
    ),
    case(
        "quoted-printable with a soft break in a character",
        "Subject: x\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
        '<p style=3D"color:red">Gr=C3=BC=C3=\n\n',
        broken=True,
        warned="character set",
        html='<p style="color:red">Grü\ufffd',
    ),
    case(
        "base64",
        "Subject: x\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: base64\n\nPHA+R3LDvMOfZTwvcD4=\n",
        html="<p>Grüße</p>",
        snippet="Grüße",
    ),
]
