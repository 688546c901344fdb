"""What trusted proxies report about a client, and what a client cannot make them report."""

import time

import pytest

from mailbox_appliance.settings import load
from mailbox_appliance.web.http import TrustedProxies, origin_of, trusted_proxies

PROXY, OTHER_PROXY, CLIENT, FORGED = "10.0.0.1", "10.0.0.2", "198.51.100.7", "203.0.113.9"
TRUSTED = ("10.0.0.0/24", "fd00::/64", "127.0.0.1")

# X-Forwarded-For at a trusted proxy, and the resulting client; None: the proxy itself.
X_FORWARDED_FOR: tuple[tuple[str, str | None], ...] = (
    (CLIENT, CLIENT),
    (f"  {CLIENT}\t", CLIENT),
    (f"{CLIENT}:4711", CLIENT),
    (f'"{CLIENT}"', CLIENT),
    ("2001:db8::7", "2001:db8::7"),
    ("2001:DB8:0:0::7", "2001:db8::7"),
    ("[2001:db8::7]", "2001:db8::7"),
    ("[2001:db8::7]:4711", "2001:db8::7"),
    ('"[2001:db8::7]:4711"', "2001:db8::7"),
    ("fe80::7%eth0", "fe80::7"),
    ("[fe80::7%eth0]:4711", "fe80::7"),
    ("::ffff:198.51.100.7", CLIENT),
    ("[::ffff:c633:6407]:1", CLIENT),
    # Several: the rightmost one that is not a trusted proxy.
    (f"{FORGED}, {CLIENT}", CLIENT),
    (f"{FORGED},{CLIENT},{OTHER_PROXY}", CLIENT),
    (f"{CLIENT}, fd00::2, {OTHER_PROXY}:80, ::ffff:10.0.0.3", CLIENT),
    (f"127.0.0.1, {CLIENT}", CLIENT),
    (f"{OTHER_PROXY}, {CLIENT}", CLIENT),
    (f"garbage, {CLIENT}", CLIENT),
    (f"{CLIENT}, 127.0.0.1", CLIENT),
    # All are trusted: the leftmost one.
    (OTHER_PROXY, OTHER_PROXY),
    (f"10.0.0.3, {OTHER_PROXY}", "10.0.0.3"),
    ("127.0.0.1", "127.0.0.1"),
    # Empty elements do not count (RFC 9110 section 5.6.1).
    ("", None),
    (" , ,", None),
    (f", {CLIENT} ,,", CLIENT),
    # An unreadable element hides the ones before it.
    ("unknown", None),
    ("_hidden", None),
    (f"{FORGED}, unknown", None),
    (f"{FORGED}, unknown, {OTHER_PROXY}", OTHER_PROXY),
    (f"{FORGED}, 300.1.1.1", None),
    (f"{FORGED} {CLIENT}", None),
    (f"{FORGED}, {CLIENT}:port", None),
    (f"{FORGED}, {CLIENT}:123456", None),
    (f"{FORGED}, [{CLIENT}", None),
    (f"{FORGED}, [2001:db8::7]x", None),
    (f"{FORGED}, []", None),
    (f"{FORGED}, 0x7f000001", None),
    (f"{FORGED}, 2130706433", None),
    (f"{FORGED}, 010.0.0.1", None),
    (f"{FORGED}, \u0661.2.3.4", None),
    (f"{FORGED}, mail.example.org", None),
    ("x" * 10_000, None),
    ("1" * 10_000, None),
    ("[" * 10_000, None),
    ("," * 10_000 + CLIENT, CLIENT),
    (f"{FORGED}," * 1000 + CLIENT, CLIENT),
    ("10.0.0.9," * 1000 + OTHER_PROXY, "10.0.0.9"),
)


@pytest.mark.parametrize(("field", "client"), X_FORWARDED_FOR)
def test_x_forwarded_for_tells_the_client(field: str, client: str | None) -> None:
    environ = {"REMOTE_ADDR": PROXY, "HTTP_X_FORWARDED_FOR": field}
    origin = origin_of(environ, TrustedProxies(TRUSTED))
    assert (origin.client_address, origin.is_local, origin.is_secure) == (client or PROXY, False, False)
    # The other kind of field only marks a request; so does any field from an untrusted peer.
    assert origin_of(environ, TrustedProxies(TRUSTED, "forwarded")).client_address == PROXY
    assert origin_of(environ | {"REMOTE_ADDR": FORGED}, TrustedProxies(TRUSTED)).client_address == FORGED


