"""An appliance in this process with members, keys and a filled mailbox, any of which a request may remove at any time.

A request may change a password, end a session, remove a mailbox or suspend a member. Whatever the next request needs is
looked up, and created again if it is missing.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from mailbox_appliance import settings
from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.clock import to_timestamp
from mailbox_appliance.mail import folder_roles
from mailbox_appliance.mail.compose import compose
from mailbox_appliance.model.accounts import OAuthApp, OAuthProvider
from mailbox_appliance.model.deliveries import DeliveryStatus, NewDelivery
from mailbox_appliance.model.members import ADMIN_CAPABILITIES, MAIL_CAPABILITIES, KeyPermissions, Role
from mailbox_appliance.model.messages import Address, OutgoingMessage
from mailbox_appliance.model.sync import ListedFolder
from mailbox_appliance.security import passwords
from mailbox_appliance.security.tokens import Kind, hash_token, new_token
from mailbox_appliance.settings import Value
from mailbox_appliance.store.credentials import TokenKind as Invited
from mailbox_appliance.web.app import App
from tests.checked_client import PASSWORD, CheckedClient
from tests.operations.filled import FOLDERS, FilledMailbox, letter
from tests.servers.fake_clock import FakeClock
from tests.servers.issuer import PUBLIC_KEY, sign
from tests.servers.names import Names, NameServer

_HASHED = passwords.hash_password(PASSWORD)
_WITH_FILE = b"""From: Bob <bob@example.test>\r
To: box@example.org\r
Subject: A file\r
MIME-Version: 1.0\r
Content-Type: multipart/mixed; boundary=b\r
\r
--b\r
Content-Type: text/html\r
\r
<p>Hello <b>there</b>\r
--b\r
Content-Type: text/plain\r
Content-Disposition: attachment; filename*=UTF-8''%C3%84rger.txt\r
\r
What is in it.\r
--b--\r
"""
_ABLE = """
SELECT id, password_hash FROM members WHERE role = ? AND status = 'active' AND password_hash IS NOT NULL
ORDER BY created_at, id LIMIT 1"""
_TOKENS: dict[Invited, Kind] = {"invitation": "mbxi", "password_reset": "mbxr", "console_link": "mbxc"}
#: Seconds. Most requests meet no limit of sign-in attempts, and a few do.
_BETWEEN_REQUESTS = 60.0
#: For a backup that needs a passphrase.
PASSPHRASE = "a passphrase of some words"


class Household:
    """The appliance and its objects. Its workers are stopped; its clock advances a minute with each request."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        given: dict[str, Value] = {"remote.timeout": 1, "sending.answer_within": 1, "log.requests": False}
        given |= {"license.issuer_public_key": PUBLIC_KEY}
        # Server discovery gets "no such domain", and no other server is asked.
        self._names = NameServer(Names()).__enter__()
        given |= {"remote.resolver": f"127.0.0.1:{self._names.port}", "remote.autoconfig_directory": ""}
        self.appliance = Appliance(folder, settings.load(None, {}, given), self.clock)
        self.store = self.appliance.store
        self.app: Callable[..., Any] = App(self.appliance)
        CheckedClient(self.appliance).set_up()
        self._tokens: dict[str, str] = {}
        self._boxes: dict[str, _Box] = {}
        self._made = 0

    def close(self) -> None:
        """Close the store."""
        self.appliance.stop(0.5)
        self._names.__exit__()

    def token(self, kind: str) -> str:
        """Return the token of a credential that is valid now: `admin`, `member` or `key`."""
        self.clock.advance(_BETWEEN_REQUESTS)
        token = self._tokens.get(kind, "")
        if self.store.credentials.find(hash_token(token)) is None:
            made = {"admin": self._admin_session, "member": self._member_session, "key": self._key}
            token = self._tokens[kind] = made[kind]()
        return token

    def real(self, name: str, random: Random) -> str | None:
        """Return an existing value for a parameter or field of this name; None if there is none of its kind."""
        makers: dict[str, Callable[[Random], str]] = {
            "accountId": lambda _: self.box.id,
            "messageId": lambda r: r.choice((self.box.with_file, *self.box.messages)),
            "messageWithFile": lambda _: self.box.with_file,
            "attachmentId": lambda _: self.box.attachment,
            "threadId": lambda r: r.choice(self.box.threads),
            "draftId": lambda r: r.choice(self.box.drafts),
            "operationId": lambda r: self._delivery(r.choice(("queued", "failed", "uncertain", "succeeded"))),
            "scheduleId": lambda _: self._scheduled(),
            "sessionId": lambda _: self._another_session(self.admin),
            "sessionOfMember": lambda _: self._another_session(self.member),
            "keyId": lambda _: self._another_key(self.admin),
            "memberId": lambda r: self.member if r.random() < 0.7 else self._new_member(None),
            "provider": lambda r: self._provider(r.choice(("google", "outlook"))),
            "backupId": lambda r: self._backup(r.choice((None, PASSPHRASE))),
            "setupCode": lambda _: self._setup_code(),
            "license": lambda _: sign(),
            "invitation": lambda _: self._one_time("invitation"),
            "password_reset": lambda _: self._one_time("password_reset"),
            "console_link": lambda _: self._one_time("console_link"),
        }
        return makers[name](random) if name in makers else None

    @property
    def admin(self) -> str:
        """Return an administrator who can sign in; one is created if necessary, and the password is reset to the usual
        one.
        """
        found = self._first("admin")
        assert found is not None, "the last administrator is gone"
        return found

    @property
    def email(self) -> str:
        """Return the administrator's address."""
        return self.store.members.get(self.admin).email

    @property
    def member(self) -> str:
        """Return a member who is not an administrator and can sign in."""
        return self._first("member") or self._new_member(_HASHED)

    @property
    def box(self) -> "_Box":
        """Return a mailbox of the administrator, with mail."""
        admin = self.admin
        box = self._boxes.get(admin)
        if box is None or self.store.accounts.find_reachable(box.id, admin) is None:
            box = self._boxes[admin] = _Box(self.appliance, admin, f"box{self._number()}@example.org")
        return box

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _admin_session(self) -> str:
        return self._session(self.admin)[1]

    def _member_session(self) -> str:
        return self._session(self.member)[1]

    def _session(self, member_id: str) -> tuple[str, str]:
        token = new_token("mbxs")
        with self.store.database.transaction(durable=True):
            session = self.store.credentials.add_session(member_id, hash_token(token), "another device")
        return session.id, token

    def _another_session(self, member_id: str) -> str:
        return self._session(member_id)[0]

    def _key(self) -> str:
        token = new_token("mbxk")
        self._add_key(self.admin, token)
        return token

    def _another_key(self, member_id: str) -> str:
        return self._add_key(member_id, new_token("mbxk"))

    def _add_key(self, member_id: str, token: str) -> str:
        supplemental = tuple(sorted(ADMIN_CAPABILITIES))
        everything = KeyPermissions("full", (*sorted(MAIL_CAPABILITIES), *supplemental), supplemental, None)
        with self.store.database.transaction(durable=True):
            return self.store.api_keys.add(member_id, "a key", hash_token(token), everything, made_by=member_id).id

    def _new_member(self, hashed: str | None) -> str:
        email = f"member{self._number()}@example.org"
        with self.store.database.transaction(durable=True):
            return self.store.members.add(name="Bob", email=email, role="member", password_hash=hashed).id

    def _first(self, role: Role) -> str | None:
        """Return the first member with this role who can sign in, with the usual password from now on."""
        row = self.store.database.row(_ABLE, (role,))
        if row is None:
            return None
        if row[1] != _HASHED:
            with self.store.database.transaction(durable=True):
                self.store.members.set_password(row[0], _HASHED)
        return str(row[0])

    def _one_time(self, kind: Invited) -> str:
        token = new_token(_TOKENS[kind])
        member_id = self._new_member(None) if kind == "invitation" else self.member
        with self.store.database.transaction(durable=True):
            self.store.one_time_tokens.issue(kind, member_id, hash_token(token), timedelta(hours=1))
        return token

    def _provider(self, name: OAuthProvider) -> str:
        """Return this provider, with a saved application."""
        with self.store.database.transaction(durable=True):
            self.store.oauth_apps.put(OAuthApp(name, "client", "secret", None, public_client=False))
        return name

    def _backup(self, passphrase: str | None) -> str:
        """Return a backup with this passphrase, or without one."""
        is_sealed = passphrase is not None
        there = (one for one in self.store.backups.list() if one.passphrase_protected == is_sealed)
        found = next(there, None) or self.store.backups.create("manual", passphrase)
        return found.id

    def _setup_code(self) -> str:
        (self.appliance.folder / SETUP_CODE).write_text("code\n")
        return "code"

    def _scheduled(self) -> str:
        delivery = self.store.deliveries.find(self._delivery("queued"))
        assert delivery is not None
        return str(delivery[0].schedule_id)

    def _delivery(self, status: DeliveryStatus) -> str:
        """Return an operation in the journal; a queued one is scheduled in some days."""
        sender = Address(email=self.box.email)
        outgoing = OutgoingMessage(sender=sender, to=(sender,), cc=(), bcc=(), subject="Later", text="Hello", html=None)
        at = self.clock.now() + timedelta(days=3)
        is_scheduled = status == "queued"
        new = NewDelivery(
            account_id=self.box.id,
            credential_id="ses_before",
            member_id=self.admin,
            idempotency_key=f"key-{self._number()}",
            request_hash="hash",
            kind="scheduled" if is_scheduled else "send",
            message=compose(outgoing, message_id=f"<{self._number()}@example.org>", date=at),
            thread_id=None,
            send_at=at if is_scheduled else None,
            to=outgoing.to,
            subject=outgoing.subject,
        )
        operation_id = self.store.deliveries.accept(new).delivery.operation_id
        if not is_scheduled:
            self.store.deliveries.set_outcome(operation_id, status)
        return operation_id

    def soon(self) -> str:
        """Return a time within the next year."""
        return to_timestamp(self.clock.now() + timedelta(days=5))


