"""Outgoing connections go only where they may."""

import socket
import time
from contextlib import ExitStack
from ipaddress import ip_address

import pytest

from mailbox_appliance.model.accounts import Security
from mailbox_appliance.remote.errors import Contact, RemoteFault
from mailbox_appliance.remote.net.connect import OWN_PORTS, is_allowed, is_near, is_public, open_connection


@pytest.mark.parametrize(
    ("address", "with_tls", "without"),
    [
        ("127.0.0.1", True, True),
        ("127.8.9.10", True, True),
        ("::1", True, True),
        ("::ffff:127.0.0.1", True, True),
        ("10.1.2.3", True, True),
        ("172.16.0.1", True, True),
        ("172.32.0.1", True, False),
        ("192.168.1.1", True, True),
        ("::ffff:192.168.1.1", True, True),
        ("fd12:3456::1", True, True),
        ("93.184.216.34", True, False),
        ("::ffff:93.184.216.34", True, False),
        ("2606:2800:220:1::1", True, False),
        ("100.64.0.1", True, False),
        ("0.0.0.0", False, False),
        ("0.1.2.3", False, False),
        ("::", False, False),
        ("::ffff:0.0.0.0", False, False),
        ("169.254.1.1", False, False),
        ("169.254.169.254", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("fe80::1", False, False),
        ("fe80::1%1", False, False),
        ("fec0::1", False, False),
        ("100.100.100.200", False, False),
        ("168.63.129.16", False, False),
        ("192.0.0.192", False, False),
        ("fd00:ec2::254", False, False),
        ("fd20:ce::254", False, False),
        ("fd00:ec2::23", False, False),
        ("fd00:c1::a9fe:a9fe", False, False),
        ("fd00:42::42", False, False),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False, False),  # Teredo
        ("2001:0:5ef5:79fd:0:59d:a83e:feef", False, False),
        ("224.0.0.1", False, False),
        ("ff02::1", False, False),
        ("240.0.0.1", False, False),
        ("255.255.255.255", False, False),
        ("::7f00:1", False, False),  # IPv4-compatible, long gone
        ("64:ff9b::5db8:d822", True, False),  # NAT64 of a public address
        ("64:ff9b::7f00:1", False, False),
        ("64:ff9b::a9fe:a9fe", False, False),
        ("64:ff9b::a00:1", False, False),
        ("2002:7f00:1::", False, False),  # 6to4
        ("2002:a9fe:a9fe::1", False, False),
    ],
)
def test_what_is_allowed(address: str, with_tls: bool, without: bool) -> None:
    assert is_allowed(ip_address(address), "tls") is with_tls
    assert is_allowed(ip_address(address), "starttls") is with_tls
    assert is_allowed(ip_address(address), "none") is without


PUBLIC = """
    8.8.8.8 9.9.9.9 100.63.0.1 172.32.0.1 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::
    2620:fe::fe 2001:4860:4860::8888
"""
ELSEWHERE = """
    127.0.0.1 127.8.9.10 ::1 ::ffff:127.0.0.1 ::7f00:1 ::ffff:0:7f00:1 64:ff9b::7f00:1 2002:7f00:1:: 2001:0:7f00:1::
    10.0.0.1 172.16.0.1 192.168.0.1 fd12:3456::1 fc00::1 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1:: 100.64.0.1
    169.254.169.254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: fe80::1 fec0::1 100.100.100.200
    168.63.129.16 192.0.0.192 fd00:ec2::254 fd20:ce::254 64:ff9b::a83f:8110
    64:ff9b:1::808:808 64:ff9b:1::7f00:1 64:ff9b:1:7f00:0:100:: 2001:0:4136:e378:8000:63bf:80ff:fffe
    0.0.0.0 0.1.2.3 :: 192.0.0.1 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1
    255.255.255.255 ff02::1 2001:db8::1 3fff::1 5f00::1 100::1 4000::1
"""