# X-Forwarded-Proto, and whether the client used HTTPS; None: unknown.
X_FORWARDED_PROTO: tuple[tuple[str | None, bool | None], ...] = (
    (None, None),
    ("", None),
    (" , ", None),
    ("https", True),
    ("HTTPS", True),
    (" https , https", True),
    ("https,,", True),
    ("http", False),
    ("https, http", False),
    ("http, https", False),
    ("httpss", False),
    ("https http", False),
    ('"https"', False),
    ("https;q=1", False),
    ("wss", False),
    ("https," * 2000 + "http", False),
)


@pytest.mark.parametrize(("field", "is_https"), X_FORWARDED_PROTO)
def test_x_forwarded_proto_tells_how_it_came(field: str | None, *, is_https: bool | None) -> None:
    environ = {"REMOTE_ADDR": PROXY, "HTTP_X_FORWARDED_FOR": CLIENT, "wsgi.url_scheme": "http"}
    environ |= {} if field is None else {"HTTP_X_FORWARDED_PROTO": field}
    secured = environ | {"wsgi.url_scheme": "https"}
    assert origin_of(environ, TrustedProxies(TRUSTED)).is_secure == bool(is_https)
    # With plain HTTP on the first hop others could listen, whatever the last hop used.
    assert origin_of(secured, TrustedProxies(TRUSTED)).is_secure == (is_https is not False)
    for others in (TrustedProxies(), TrustedProxies(["10.0.0.2"]), TrustedProxies(TRUSTED, "forwarded")):
        assert not origin_of(environ, others).is_secure
        assert origin_of(secured, others).is_secure


# Forwarded, the resulting client, and whether it used HTTPS.
FORWARDED: tuple[tuple[str, str | None, bool], ...] = (
    (f"for={CLIENT}", CLIENT, False),
    (f"for={CLIENT};proto=https", CLIENT, True),
    (f"FOR={CLIENT};Proto=HTTPS", CLIENT, True),
    (f"proto=https; by=10.0.0.1 ;for={CLIENT} ; host=mail.example.org", CLIENT, True),
    (f'for="{CLIENT}:4711";proto="https"', CLIENT, True),
    (f"for={CLIENT}:4711;proto=https;", CLIENT, True),
    ('for="[2001:db8::7]";proto=https', "2001:db8::7", True),
    ('for="[2001:db8::7]:4711";proto=https', "2001:db8::7", True),
    ('for="[2001:db8::7]:_secret";proto=https', "2001:db8::7", True),
    ("for=[2001:db8::7];proto=https", "2001:db8::7", True),
    (f"for={CLIENT};proto=http", CLIENT, False),
    (f"for={CLIENT};proto=", None, False),
    (f'for={CLIENT};proto=""', CLIENT, False),
    # Several: the entries of trusted proxies, which end with the client's.
    (f"for={FORGED};proto=http, for={CLIENT};proto=https", CLIENT, True),
    (f"for={FORGED};proto=https, for={CLIENT};proto=http", CLIENT, False),
    (f"for={FORGED};proto=https, for={CLIENT}", CLIENT, False),
    (f"for={CLIENT};proto=https, for={OTHER_PROXY};proto=https", CLIENT, True),
    (f"for={CLIENT};proto=https,for={OTHER_PROXY}", CLIENT, True),
    (f"for={CLIENT};proto=http, for={OTHER_PROXY};proto=https", CLIENT, False),
    (f"for={CLIENT};proto=https, for={OTHER_PROXY};proto=http", CLIENT, False),
    (f"for={CLIENT}, for={OTHER_PROXY};proto=https", CLIENT, True),
    (f"for={OTHER_PROXY};proto=https", OTHER_PROXY, True),
    # Obfuscated, unknown, omitted.
    ("for=unknown;proto=https", None, True),
    ("for=_hidden;proto=https", None, True),
    ('for="_hidden:_port";proto=https', None, True),
    ("proto=https", None, True),
    ("host=mail.example.org", None, False),
    (f"for={FORGED};proto=http, for=unknown;proto=https", None, True),
    (f"for={FORGED};proto=https, for=_hidden, for={OTHER_PROXY}", OTHER_PROXY, False),
    # Empty elements do not count.
    ("", None, False),
    (" , ,", None, False),
    (f", for={CLIENT};proto=https,, ", CLIENT, True),
    # Entries inside a quoted text do not count.
    (f'for={CLIENT};proto=https;ext=", for={FORGED}"', CLIENT, True),
    (f'for={CLIENT};proto=http;ext="x;proto=https"', CLIENT, False),
    # A client writes the first entries, which cannot affect the later ones.
    (f'for="{FORGED};proto=https, for={CLIENT};proto=http', CLIENT, False),
    (f'for={FORGED};x=", for="{CLIENT}";proto=http', CLIENT, False),
    (f'for={FORGED};x=", for="[2001:db8::7]:1";proto=https', "2001:db8::7", True),
    (f'for={FORGED};proto=https;x="\\", for={CLIENT};proto=http', CLIENT, False),
    (f'", for={CLIENT};proto=https', CLIENT, True),
    # Unreadable at the place of a trusted proxy: nothing is known.
    (f"for={FORGED};proto=https, garbage", None, False),
    (f"for={FORGED};proto=https, for={CLIENT};for={FORGED};proto=https", None, False),
    (f"for={FORGED};proto=https, for={CLIENT};proto=https;proto=https", None, False),
    (f"for={FORGED};proto=https, for={CLIENT};proto=https x", None, False),
    (f"for={FORGED};proto=https, for = {CLIENT};proto=https", None, False),
    (f"for={FORGED};proto=https, for='{CLIENT}';proto=https", None, True),
    (f'for={FORGED};proto=https, for="{CLIENT};proto=https', None, False),
    (f'for={FORGED};proto=https, for={CLIENT};proto=https"', None, False),
    (f'for={FORGED};proto=https, for={CLIENT};host="a\\", for={FORGED}"', None, False),
    (f"garbage, for={OTHER_PROXY};proto=https", OTHER_PROXY, False),
    ("x" * 10_000, None, False),
    ('"' * 10_001, None, False),
    ("," * 10_000, None, False),
    ("for=" * 2500, None, False),
    ("a=b;" * 2500, None, False),
    (f"for={FORGED};proto=https," * 300 + f"for={CLIENT};proto=https", CLIENT, True),
    (f"for={OTHER_PROXY};proto=https," * 300, OTHER_PROXY, True),
)


