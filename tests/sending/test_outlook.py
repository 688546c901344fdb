"""An Outlook mailbox whose organization has disabled SMTP, from its sign-in on: it sends by Graph, once, as Sent
shows.
"""

import base64
import random
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

import pytest

from mailbox_appliance.mail.parse import attachment_bytes, parse_message
from tests.sending.outlook import SMTP_IS_OFF, TokenSmtp, graph_server
from tests.servers.desk import a_key, a_message
from tests.servers.dovecot import MailServer
from tests.servers.graph import GraphServer
from tests.servers.signed_in import SignedIn
from tests.servers.smtp_script import DROP


@pytest.fixture
def smtp() -> Iterator[TokenSmtp]:
    server = TokenSmtp()
    server.start()
    server.at("auth", SMTP_IS_OFF)
    yield server
    server.stop()


@pytest.fixture
def house(tmp_path: Path, mail_server: MailServer, smtp: TokenSmtp) -> Iterator[SignedIn]:
    made = SignedIn(tmp_path, mail_server, "outlook", smtp)
    yield made
    made.close()


@pytest.fixture
def graph(house: SignedIn) -> Iterator[GraphServer]:
    """Yield a Graph double whose Sent Items is the folder of the real server."""
    with graph_server(house.oauth, house.server.folder / "tls") as server:
        lead_to(house, server)
        server.filed = lambda _, mime: house.server.deliver(house.user, mime, folder="Sent", flags="\\Seen")
        yield server


def lead_to(house: SignedIn, graph: GraphServer) -> None:
    """Configure this address of Graph as the operator does."""
    rows = house.file.read_text()
    house.file.write_text(rows.replace(f'api_url = "{house.oauth.url}"\n', f'api_url = "{graph.url}"\n{graph.row}'))


def in_sent(house: SignedIn) -> list[Any]:
    return in_folder(house, "sent")


def in_folder(house: SignedIn, folder: str) -> list[Any]:
    found: list[Any] = house.desk.ask("GET", f"/accounts/{house.account}/messages?folder={folder}").data["items"]
    return found


def test_it_sends_by_graph_and_sent_has_it_once(house: SignedIn, graph: GraphServer, smtp: TokenSmtp) -> None:
    login = house.desk.appliance.store.oauth_logins.find(house.account)
    assert login is not None
    assert login.sends_via == "graph"  # reported when it was connected
    tried = smtp.count("connect")
    body = a_message(bcc=[{"email": "cy@example.test"}], subject="Once")
    sent = house.desk.send(house.account, body)
    assert sent.data["status"] == "succeeded", sent
    (message,) = graph.messages
    assert set(message.recipients) == {"bob@example.test", "cy@example.test"}
    assert b"cy@example.test" not in message.source
    assert smtp.count("connect") == tried
    house.clock.advance(6)
    house.nudge_until(lambda: len(house.server.messages(house.user, "Sent")) == 1 and is_filed(house))
    (item,) = in_sent(house)
    assert (item["id"], item["subject"]) == (sent.data["result"]["id"], "Once")
    assert house.now["status"] == "ready"


def is_filed(house: SignedIn) -> bool:
    sql = "SELECT copy FROM delivery_operations WHERE account_id = ?"
    return str(house.desk.appliance.store.database.value(sql, (house.account,))) == "filed"


def test_what_was_in_doubt_is_found_and_stands_in_sent_once(house: SignedIn, graph: GraphServer) -> None:
    graph.at("sent", [DROP])
    sent = house.desk.send(house.account, a_message(subject="Doubt"))
    assert sent.data["status"] == "uncertain", sent
    house.clock.advance(6)
    house.nudge_until(lambda: is_filed(house))
    done = house.desk.delivery(house.account, sent.data["operationId"]).data
    assert done["status"] == "succeeded"
    assert [item["id"] for item in in_sent(house)] == [done["result"]["id"]]
    assert len(graph.messages) == 1


