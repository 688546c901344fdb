"""What fits an option, beyond its kind: where one can listen."""

import pytest

from mailbox_appliance.settings import BY_NAME, why_invalid

HOSTS = ("server.host", "server.https_host")


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost",
        "0.0.0.0",
        "::",
        "127.0.0.1",
        "::1",
        "192.0.2.7",
        "2001:db8::7",
        "fe80::1%eth0",
        "fe80::1%br-lan.2",
    ],
)
@pytest.mark.parametrize("name", HOSTS)
def test_one_can_listen_at_an_ip_address_or_at_localhost(name: str, host: str) -> None:
    assert why_invalid(BY_NAME[name], host) is None


@pytest.mark.parametrize(
    "host",
    [
        "mail.example.org",  # looking it up may take for ever
        "Localhost",
        "localhost.",
        "127.0.0.1 10.1.1.1",
        "127.0.0.1\n0.0.0.0",
        " 127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "127.0.0.1:8443",
        "[::1]",
        "*",
        "127.0.0.1%lo",
        "fe80::1%",
        "fe80::1%a b",
        "fe80::1%a\n",
        "fe80::1%a]:1",
        "224.0.0.1",  # the system would let one listen there, and nobody could connect
        "239.255.255.250",
        "ff02::1",
        "ff02::1%eth0",
        "255.255.255.255",
    ],
)
@pytest.mark.parametrize("name", HOSTS)
def test_one_cannot_listen_elsewhere_and_is_told_where(name: str, host: str) -> None:
    told = why_invalid(BY_NAME[name], host) or ""
    assert told.startswith("is an IP address of this computer, such as 192.0.2.7")
    assert "or localhost, not " in told