@pytest.mark.parametrize(("field", "client", "is_https"), FORWARDED)
def test_forwarded_tells_the_client_and_how_it_came(field: str, client: str | None, *, is_https: bool) -> None:
    environ = {"REMOTE_ADDR": PROXY, "HTTP_FORWARDED": field, "wsgi.url_scheme": "http"}
    origin = origin_of(environ, TrustedProxies(TRUSTED, "forwarded"))
    assert (origin.client_address, origin.is_local, origin.is_secure) == (client or PROXY, False, is_https)
    for others in (TrustedProxies(), TrustedProxies(["192.0.2.1"], "forwarded"), TrustedProxies(TRUSTED)):
        origin = origin_of(environ, others)
        assert (origin.client_address, origin.is_local, origin.is_secure) == (PROXY, False, False)


# Networks, a peer, whether it is a trusted proxy.
PEERS: tuple[tuple[tuple[str, ...], str, bool], ...] = (
    ((), "127.0.0.1", False),
    (("127.0.0.1",), "127.0.0.1", True),
    (("127.0.0.1",), "::ffff:127.0.0.1", True),
    (("127.0.0.1",), "127.0.0.2", False),
    (("127.0.0.1",), "::1", False),
    (("10.0.0.0/8",), "10.255.0.1", True),
    (("10.0.0.0/8",), "::ffff:10.255.0.1", True),
    (("10.0.0.0/8",), "11.0.0.1", False),
    (("::ffff:10.0.0.1",), "10.0.0.1", True),
    (("::ffff:10.0.0.0/104",), "::ffff:10.9.9.9", True),
    (("::ffff:10.0.0.0/104",), "11.9.9.9", False),
    (("::/0",), "2001:db8::1", True),
    (("::/0",), "10.0.0.1", False),
    (("fe80::1",), "fe80::1%eth0", True),
    (("fe80::1%eth0",), "fe80::1%eth0", True),
    (("fe80::/10",), "fe80::9%2", True),
    (("10.0.0.1", "fd00::/64"), "fd00::5", True),
    (("10.0.0.1",), "", False),
    (("10.0.0.1",), "not an address", False),
)