def test_what_is_answered_and_forwarded_is_whole(house: SignedIn, graph: GraphServer) -> None:
    file, picture = random.Random(1).randbytes(3_400_000), random.Random(2).randbytes(2_500_000)
    original = EmailMessage()
    original["From"], original["To"] = "bob@example.test", house.user
    original["Subject"], original["Message-ID"] = "Plans", "<1@x.test>"
    original.set_content("Look")
    original.add_alternative('<p>Look: <img src="cid:p@x.test"></p>', subtype="html")
    html = original.get_body(("html",))
    assert html is not None
    html.add_related(picture, "image", "png", cid="<p@x.test>", filename="p.png")
    original.add_attachment(file, "application", "zip", filename="Pläne.zip")
    house.server.deliver(house.user, original.as_bytes(policy=SMTP))
    house.nudge_until(lambda: bool(in_folder(house, "inbox")))
    (item,) = in_folder(house, "inbox")
    path = f"/accounts/{house.account}/messages/{item['id']}/forward"
    to = {"to": [{"email": "cy@example.test"}], "comment": "See below"}
    assert house.desk.ask("POST", path, to, Idempotency_Key=a_key()).data["status"] == "succeeded"
    (forwarded,) = graph.messages
    read = parse_message(forwarded.source)
    assert {each.filename: attachment_bytes(forwarded.source, each.part) for each in read.attachments} == {
        "p.png": picture,
        "Pläne.zip": file,
    }
    assert ("See below" in str(read.text), "cid:p@x.test" in str(read.html)) == (True, True)
    assert (read.in_reply_to, [each.name for each in forwarded.files]) == ((), ["p.png", "Pläne.zip"])
    attached = {"filename": "a", "mimeType": "application/zip", "content": base64.b64encode(file).decode()}
    body = {"replyToMessageId": item["id"], "body": {"text": "Fine"}, "attachments": [attached]}
    assert house.desk.send(house.account, body).data["status"] == "succeeded"
    answer = parse_message(graph.messages[-1].source)
    assert (answer.in_reply_to, answer.references) == (("<1@x.test>",), ("<1@x.test>",))
    assert len(graph.messages[-1].files) == 1


def test_smtp_that_is_turned_off_later_costs_no_message(
    tmp_path: Path, mail_server: MailServer, smtp: TokenSmtp
) -> None:
    smtp.forget()
    house = SignedIn(tmp_path, mail_server, "outlook", smtp, sending__keep_connection=0)
    try:
        assert house.desk.send(house.account, a_message()).data["status"] == "succeeded"
        with graph_server(house.oauth, mail_server.folder / "tls") as graph:
            lead_to(house, graph)
            smtp.at("auth", SMTP_IS_OFF)
            assert house.desk.send(house.account, a_message()).data["status"] == "succeeded"
            assert (len(smtp.messages), len(graph.messages)) == (1, 1)
            assert house.now["status"] == "ready"
    finally:
        house.close()


def test_a_shared_mailbox_is_read_and_sends_as_itself(tmp_path: Path, mail_server: MailServer, smtp: TokenSmtp) -> None:
    house = SignedIn(tmp_path, mail_server, "outlook", smtp)
    try:
        team, person = mail_server.fresh_user(), house.user
        # Exchange admits everyone with access to the mailbox; Dovecot compares the owner of the token.
        mail_server.tokens.ask = lambda token: team if house.oauth.user_of(token) == person else None
        with graph_server(house.oauth, mail_server.folder / "tls") as graph:
            lead_to(house, graph)
            graph.shared = {person: {team}}
            house.account = str(house.sign_in(person, email=team)["id"])
            house.wait_for("ready")
            assert house.now["email"] == team
            # The appliance did not know that it is shared, so it did not request the scopes for that.
            assert house.desk.send(house.account, a_message()).status == 503
            assert house.wait_for("reauth_required")["error"]["fault"] == "consent_required"
            house.sign_in(person, accountId=house.account)
            house.wait_for("ready")
            assert house.desk.send(house.account, a_message()).data["status"] == "succeeded"
            assert [(each.owner, each.sender) for each in graph.messages] == [(team, team)]
    finally:
        house.close()
