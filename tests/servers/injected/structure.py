"""HTML in which some of the text is not seen, by where it stands, and hidden text whose end is hard to find."""

from collections.abc import Iterator

from tests.servers.injected.case import Injection, hidden

_NONE = 'style="display:none"'


def structure() -> Iterator[Injection]:
    yield from _unseen_elements()
    yield from _hidden_elements()
    yield from _ends()


def _unseen_elements() -> Iterator[Injection]:
    body = """
        <!-- PhantomA --><!--[if mso]><p>PhantomB</p><![endif]-->
        <!--[if gte mso 9]><xml>PhantomC</xml><![endif]-->
        <![if !mso]><p>DecoyInOthers</p><![endif]><!--[if !mso]><!--><p>DecoyInModern</p><!--<![endif]-->
        <!-- > PhantomD -- > PhantomE --!><p>DecoyInBehind</p><!--><p>DecoyInShort</p><? PhantomF ?><!PhantomG>
    """
    yield hidden("comments", "not shown but in Outlook", body)
    body = """
        <template><p>PhantomA</p></template><script>'PhantomC</p>'</script>
        <style>/* PhantomD */</style><title>PhantomE</title><datalist id=d><option>PhantomF</option></datalist>
        <audio>PhantomG</audio><video><p>PhantomH</p></video>
        <iframe srcdoc=x>PhantomJ</iframe><map name=m><area alt=PhantomK></map><dialog>PhantomL</dialog>
        <svg style='display:none'><text>PhantomM</text><title>PhantomN</title><desc>PhantomO</desc></svg>
        <object data=x style='display:none'>PhantomP</object>
        <select style='display:none'><option>PhantomQ</select>
    """
    head = "<title>PhantomTitle</title><meta name=a content=PhantomMeta>"
    yield hidden("elements that are not shown", "not shown", body, head=head)
    body = """
        <p title='PhantomA' aria-label='PhantomB' data-x='PhantomC'>DecoyInTitled</p>
        <input type=hidden value=PhantomD><input type=text style='display:none' value=PhantomE>
        <img src=x style='display:none' alt=PhantomF><abbr title=PhantomG>DecoyInShort</abbr>
        <a name='PhantomH' id='PhantomI' class='PhantomJ'>DecoyInAnchor</a>
    """
    yield hidden("attributes", "not shown", body)


def _hidden_elements() -> Iterator[Injection]:
    body = f"""
        <table><tr {_NONE}><td>PhantomA</td></tr><tr><td>DecoyInCell</td><td {_NONE}>PhantomB</td></tr>
        <tbody {_NONE}><tr><td>PhantomC</td></tr></tbody></table>
        <table {_NONE}><tr><td><table><tr><td>PhantomD</td></tr></table>PhantomE</td></tr></table>
        <table style='display:none'><caption>PhantomF</caption><tr><td>PhantomG</table>
        <ul><li>DecoyInItem<li {_NONE}>PhantomH</ul><ul {_NONE}><li>PhantomI</ul>
        <dl><dt hidden>PhantomJ<dd>DecoyInData</dl><a href='https://evil.example/' {_NONE}>PhantomK</a>
        <details {_NONE}><summary>PhantomL</summary>PhantomM</details>
    """
    yield hidden("tables, lists and links", "not displayed", body)


def _ends() -> Iterator[Injection]:
    body = f"""
        <div {_NONE}>PhantomA<div>PhantomB<div>PhantomC</div>PhantomD</div><p>PhantomE</p>PhantomF</div>
        <p>DecoyInMiddle</p>
    """
    yield hidden("nested", "ends that are too early", body)
    body = f"""
        <p {_NONE}>PhantomA<p>DecoyInOne<p hidden>PhantomB<div>DecoyInTwo</div>
        <table><tr><td {_NONE}>PhantomC<td>DecoyInThree<tr {_NONE}><td>PhantomD<tr><td>DecoyInFour</table>
        <ul><li {_NONE}>PhantomE<li>DecoyInFive</ul>
    """
    yield hidden("tags that no one closes", "to hide what is seen", body)
    body = f"""
        <div {_NONE}>PhantomA</span></b></p>PhantomB<br>PhantomC<br/>PhantomD<img><hr>PhantomE</div>
        <p>DecoyInOne</p><div {_NONE}/>PhantomF</div><p>DecoyInTwo</p><span {_NONE}/>PhantomG</span>
        <p>DecoyInThree</p><div {_NONE}><b>PhantomH</div><p>DecoyInFour</b></p>
        <span {_NONE}><div>PhantomI</div>PhantomJ</span>
    """
    yield hidden("misnested", "ends that are not theirs", body)
    body = f"""
        <DIV\n{_NONE.upper()}\n>PhantomA</dIv\n><div class='a>b' {_NONE} x='>'>PhantomB</div>
        <div/{_NONE}>PhantomC</div><div style='display:block' {_NONE}>DecoyInFirst</div>
        <div {_NONE} style=''>PhantomD</div><div style=display:none>PhantomE</div>
        <div style = 'display:none' >PhantomF</div><div STYLE="display:none"hidden>PhantomG</div>
        <div a="'"style='display:none'>PhantomH</div>
    """
    yield hidden("tags in other spellings", "not displayed", body)
    inside = "<div hidden>" + "<i>" * 200 + "PhantomA" + "</i>" * 200 + "</div>"
    deep = "<div>" * 300 + "<b>DecoyInDeep</b>" + inside + "</div>" * 300
    yield hidden("three hundred deep", "too deep to be followed", deep)
    ghosts = "".join(f"<span {_NONE}>Phantom{number} </span>DecoyInA{number} " for number in range(400))
    yield hidden("four hundred pieces", "too many to be counted", f"<p>{ghosts}</p>")