class _Box(FilledMailbox):
    """A mailbox with a conversation, a file, drafts, and a message in every folder."""

    def __init__(self, appliance: Appliance, owner_id: str, email: str) -> None:
        super().__init__(appliance, owner_id, email)
        self.email = email
        listed = [
            ListedFolder(path, "/", frozenset({mark} - {""})) for path, mark in (*FOLDERS, ("Drafts", "\\drafts"))
        ]
        with self.store.database.transaction():
            self.store.folders.replace(self.id, tuple(listed), folder_roles.assign_roles(listed))
        self.messages = self.deliver(*(letter(f"Letter {n}", number=n, answers=n - 1) for n in range(1, 8)))
        [with_file] = self.deliver(_WITH_FILE, flags=("\\Flagged", "\\Seen"))
        self.messages += [with_file, *self.deliver(letter("Junk"), folder="Junk"), *self.deliver(b"", folder="Trash")]
        self.drafts = self.deliver(letter("Not yet"), letter("Nor this"), folder="Drafts", flags=("\\Draft",))
        read = [self.store.messages.get(self.id, one)[0] for one in self.messages]
        self.threads = [message.thread_id for message in read if message.thread_id]
        self.with_file, self.attachment = with_file, next(m.attachments[0].id for m in read if m.attachments)
        self._cache(with_file, "", _WITH_FILE)
        self._cache(
            with_file, self.store.messages.get_attachment(self.id, with_file, self.attachment)[1], b"What is in it."
        )

    def _cache(self, message_id: str, part: str, content: bytes) -> None:
        """Store a part as if it had been fetched from the server before."""
        number = self.store.mailbox_writer.locate(self.id, [message_id])[message_id].number
        self.store.part_cache.put(number, part, [content], limit=1 << 20).close()
