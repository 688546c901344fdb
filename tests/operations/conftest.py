"""What the tests of operations share: an administrator and a member, and a desk with mailboxes for each file."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from tests.checked_client import CheckedClient
from tests.operations.connected import request_to_connect
from tests.operations.filled import FilledMailbox, add_member
from tests.operations.key_people import People
from tests.operations.resting import RestingMailbox
from tests.servers.desk import Desk, desk_of_a_scripted_server
from tests.servers.dovecot import MailServer
from tests.servers.scripted_smtp import ScriptedSmtp


@dataclass
class Mailbox:
    """A mailbox at the desk, and the SMTP server that it sends through."""

    id: str
    email: str
    smtp: ScriptedSmtp


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder: Path = tmp_path_factory.mktemp("desk")
    made = desk_of_a_scripted_server(folder / "data")
    yield made
    made.close()


@pytest.fixture(scope="module")
def _mailbox(desk: Desk, mail_server: MailServer) -> Iterator[Mailbox]:
    email = mail_server.fresh_user()
    smtp = ScriptedSmtp(user=email).start()
    account = desk.connect(email, imap_port=mail_server.imap_port, smtp_port=smtp.port, displayName="Ada L.")
    yield Mailbox(account, email, smtp)
    smtp.stop()


@pytest.fixture
def mailbox(_mailbox: Mailbox) -> Iterator[Mailbox]:
    """A mailbox with a real IMAP server, and an SMTP server that does what the test tells it."""
    _mailbox.smtp.forget()
    yield _mailbox
    _mailbox.smtp.forget()


@pytest.fixture
def asking(desk: Desk) -> CheckedClient:
    """The desk's administrator, whose every answer is held against the contract."""
    client = CheckedClient(desk.appliance)
    client.token = desk.token
    client.member = client.ask("GET", "/me").data["member"]
    return client


@pytest.fixture
def ada(timed: Appliance) -> CheckedClient:
    """The first administrator, logged in."""
    return CheckedClient(timed).set_up()


@pytest.fixture
def bob(timed: Appliance, ada: CheckedClient) -> CheckedClient:
    """A member who is logged in."""
    add_member(timed, "bob")
    return ada.log_in("bob@example.org")


@pytest.fixture
def people(timed: Appliance) -> People:
    """Administrators and a member who make keys."""
    return People(timed)


@pytest.fixture
def box(timed: Appliance) -> RestingMailbox:
    """A mailbox whose server cannot be reached, by a clock that the test moves."""
    return RestingMailbox(timed)


@pytest.fixture
def filled(checked_client: CheckedClient) -> FilledMailbox:
    """A mailbox whose server cannot be reached."""
    return FilledMailbox(checked_client.appliance, checked_client.member["id"])


@pytest.fixture
def request_for(mail_server: MailServer) -> dict[str, Any]:
    """What connects a mailbox that nobody has used."""
    return request_to_connect(mail_server)
