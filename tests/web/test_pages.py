"""What the page at the appliance's address tells those who come there, and that it is true."""

import json
import re
from html import unescape

from mailbox_appliance import passwords
from tests.checked_client import CheckedClient

LINK = re.compile(r"(?P<address>.+)/#(?P<what>\w+)=(?P<token>.+)")
WANTED = "another horse battery"


def page(client: CheckedClient) -> str:
    return client.ask("GET", "/", root="", token="").content.decode()


def test_it_runs_nothing_and_fetches_nothing(checked_client: CheckedClient) -> None:
    text = page(checked_client)
    assert not re.search(r"<script|<form|<img|<link|javascript:|\bon\w+=|https?://", text)
    policy = checked_client.ask("GET", "/", root="").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy


def test_whoever_comes_by_a_link_finds_what_to_do_with_it(checked_client: CheckedClient) -> None:
    """The lines of the page, with what the link holds put in: an invitation first, then a password reset."""
    told = unescape(page(checked_client))
    assert f"({passwords.MIN_LENGTH} to {passwords.MAX_LENGTH} characters)" in told
    blocks = re.findall(r"<pre><code>(.*?)</code></pre>", told, re.DOTALL)
    lines = next(block.splitlines() for block in blocks if "/auth/enroll" in block)
    paths = [re.sub(r".* ADDRESS(?=/)", "", line) for line in lines if "application/json" in line]
    typed = next(block for block in blocks if "TOKEN" in block)
    new = {"name": "Bob", "email": "bob@example.org", "role": "member"}
    made = checked_client.ask("POST", "/admin/members", new).data
    reset = f"/admin/members/{made['member']['id']}/password-reset"
    for what, path in zip(("enroll", "reset"), paths, strict=True):
        issued = made["invitation"] if what == "enroll" else checked_client.ask("POST", reset).data
        link = LINK.fullmatch(issued["url"])
        assert link is not None
        assert link["what"] == what
        assert f"<code>#{what}=</code>" in told
        body = json.loads(typed.replace("TOKEN", link["token"]).replace("PASSWORD", WANTED))
        assert checked_client.ask("POST", path, body, root="", token="").status == 200
        assert checked_client.ask("POST", path, body, root="", token="").refusal == (400, "invalid_token")
    log_in = {"email": "bob@example.org", "password": WANTED, "deviceName": "x"}
    assert checked_client.ask("POST", "/auth/login", log_in, token="").status == 200