@pytest.mark.parametrize(("networks", "peer", "is_trusted"), PEERS)
def test_who_is_a_trusted_proxy(networks: tuple[str, ...], peer: str, *, is_trusted: bool) -> None:
    proxies = TrustedProxies(networks)
    assert proxies.trusts(peer) == is_trusted
    assert not proxies.trusts(None)
    environ = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": CLIENT}
    assert origin_of(environ, proxies).client_address == (CLIENT if is_trusted else peer or None)


def test_a_trusted_proxy_on_this_computer_is_this_computer_only_without_marks() -> None:
    for headers in ("x-forwarded", "forwarded"):
        proxies = TrustedProxies(["127.0.0.1"], headers)
        assert origin_of({"REMOTE_ADDR": "127.0.0.1"}, proxies).is_local
        assert not origin_of({"REMOTE_ADDR": "10.0.0.1"}, proxies).is_local
        for mark in ("HTTP_X_FORWARDED_FOR", "HTTP_X_FORWARDED_HOST", "HTTP_FORWARDED", "HTTP_VIA"):
            for text in ("", "127.0.0.1", "for=127.0.0.1;proto=https", "::1"):
                assert not origin_of({"REMOTE_ADDR": "127.0.0.1", mark: text}, proxies).is_local


def test_they_are_those_of_the_settings() -> None:
    environment = {"MAILBOX_APPLIANCE_SERVER_TRUSTED_PROXIES": "10.0.0.0/24, fd00::1"}
    settings = load(environment=environment)
    environ = {"REMOTE_ADDR": "fd00::1", "HTTP_X_FORWARDED_FOR": CLIENT, "HTTP_FORWARDED": f"for={FORGED}"}
    assert origin_of(environ, trusted_proxies(settings)).client_address == CLIENT
    other = load(environment=environment | {"MAILBOX_APPLIANCE_SERVER_PROXY_HEADERS": "forwarded"})
    assert origin_of(environ, trusted_proxies(other)).client_address == FORGED
    assert origin_of(environ, trusted_proxies(load(environment={}))).client_address == "fd00::1"


@pytest.mark.parametrize("kind", ["x-forwarded", "forwarded"])
def test_what_is_said_at_length_is_read_quickly(kind: str) -> None:
    name = "HTTP_FORWARDED" if kind == "forwarded" else "HTTP_X_FORWARDED_FOR"
    pieces = (
        " ",
        "\t",
        " \t",
        " ;",
        "a",
        ",",
        '"',
        '",',
        ";",
        "for=",
        "for=10.0.0.1,",
        '="',
        "\\",
        "[",
        ":",
        "10.0.0.1,",
        "1.",
        "\t,",
    )
    begun = ("", "for=10.0.0.1;", "for=10.0.0.1 ", 'for="10.0.0.1', "for=", "10.0.0.1")
    fields = [(one + piece * 32_000)[:32_000] + end for one in begun for piece in pieces for end in ("", "!", '"')]
    for field in fields:
        started = time.thread_time()
        origin_of({"REMOTE_ADDR": PROXY, name: field}, TrustedProxies(TRUSTED, kind))
        assert time.thread_time() - started < 0.2, (field[:20], field[-1])


@pytest.mark.parametrize("kind", ["x-forwarded", "forwarded"])
def test_what_stands_before_many_proxies_is_not_read(kind: str) -> None:
    name, each = ("HTTP_FORWARDED", "for=") if kind == "forwarded" else ("HTTP_X_FORWARDED_FOR", "")
    chain = ", ".join([f"{each}{CLIENT}", *[f"{each}{OTHER_PROXY}"] * 40])
    assert origin_of({"REMOTE_ADDR": PROXY, name: chain}, TrustedProxies(TRUSTED, kind)).client_address == OTHER_PROXY
    short = ", ".join([f"{each}{CLIENT}", *[f"{each}{OTHER_PROXY}"] * 31])
    assert origin_of({"REMOTE_ADDR": PROXY, name: short}, TrustedProxies(TRUSTED, kind)).client_address == CLIENT
