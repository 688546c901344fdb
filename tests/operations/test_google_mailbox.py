"""A mailbox of Google through the API: signed in, with labels, sending, its access lost and regained."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.desk import Desk, a_message
from tests.servers.fake_clock import FakeClock
from tests.servers.gmail import IMAP_OFF, TOO_MANY, Gmail
from tests.servers.gmail_letters import ALL, USER, in_folders, letter
from tests.servers.gmail_mailbox import GmailMailbox
from tests.servers.mailboxes import wait_until
from tests.servers.oauth_provider import OAuthServer
from tests.servers.smtp_script import Accepted


class Google:
    """The provider's sign-in and its mail, and an appliance with a mailbox there."""

    def __init__(self, folder: Path, certificates: Path) -> None:
        self.oauth = OAuthServer(certificates, "google").start()
        self.oauth.person = USER
        self.gmail = Gmail(accepts=lambda user, token: self.oauth.user_of(token) == user).start()
        self.box: GmailMailbox = self.gmail.add(USER, "no password does")
        self.gmail.passwords.clear()
        ports = self.gmail.imap_port, self.gmail.smtp_port
        row = self.oauth.row(imap=ports[0], smtp=ports[1], imap_tls="none", smtp_tls="none")
        (folder / "providers.toml").write_text(row)
        given = {
            "remote__providers_file": str(folder / "providers.toml"),
            "remote__ca_file": str(self.oauth.ca_file),
            "sync__poll_interval": 1,
            "sending__answer_within": 20,
        }
        self.clock = FakeClock()
        self.desk = Desk(folder / "data", self.clock, **given)  # type: ignore[arg-type]
        app = {"clientId": self.oauth.app.client_id, "clientSecret": self.oauth.app.client_secret}
        assert self.desk.ask("PUT", "/admin/oauth-apps/google", app).status == 200

    def close(self) -> None:
        """Stop all."""
        self.desk.close()
        self.gmail.stop()
        self.oauth.stop()

    def sign_in(self) -> str:
        """Go through Google's page; the mailbox that comes of it, once it is mirrored."""
        begun = self.desk.ask("POST", "/accounts/oauth/google", {}).data
        back = self.oauth.consent(begun["authorizationUrl"])
        self.account = str(self.desk.ask("POST", "/accounts/oauth/google/finish", {"redirectUrl": back}).data["id"])
        self.wait(lambda: self.now["status"] == "ready")
        return self.account

    @property
    def now(self) -> Any:
        """The mailbox as it is."""
        return self.desk.account(self.account)

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until this is so; the mailbox is looked at meanwhile."""

        def is_so() -> bool:
            self.desk.appliance.sync.wake(self.account, None)
            return condition()

        wait_until(is_so, lambda: f"{self.now} {self.listed()}", 10)

    def listed(self, **asked: str) -> list[Any]:
        """Messages as they are listed."""
        query = "&".join(f"{name}={value}" for name, value in asked.items())
        return list(self.desk.ask("GET", f"/accounts/{self.account}/messages?{query}").data["items"])

    def subjects(self, folder: str) -> set[str]:
        """Of the messages that a folder shows."""
        return {each["subject"] for each in self.listed(folder=folder)}

    def act(self, message_id: str, action: str, **more: Any) -> None:
        """A bulk action on one message, which succeeds."""
        body = {"messageIds": [message_id], "action": action, **more}
        answer = self.desk.ask("POST", f"/accounts/{self.account}/messages/actions", body)
        assert answer.data["succeededIds"] == [message_id], answer


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture
def google(tmp_path: Path, certificates: Path) -> Iterator[Google]:
    made = Google(tmp_path, certificates)
    yield made
    made.close()


def test_one_message_in_five_labels_is_listed_once_and_by_each_label(google: Google) -> None:
    google.box.deliver(letter("one"), "\\Inbox", "Work", "Work/2024", "Müll", "\\Starred", "\\Important")
    google.sign_in()
    google.wait(lambda: len(google.listed()) == 1)
    (message,) = google.listed()
    assert sorted(message["labels"]) == ["Müll", "Work", "Work/2024"]
    folders = {
        each["path"]: each["totalCount"] for each in google.desk.ask("GET", f"/accounts/{google.account}/folders").data
    }
    shown = {path for path, count in folders.items() if count}
    assert shown == in_folders(google.box, next(iter(google.box.letters)))
    assert all([each["id"] for each in google.listed(folder=path)] == [message["id"]] for path in ("inbox", "Work"))


def test_what_is_done_here_is_done_there_and_the_other_way_round(google: Google) -> None:
    number = google.box.deliver(letter("one"))
    google.sign_in()
    google.wait(lambda: "one" in google.subjects("inbox"))
    identity = google.listed()[0]["id"]
    google.act(identity, "addLabels", labels=["Reise nach Köln"])
    google.act(identity, "archive")
    assert in_folders(google.box, number) == {ALL, "Reise nach Köln"}
    assert google.subjects("inbox") == set()
    google.act(identity, "trash")
    assert in_folders(google.box, number) == {"[Gmail]/Trash"}
    google.act(identity, "untrash")
    assert in_folders(google.box, number) == {ALL, "INBOX"}
    google.box.unlabel(number, "\\Inbox")
    google.box.label(number, "there")
    google.wait(lambda: [(each["id"], each.get("labels")) for each in google.listed()] == [(identity, ["there"])])
    assert not google.subjects("inbox")
    assert not google.box.expunged_in_all_mail


def test_sent_mail_is_there_once_and_in_its_thread(google: Google) -> None:
    number = google.box.deliver(letter("hello"))
    google.sign_in()
    google.wait(lambda: "hello" in google.subjects("inbox"))
    (parent,) = google.listed()
    body = a_message("bob@example.test", subject="Re: hello", replyToMessageId=parent["id"])
    answer = google.desk.send(google.account, body)
    assert answer.data["status"] == "succeeded", answer
    google.wait(lambda: len(google.listed(folder="sent")) == 1 and len(google.listed()) == 2)
    (sent,) = google.listed(folder="sent")
    assert sent["threadId"] == parent["threadId"]
    (there,) = (each for each in google.box.letters.values() if each.number != number)
    assert in_folders(google.box, there.number) == {ALL, "[Gmail]/Sent Mail"}
    assert not [command for command in google.gmail.commands if command.startswith("APPEND")]


def test_access_that_was_taken_back_is_told_and_regained_with_the_same_ids(google: Google) -> None:
    google.box.deliver(letter("one"))
    google.sign_in()
    google.wait(lambda: "one" in google.subjects("inbox"))
    identity = google.listed()[0]["id"]
    google.clock.advance(120)  # a token that is new is not asked for again
    google.oauth.revoke()
    google.gmail.cut_all()
    google.wait(lambda: google.now["status"] == "reauth_required")
    assert google.now["error"]["fault"] == "access_revoked"
    google.box.deliver(letter("two"))
    before = google.account
    assert google.sign_in() == before
    google.wait(lambda: google.subjects("inbox") == {"one", "two"})
    assert identity in {each["id"] for each in google.listed()}


@pytest.mark.parametrize("knows_by_message_id", [False, True])
def test_a_draft_is_written_changed_and_sent(google: Google, knows_by_message_id: bool) -> None:
    google.box.knows_by_message_id = knows_by_message_id
    google.sign_in()
    path = f"/accounts/{google.account}/drafts"
    draft = google.desk.ask("POST", path, {"subject": "plan", "body": {"text": "first"}}).data
    google.wait(lambda: google.subjects("drafts") == {"plan"})
    changed = {"subject": "plan", "body": {"text": "second"}, "to": [{"email": "bob@example.test"}]}
    answer = google.desk.ask("PUT", f"{path}/{draft['id']}", changed)
    assert answer.status == 200, answer
    google.wait(lambda: len(google.listed(folder="drafts")) == 1)
    (there,) = (letter for letter in google.box.letters.values() if letter.place == "all")
    assert b"second" in there.source
    sent = google.desk.send(google.account, {"draftId": google.listed(folder="drafts")[0]["id"]})
    assert sent.data["status"] == "succeeded", sent
    google.wait(lambda: not google.listed(folder="drafts") and len(google.listed(folder="sent")) == 1)
    left = [in_folders(google.box, number) for number in google.box.letters]
    assert left == [{ALL, "[Gmail]/Sent Mail"}]
    assert not google.box.expunged_in_all_mail


@pytest.mark.parametrize(
    ("spoil", "status", "code", "fault"),
    [
        (lambda google: google.gmail.throttle(), "error", "provider_rate_limited", "rate_limited"),
        (
            lambda google: google.gmail.refuse_login(USER, TOO_MANY),
            "error",
            "provider_rate_limited",
            "too_many_connections",
        ),
        (
            lambda google: google.gmail.refuse_login(USER, IMAP_OFF),
            "reauth_required",
            "authentication_failed",
            "imap_access_off",
        ),
        (lambda google: google.box.hide_all_mail(), "error", "provider_unavailable", "all_mail_hidden"),
    ],
    ids=["throttled", "too many connections", "IMAP off", "all mail hidden"],
)
def test_what_gmail_refuses_is_told_by_name(
    google: Google, spoil: Callable[[Google], None], status: str, code: str, fault: str
) -> None:
    google.sign_in()
    google.clock.advance(120)
    spoil(google)
    google.gmail.cut_all()
    google.wait(lambda: told(google.now) == (status, code, fault))
    google.gmail.forget()
    google.box.show("[Gmail]/All Mail")
    google.clock.advance(3600)
    if status == "reauth_required":  # once it is switched on, the login is tried again
        assert google.desk.ask("POST", f"/accounts/{google.account}/reconnect", {}).status == 200
    google.wait(lambda: google.now["status"] == "ready")


def told(account: dict[str, Any]) -> tuple[str, str | None, str | None]:
    """A mailbox's status, and the code and the name of what is wrong with it."""
    error = account["error"] or {}
    return account["status"], error.get("code"), error.get("fault")


@pytest.mark.parametrize("place", ["trash", "spam"])
def test_sent_mail_that_somebody_puts_away_at_once_is_there_once(google: Google, place: str) -> None:
    google.sign_in()
    put = {"trash": google.box.trash, "spam": google.box.junk}[place]
    keep = google.gmail.smtp.keep

    def keep_and_put_away(message: Accepted) -> None:
        keep(message)
        put(max(google.box.letters))

    google.gmail.smtp.keep = keep_and_put_away  # type: ignore[method-assign]
    answer = google.desk.send(google.account, a_message("bob@example.test"))
    assert answer.data["status"] == "succeeded", answer
    google.wait(lambda: len(google.listed(folder=place)) == 1)
    google.wait(lambda: not google.listed() and not google.listed(folder="sent"))
    assert google.listed(folder=place)[0]["id"] == answer.data["result"]["id"]
