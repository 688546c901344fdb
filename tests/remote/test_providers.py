"""The table of providers, and the operator's file over it."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mailbox_appliance.remote.providers import BUILT_IN, GOOGLE, OUTLOOK, KnownProvider, load_providers, url_for_tenant
from mailbox_appliance.settings import BadSetting

US = """
[outlook]
authorization_url = "https://login.microsoftonline.us/{tenant}/oauth2/v2.0/authorize"
token_url = "https://login.microsoftonline.us/{tenant}/oauth2/v2.0/token"
api_url = "https://graph.microsoft.us"
mail_scopes = ["offline_access", "https://outlook.office365.us/IMAP.AccessAsUser.All"]
imap = {host = "outlook.office365.us", port = 993, security = "tls"}
"""


def addresses(known: KnownProvider) -> list[str]:
    return [known.authorization_url, known.token_url, known.device_url or "", known.userinfo_url or "", known.api_url]


@pytest.mark.parametrize("known", BUILT_IN.values(), ids=BUILT_IN)
def test_what_ships_is_encrypted_and_public(known: KnownProvider) -> None:
    assert all(url.startswith("https://") for url in addresses(known) if url)
    assert {known.imap.security, known.smtp.security} <= {"tls", "starttls"}
    assert not any(known.is_named_by_operator(url) for url in addresses(known))


@pytest.mark.parametrize(
    ("tenant", "path"),
    [
        (None, "/common/oauth2/v2.0/token"),
        ("example.onmicrosoft.com", "/example.onmicrosoft.com/oauth2/v2.0/token"),
        # What an old store may have kept leads nowhere else.
        ("../../evil", "/..%2F..%2Fevil/oauth2/v2.0/token"),
        ("a@evil.example/", "/a%40evil.example%2F/oauth2/v2.0/token"),
        ("a?b#c\r\nd", "/a%3Fb%23c%0D%0Ad/oauth2/v2.0/token"),
    ],
)
def test_a_tenant_stays_a_part_of_the_path(tenant: str | None, path: str) -> None:
    place = urlsplit(url_for_tenant(OUTLOOK.token_url, tenant))
    assert (place.scheme, place.netloc, place.path, place.query) == ("https", "login.microsoftonline.com", path, "")


@pytest.mark.parametrize(
    ("known", "granted", "gives"),
    [
        (GOOGLE, ["openid", "https://mail.google.com/"], True),
        (GOOGLE, ["openid", "email"], False),
        (GOOGLE, ["https://www.googleapis.com/auth/gmail.readonly"], False),
        (OUTLOOK, ["https://outlook.office.com/IMAP.AccessAsUser.All", "https://outlook.office.com/SMTP.Send"], True),
        (OUTLOOK, ["https://outlook.office365.com/imap.accessasuser.all", "https://a.example/SMTP.Send"], True),
        (OUTLOOK, ["https://outlook.office.com/SMTP.Send"], False),
        (OUTLOOK, [], False),
    ],
)  # fmt: skip
def test_whether_there_is_mail_in_what_was_granted(known: KnownProvider, granted: list[str], gives: bool) -> None:
    assert known.gives_mail(granted) is gives


def test_what_a_token_is_asked_for() -> None:
    assert GOOGLE.scopes("graph") == GOOGLE.scopes("mail")
    assert "https://graph.microsoft.com/Mail.Send" in OUTLOOK.scopes("graph")
    assert "https://graph.microsoft.com/Mail.Send.Shared" in OUTLOOK.scopes("graph", is_shared=True)
    for known in BUILT_IN.values():  # Microsoft: AADSTS28000 for more than one
        for resource in ("mail", "graph"):
            hosts = {urlsplit(scope).netloc for scope in known.scopes(resource) if "://" in scope}
            assert len(hosts) == 1


def test_the_operator_s_file_lies_over_the_table(tmp_path: Path) -> None:
    file = tmp_path / "providers.toml"
    file.write_text(US)
    known = load_providers(str(file))["outlook"]
    assert known.imap.host == "outlook.office365.us"
    assert known.smtp == OUTLOOK.smtp
    assert known.is_named_by_operator("https://graph.microsoft.us/v1.0/me")
    assert known.is_named_by_operator(known.token_url)
    assert not known.is_named_by_operator(str(known.device_url))
    assert known.gives_mail(["https://outlook.office365.us/IMAP.AccessAsUser.All"])
    assert load_providers(str(file))["google"] == GOOGLE
    file.write_text("")
    os.utime(file, ns=(1, 1))
    assert load_providers(str(file)) == load_providers("") == BUILT_IN


def test_the_operator_s_hosts_for_uploads_are_besides_those_of_the_table(tmp_path: Path) -> None:
    file = tmp_path / "providers.toml"
    file.write_text('[outlook]\nupload_hosts = ["mail.own.example", "other.example:8443"]\n')
    known = load_providers(str(file))["outlook"]
    for url in ("https://mail.own.example/a", "https://other.example:8443/b"):
        assert known.takes_uploads_at(url)
        assert known.is_named_by_operator(url)
        assert not OUTLOOK.takes_uploads_at(url)
        assert not GOOGLE.takes_uploads_at(url)
    assert known.takes_uploads_at("https://outlook.office365.com/c")
    assert not known.is_named_by_operator("https://outlook.office365.com/c")
    assert not known.takes_uploads_at("https://other.example/b")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[outlook", "does not fit"),
        ("[yahoo]", "yahoo"),
        ("[google]\ntoken_uri = 'https://a.example'", "token_uri"),
        ("[google]\ntoken_url = 'http://127.0.0.1/token'", "token_url"),
        ("[google]\ntoken_url = 'https://a.example/x y'", "token_url"),
        ("[google]\ntoken_url = 'http://a.example/'", "Expected an address that begins with https:// - at"),
        ("[google]\ntoken_url = 'https://user@a.example/'", "token_url"),
        ("[outlook]\ntoken_url = 'https://{tenant}.example/'", "token_url"),
        ("[google]\nmail_scopes = ['a b']", "mail_scopes"),
        ("[google]\nimap = {host = 'a.example', port = 0, security = 'tls'}", "port"),
        ("[google]\nimap = {host = 'a.example', port = 993, security = 'ssl'}", "security"),
        ("[google]\nimap = {host = 'a.example', port = 993}", "security"),
        ("[outlook]\nupload_hosts = 'a.example'", "upload_hosts"),
        ("[outlook]\nupload_hosts = ['https://a.example']", "upload_hosts"),
        ("[outlook]\nupload_hosts = ['a.example/x']", "upload_hosts"),
        ("[outlook]\nupload_hosts = ['x@a.example']", "upload_hosts"),
        ("[outlook]\nupload_hosts = ['*.example']", "upload_hosts"),
        ("[outlook]\nupload_hosts = ['a.example:']", "upload_hosts"),
        ("[outlook]\nupload_hosts = ['']", "upload_hosts"),
    ],
)
def test_a_file_that_does_not_fit_is_told(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "providers.toml"
    file.write_text(text)
    with pytest.raises(BadSetting, match=complaint) as caught:
        load_providers(str(file))
    assert f"{file}, the file of the setting remote.providers_file, " in str(caught.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"# \xe4")
    for name in (tmp_path, tmp_path / "none", tmp_path / "latin", "a\0b"):
        with pytest.raises(BadSetting, match=r"remote\.providers_file"):
            load_providers(str(name))
