"""The page to which a provider's sign-in returns: it passes three values to the console, and nothing else."""

import re
from html import unescape

import pytest

from mailbox_appliance.appliance import Appliance
from tests.checked_client import CheckedClient

CASES: tuple[tuple[str, str], ...] = (
    ("state=a.b-c_d&code=4/0AX%2Bz&scope=openid", "state=a.b-c_d&code=4%2F0AX%2Bz"),
    ("code=M.C5&state=s&session_state=x", "code=M.C5&state=s"),
    ("error=access_denied&error_description=Call+1+555&state=s&error_uri=e.example", "error=access_denied&state=s"),
    ("error=consent_required&error_description=AADSTS65001%3A+The+user&state=s",
     "error=consent_required&error_description=AADSTS65001&state=s"),
    ("state=s&code=%22%3E%3Cscript%3E", "state=s&code=%22%3E%3Cscript%3E"),
    ("state=s&code=%0d%0aSet-Cookie:x", "state=s&code=%0D%0ASet-Cookie%3Ax"),
    ("state=first&state=second&code=c", "state=first&code=c"),
    ("", ""),
    ("&".join(f"a{n}=1" for n in range(40)), ""),
)  # fmt: skip


@pytest.mark.parametrize(("query", "handed"), CASES, ids=range(len(CASES)))
def test_what_a_sign_in_brought_is_handed_to_the_console(appliance: Appliance, query: str, handed: str) -> None:
    answer = CheckedClient(appliance).ask("GET", f"/oauth/callback?{query}")
    assert answer.status == 200
    text = answer.content.decode()
    addresses = {unescape(found) for found in re.findall(r'(?:href|url=)"?([^">]*)"', text) if "#" in found}
    (address,) = addresses
    path, _, given = address.partition("?")
    assert path == "/#/oauth-callback"
    assert sorted(given.split("&")) == sorted(handed.split("&"))
    assert "<script" not in text


def test_the_page_is_kept_by_nobody_and_loads_nothing(appliance: Appliance) -> None:
    headers = CheckedClient(appliance).ask("GET", "/oauth/callback?state=s&code=c").headers
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"].startswith("default-src 'none'")
