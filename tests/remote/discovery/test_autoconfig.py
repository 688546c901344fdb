"""Autoconfig documents: what is read of them, and what hostile ones come to. Whole ones: test_discovery.py."""

import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailbox_appliance.remote.discovery.autoconfig import (
    MOST_AUTOCONFIG_BYTES,
    AutoconfigServers,
    CandidateServer,
    NotAutoconfig,
    read_autoconfig,
)

EMAIL = "ada.l@example.org"


def document(servers: str, head: str = "") -> bytes:
    whole = f'{head}<clientConfig version="1.1"><emailProvider id="x">{servers}</emailProvider></clientConfig>'
    return whole.encode()


def imap(
    host: str = "imap.example.org", port: str = "993", socket: str = "SSL", username: str = "%EMAILADDRESS%"
) -> str:
    return (
        f'<incomingServer type="imap"><hostname>{host}</hostname><port>{port}</port><socketType>{socket}</socketType>'
        f"<username>{username}</username></incomingServer>"
    )


def first(servers: str) -> CandidateServer | None:
    return next(iter(read_autoconfig(document(servers), EMAIL).imap), None)


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        (imap(), ("imap.example.org", 993, "tls", EMAIL)),
        (imap(" IMAP.Example.ORG. "), ("imap.example.org", 993, "tls", EMAIL)),
        (imap("imap.%EMAILDOMAIN%"), ("imap.example.org", 993, "tls", EMAIL)),
        (imap(username="%EMAILLOCALPART%"), ("imap.example.org", 993, "tls", "ada.l")),
        (imap(username="x-%EMAILLOCALPART%-%EMAILDOMAIN%"), ("imap.example.org", 993, "tls", "x-ada.l-example.org")),
        (imap(username="%REALNAME%"), ("imap.example.org", 993, "tls", "%REALNAME%")),
        (imap(username=""), ("imap.example.org", 993, "tls", EMAIL)),
        (imap(port="143", socket="STARTTLS"), ("imap.example.org", 143, "starttls", EMAIL)),
        (imap("a.example", "143", "STARTTLS") + imap("b.example"), ("b.example", 993, "tls", EMAIL)),
        (imap("a.example") + imap("b.example"), ("a.example", 993, "tls", EMAIL)),
        # The first of two names in one server counts.
        (imap("a.example</hostname><hostname>b.example"), ("a.example", 993, "tls", EMAIL)),
        # What would lead to this computer, to an address, or nowhere.
        *(
            (imap(host), None)
            for host in (
                *("127.0.0.1", "169.254.169.254", "[::1]", "::1", "2130706433", "0x7f.0.0.1", "0x7f000001", "127.1"),
                *("localhost", "localhost.", "x.localhost", "x.localdomain", "com", "", ".", "a..b.example"),
                *("-a.example", "a_b.example", "a.example/x", "a.example:25", "u@a.example", "a.example\\x"),
                *("a b.example", "ä.example", "%EMAILADDRESS%", "a" * 64 + ".example"),
                *(".".join(["a" * 60] * 5) + ".example",),
            )
        ),
        *((imap(port=port), None) for port in ("0", "65536", "-1", "99999999999", "٩٩٣", "0x3e1", "", "9 9")),
        *((imap(socket=socket), None) for socket in ("plain", "ssl", "TLS", "", "%EMAILDOMAIN%")),
        *((imap(username=name), None) for name in ("a&#10;b", "a&#x7f;b", "a b", "a&#x2028;b", "a" * 300)),
        # Not where a server stands.
        (f"<x>{imap()}</x>", None),
        ("<incomingServer type='pop3'><hostname>a.example</hostname></incomingServer>", None),
    ],
)
def test_a_server(servers: str, found: tuple[str, int, str, str] | None) -> None:
    server = first(servers)
    assert (server and (server.host, server.port, server.security, server.username)) == found


TEN = [f"&l{number};" * 10 for number in range(11)]
BOMB = "".join(f'<!ENTITY l{number} "{before}">' for number, before in enumerate(TEN, 1))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0",
        b"<",
        b"not xml",
        b"<html></html>",
        b"<!DOCTYPE html><html><body><p>A shop</p></body></html>",
        document(imap())[:-5],
        document(imap() + "&amP;"),
        document(imap(), "<!DOCTYPE x>"),
        document("&l11;", f'<!DOCTYPE x [<!ENTITY l0 "ha">{BOMB}]>'),
        document("&x;", '<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]>'),
        document("", '<!DOCTYPE x SYSTEM "http://169.254.169.254/latest">'),
        document("", '<!DOCTYPE x [<!ENTITY % p SYSTEM "http://127.0.0.1/"> %p;]>'),
        document("<a>" * 2_000 + "</a>" * 2_000),
        document("<a/>" * 3_000),
        document("<a>" + "x" * MOST_AUTOCONFIG_BYTES + "</a>"),
        document(imap(), '<?xml version="1.0" encoding="rot13"?>'),
        document(imap(), '<?xml version="1.0" encoding="utf-7"?>'),
        document(imap(), '<?xml version="1.0" encoding="no-such-thing"?>'),
        document(imap()) + document(imap()),
        b"\xff" + document(imap()),
    ],
)
def test_what_is_no_document(content: bytes) -> None:
    began = time.thread_time()
    tracemalloc.start()
    try:
        with pytest.raises(NotAutoconfig):
            read_autoconfig(content, EMAIL)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (time.thread_time() - began < 0.5, peak < 4 << 20) == (True, True)


def test_no_more_is_kept_than_servers() -> None:
    config = read_autoconfig(document("".join(imap(f"h{number}.example") for number in range(100))), EMAIL)
    assert len(config.imap) == 8
    nothing = document(
        f"<displayName>{'x' * 10_000}</displayName><incomingServer type='imap'><y>{'z' * 9_999}</y></incomingServer>"
    )
    assert read_autoconfig(nothing, EMAIL) == AutoconfigServers()


@pytest.mark.parametrize(
    ("sign_ins", "by_password"),
    [
        ((), True),
        (("password-cleartext",), True),
        (("OAuth2", "password-cleartext"), True),
        (("password-encrypted",), True),
        (("OAuth2",), False),
        (("GSSAPI", "NTLM"), False),
        (("none",), False),
        (("client-IP-address",), False),
    ],
)
def test_how_one_signs_in(sign_ins: tuple[str, ...], by_password: bool) -> None:
    ways = "".join(f"<authentication>{one}</authentication>" for one in sign_ins)
    config = read_autoconfig(document(imap().replace("<port>", f"{ways}<port>")), EMAIL)
    assert (len(config.imap), len(config.imap_by_sign_in)) == ((1, 0) if by_password else (0, 1))


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 40))
def test_nothing_else_is_ever_raised(noise: bytes, place: int, dropped: int) -> None:
    whole = document(imap())
    try:
        read_autoconfig(whole[:place] + noise + whole[place + dropped :], EMAIL)
    except NotAutoconfig:
        pass
