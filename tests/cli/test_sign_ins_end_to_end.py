"""Sign-ins with a real appliance, a provider over HTTPS, and mail servers that accept its tokens."""

import threading
import urllib.request
from collections.abc import Iterator

import pytest

from mailbox_appliance.cli import oauth_sign_in
from mailbox_appliance.model.accounts import OAuthProvider
from mailbox_appliance.web.app import App
from mailbox_appliance.web.server.server import HttpServer
from tests.cli.conftest import CommandLine
from tests.operations.sign_ins import NAMES, SignIns
from tests.servers.dovecot import MailServer
from tests.servers.oauth_provider import OAuthServer

#: Who sits before the browser, and at which provider.
BEFORE_IT: list[tuple[OAuthServer, str]] = []


def browse(address: str, _environment: object) -> bool:
    """Simulate a browser whose user consents; it follows the provider's redirects."""
    provider, person = BEFORE_IT[-1]
    back = provider.consent(address, person)
    threading.Thread(target=lambda: urllib.request.urlopen(back, timeout=10).close()).start()
    return True


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, mail_server: MailServer) -> Iterator[SignIns]:
    made = SignIns(tmp_path_factory.mktemp("sign-ins"), mail_server)
    yield made
    made.close()


@pytest.fixture
def desk(scene: SignIns, cli: CommandLine) -> Iterator[CommandLine]:
    """The command line of Bob."""
    listeners = HttpServer(App(scene.appliance), [("127.0.0.1", 0)], workers=2)
    listeners.start()
    instance = f"http://127.0.0.1:{listeners.addresses[0][1]}"
    cli.environment |= {"MAILBOX_APPLIANCE_INSTANCE": instance, "MAILBOX_APPLIANCE_TOKEN": scene.bob.token}
    cli.environment["DISPLAY"] = ":0"
    cli.services["show_in_browser"] = "tests.cli.test_sign_ins_end_to_end:browse"
    yield cli
    listeners.stop(5)


@pytest.mark.parametrize("provider", NAMES)
def test_a_mailbox_is_connected_by_a_browser_and_again(
    desk: CommandLine, scene: SignIns, provider: OAuthProvider
) -> None:
    user = scene.server.fresh_user()
    BEFORE_IT.append((scene.providers[provider], user))
    added = desk("accounts", "add", "--provider", provider, "--display-name", "Post")
    assert (added.code, added.data["email"], added.data["displayName"]) == (0, user, "Post")
    again = desk("accounts", "reconnect", user, "--sign-in")
    assert (again.code, again.data["id"]) == (0, added.data["id"])
    assert desk("accounts", "reconnect", user).code == 0
    assert "access-" not in added.out + added.err
    assert "refresh-" not in added.out + added.err


def test_a_mailbox_is_connected_by_a_pasted_address_and_by_a_code(
    desk: CommandLine, scene: SignIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    outlook = scene.providers["outlook"]
    users = scene.server.fresh_user(), scene.server.fresh_user()
    begun = desk("accounts", "add", "--provider", "outlook", "--begin").data
    back = outlook.consent(begun["authorizationUrl"], users[0])
    done = desk("accounts", "add", "--provider", "outlook", "--finish", stdin=back.encode())
    assert done.data["email"] == users[0]

    def wait(_: float) -> None:
        scene.clock.advance(6)
        for code in list(outlook.answers._typed):
            outlook.type_code(code, users[1])

    monkeypatch.setattr(oauth_sign_in, "sleep", wait)
    done = desk("accounts", "add", "--provider", "outlook", "--device")
    assert (done.code, done.data["email"]) == (0, users[1])
