"""Where other computers reach the appliance, as the settings say."""

import socket

import pytest

from mailbox_appliance import settings
from mailbox_appliance.settings import is_https_public, public_https_url

NAMED = f"https://{socket.gethostname()}:9443"
HOSTS = [
    ("192.0.2.7", "https://192.0.2.7:9443"),
    ("2001:db8::7", "https://[2001:db8::7]:9443"),
    ("", NAMED),
    ("0.0.0.0", NAMED),
    ("::", NAMED),
    ("fe80::7%eth0", NAMED),
    ("127.0.0.1", None),
    ("127.9.9.9", None),
    ("::1", None),
    ("localhost", None),
]


@pytest.mark.parametrize(("host", "url"), HOSTS)
def test_where_https_is_for_others(host: str, url: str | None) -> None:
    for is_on in (True, False):
        given = settings.load(None, {}, {"server.https": is_on, "server.https_host": host})
        assert public_https_url(given, 9443) == (url if is_on else None)
        assert is_https_public(given) == (is_on and url is not None)