def test_what_is_public() -> None:
    wrong = [one for one in PUBLIC.split() if not is_public(ip_address(one))]
    assert wrong + [one for one in ELSEWHERE.split() if is_public(ip_address(one))] == []


@pytest.mark.parametrize(
    ("host", "security", "kind", "told"),
    [
        ("169.254.169.254", "tls", "forbidden_address", "never allowed"),
        ("0.0.0.0", "tls", "forbidden_address", "never allowed"),
        ("::ffff:169.254.169.254", "starttls", "forbidden_address", "never allowed"),
        ("2852039166", "tls", "forbidden_address", "never allowed"),  # 169.254.169.254, as one number
        ("93.184.216.34", "none", "forbidden_address", "`starttls`"),
        ("no-such-host.invalid", "tls", "unreachable", "host name"),
        ("a" * 64 + ".test", "tls", "unreachable", "host name"),
        ("a\0b", "tls", "unreachable", "host name"),
        ("ünmöglich\u2028.test", "tls", "unreachable", "host name"),
    ],
)
def test_what_is_refused_before_connecting(host: str, security: Security, kind: str, told: str) -> None:
    with pytest.raises(RemoteFault) as caught:
        open_connection(host, 143, security, 2, server="imap")
    assert (caught.value.server, caught.value.kind) == ("imap", kind)
    assert told in caught.value.reason


def test_a_closed_port_is_unreachable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(RemoteFault) as caught:
        open_connection("127.0.0.1", port, "none", 2, server="smtp")
    assert (caught.value.server, caught.value.kind) == ("smtp", "unreachable")


def test_the_first_address_that_answers_is_taken() -> None:
    # localhost is often ::1 first, where nobody listens.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        open_connection("localhost", listener.getsockname()[1], "none", 5, server="imap").close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.1", "::ffff:127.0.0.1"])
def test_no_mailbox_is_at_a_port_of_the_appliance(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        open_connection(host, port, "none", 5, server="imap").close()
        OWN_PORTS.add(listener, port)
        try:
            with pytest.raises(RemoteFault) as caught:
                open_connection(host, port, "none", 5, server="imap")
        finally:
            OWN_PORTS.remove(listener)
        assert caught.value.kind == "forbidden_address"
        assert "appliance's own address" in caught.value.reason
        open_connection(host, port, "none", 5, server="imap").close()


def test_a_port_of_the_appliance_at_another_host_is_another_port() -> None:
    with ExitStack() as held:
        OWN_PORTS.add(held, 993)
        held.callback(OWN_PORTS.remove, held)
        with pytest.raises(RemoteFault) as caught:
            open_connection("192.0.2.1", 993, "tls", 0.1, server="imap")
    assert caught.value.kind != "forbidden_address"


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("127.0.0.1", True),
        ("::ffff:127.0.0.1", True),
        ("192.168.1.1", True),
        ("100.64.0.1", True),
        ("fd12:3456::1", True),
        ("8.8.8.8", False),
        ("2620:fe::fe", False),
    ],
)
def test_what_is_near(address: str, near: bool) -> None:
    assert is_near(ip_address(address)) is near


def test_behind_a_near_address_no_public_one_is_tried() -> None:
    """Its owner would see there that the near port is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    contact, addresses = Contact(), (ip_address("8.8.8.8"), ip_address("127.0.0.1"))
    with pytest.raises(RemoteFault) as caught:
        open_connection("both.example", port, "tls", 5, server="imap", find=lambda _: addresses, contact=contact)
    assert (caught.value.name, contact.is_near) == ("connection_refused", True)


def test_a_near_address_has_until_the_contact_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        began = time.monotonic()
        with pytest.raises(RemoteFault) as caught:
            open_connection(
                "localhost", listener.getsockname()[1], "none", 60, server="imap", contact=Contact(began - 1)
            )
    assert caught.value.name == "port_blocked"
