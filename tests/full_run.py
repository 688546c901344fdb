"""One of everything that people, administrators and keys may do, with every secret that came up on the way."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.full_run_by_tools import ByTools, letter, misplace
from tests.mcp_server.assistant import over_http
from tests.servers.dovecot import MailServer
from tests.servers.mailboxes import PASSWORD as MAILBOX_PASSWORD
from tests.servers.mailboxes import account_at, wait_until
from tests.servers.running import PASSWORD, Answer, RunningAppliance
from tests.tls.issued import FAR, authority, issued

Steps = tuple[str, ...]
ASSISTANT = {"name": "assistant", "permissionProfile": "full"}


@dataclass
class Step:
    """One request, its answer, and the acts that the audit log tells of since."""

    name: str
    answer: Answer
    actions: Steps


@dataclass
class FullRun:
    """Asks a running appliance for one of everything.

    `secrets`: each by name. `shown_by`: the step that may show it. `licence`: a token that its issuer signed.
    """

    running: RunningAppliance
    mail: MailServer
    licence: str
    steps: list[Step] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)
    shown_by: dict[str, str] = field(default_factory=dict)
    #: Tools that were used, and those there are.
    tools: tuple[set[str], set[str]] = (set(), set())
    _seen: set[str] = field(default_factory=set)

    def go(self) -> "FullRun":
        """Do everything, in an order in which it makes sense."""
        self.secrets["set-up code"] = (self.running.folder / "setup-code").read_text().strip()
        self._remember("set up", "admin's session", self.running.set_up())
        self._log_in()
        bob = self._invite()
        self._keys(bob)
        self._mailboxes(bob)
        self._apps_and_licence()
        self._https()
        self._backups()
        self._misplaced_secrets()
        self._leave(bob)
        return self

    def ask(
        self, name: str, method: str, path: str, body: object = None, *, status: int, token: str | None = None
    ) -> Any:
        """One step; answers the data of a success, the error of a refusal."""
        answer = self.running.ask(method, path, body, token=token)
        assert answer.status == status, (name, answer)
        self.steps.append(Step(name, answer, self._news()))
        return answer.body.get("data", answer.body.get("error"))

    def _news(self) -> Steps:
        """What was recorded since the last look, the oldest first."""
        events = self.running.ask("GET", "/admin/audit-events?limit=100").data["items"]
        new = [event for event in events if event["id"] not in self._seen]
        self._seen |= {event["id"] for event in new}
        return tuple(f"{event['action']} {event['outcome']}" for event in reversed(new))

    def _secret(self, name: str, value: str) -> str:
        self.secrets[name] = value
        return value

    def _remember(self, step: str, name: str, value: str) -> str:
        """A secret that exactly one step may show."""
        assert name not in self.secrets
        self.shown_by[name] = step
        return self._secret(name, value)

    def _log_in(self) -> None:
        login = {"email": "ada@example.org", "deviceName": "again"}
        self._secret("password", PASSWORD)
        wrong = self._secret("wrong password", "thermonuclear gherkin")
        self.ask("log in wrongly", "POST", "/auth/login", {**login, "password": wrong}, status=401)
        again = self.ask("log in", "POST", "/auth/login", {**login, "password": PASSWORD}, status=200)
        self._remember("log in", "second session", again["token"])
        self.ask("rename oneself", "PATCH", "/me", {"name": "Ada L."}, status=200)
        changed = self._secret("changed password", "a changed battery staple")
        change = {"currentPassword": wrong, "newPassword": changed}
        self.ask("change the password wrongly", "POST", "/me/password", change, status=401)
        self.ask("change the password", "POST", "/me/password", {**change, "currentPassword": PASSWORD}, status=200)
        self.ask("a revoked session", "GET", "/me", status=401, token=again["token"])
        link = self.ask("make a console link", "POST", "/auth/console-links", {}, status=201)
        token = self._remember("make a console link", "console link", link["url"].rpartition("=")[2])
        opened = self.ask("open the console", "POST", "/auth/console-links/redeem", {"token": token}, status=200)
        self._remember("open the console", "console session", opened["token"])
        self.ask("open it again", "POST", "/auth/console-links/redeem", {"token": token}, status=400)
        self.ask("log out", "POST", "/auth/logout", status=200, token=opened["token"])

    def _invite(self) -> str:
        person = {"name": "Bob", "email": "bob@example.org", "role": "member"}
        made = self.ask("create a member", "POST", "/admin/members", person, status=201)
        bob = str(made["member"]["id"])
        first = self._remember("create a member", "first invitation", made["invitation"]["token"])
        again = self.ask("invite again", "POST", f"/admin/members/{bob}/invitation", status=201)
        second = self._remember("invite again", "second invitation", again["token"])
        chosen = self._secret("member's password", "eleven green bottles")
        enroll = {"token": first, "password": chosen, "deviceName": "Bob's"}
        self.ask("enroll too late", "POST", "/auth/enroll", enroll, status=400)
        weak = self._secret("weak password", "tooshort-1")
        self.ask("enroll weakly", "POST", "/auth/enroll", {**enroll, "token": second, "password": weak}, status=400)
        enrolled = self.ask("enroll", "POST", "/auth/enroll", {**enroll, "token": second}, status=200)
        self._remember("enroll", "member's session", enrolled["token"])
        reset = self.ask("issue a reset", "POST", f"/admin/members/{bob}/password-reset", status=201)
        self._remember("issue a reset", "reset", reset["token"])
        fresh = self._secret("reset password", "twelve purple bottles")
        redeem = {"token": reset["token"], "password": fresh, "deviceName": "Bob's"}
        done = self.ask("reset the password", "POST", "/auth/password-reset", redeem, status=200)
        self._remember("reset the password", "member's new session", done["token"])
        self.ask("reset it again", "POST", "/auth/password-reset", redeem, status=400)
        self.ask("change a member", "PATCH", f"/admin/members/{bob}", {"name": "Robert"}, status=200)
        return bob

    def _keys(self, bob: str) -> None:
        session = self.secrets["member's new session"]
        own = {"name": "reader", "permissionProfile": "read-only"}
        made = self.ask("make a key", "POST", "/me/api-keys", own, status=201, token=session)
        key = self._remember("make a key", "key", made["token"])
        self.ask("use a key", "GET", "/me", status=200, token=key)
        change: dict[str, list[str]] = {"accounts": []}
        self.ask("change a key", "PATCH", f"/admin/api-keys/{made['apiKey']['id']}", change, status=200)
        admin_key = {"name": "auditor", "customCapabilities": ["admin.audit"], "memberId": bob}
        given = self.ask("make a key for somebody", "POST", "/admin/api-keys", admin_key, status=201)
        self._remember("make a key for somebody", "given key", given["token"])
        self.ask("revoke a key", "DELETE", f"/admin/api-keys/{given['apiKey']['id']}", status=200)
        self.ask("a revoked key", "GET", "/me", status=401, token=given["token"])
        listed = self.ask("list keys", "GET", "/admin/api-keys", status=200)
        assert [one["name"] for one in listed] == ["reader"]

    def _mailboxes(self, bob: str) -> None:
        user, other = self.mail.fresh_user(), self.mail.fresh_user()
        self._secret("mailbox password", f': "{MAILBOX_PASSWORD}"')  # as it stands in JSON
        bad = self._secret("wrong mailbox password", "mailbox-gherkin")
        self.ask("connect wrongly", "POST", "/accounts", self._mailbox(user, bad), status=400)
        self.mail.deliver(user, letter(user))
        account = self.ask("connect", "POST", "/accounts", self._mailbox(user), status=201)["id"]
        path = f"/accounts/{account}"
        self.ask("rename a mailbox", "PATCH", path, {"displayName": "Work"}, status=200)
        self.ask("share", "PUT", f"{path}/access", {"sharedWithAll": False, "memberIds": [bob]}, status=200)
        change = {"imap": {"password": bad}, "smtp": {"password": bad}}
        self.ask("reconnect wrongly", "POST", f"{path}/reconnect", change, status=400)
        self.ask("reconnect", "POST", f"{path}/reconnect", {}, status=200)
        for_bob = {**self._mailbox(other), "ownerMemberId": bob}
        made = self.ask("connect for somebody", "POST", "/admin/accounts", for_bob, status=201)
        session = self.secrets["member's new session"]
        self.ask("remove a mailbox", "DELETE", f"/accounts/{made['id']}", status=200, token=session)
        self.ask("list all mailboxes", "GET", "/admin/accounts", status=200)
        self._assistant(account)

    def _assistant(self, account: str) -> None:
        wait_until(lambda: len(self._messages(account)) > 0, lambda: "the letter does not come", 20)
        made = self.ask("make a key for an assistant", "POST", "/me/api-keys", ASSISTANT, status=201)
        key = self._remember("make a key for an assistant", "assistant's key", made["token"])
        with over_http(self.running.url, key) as assistant:
            by = ByTools(assistant, account, self.mail.fresh_user(), self._tell, self._remember)
            by.go()
            misplace(by, key, self.secrets["changed password"])
            self.tools = (by.used, {tool["name"] for tool in assistant.tools()})

    def _messages(self, account: str) -> Any:
        return self.running.ask("GET", f"/accounts/{account}/messages").data["items"]

    def _tell(self, step: str, result: dict[str, Any]) -> None:
        """What a tool came to, as a step."""
        self.steps.append(Step(step, Answer(200, result, {}), self._news()))

    def _mailbox(self, user: str, password: str = MAILBOX_PASSWORD) -> dict[str, Any]:
        return account_at(user, self.mail.imap_port, self.mail.submission_port, password)

    def _apps_and_licence(self) -> None:
        hidden = self._secret("client secret", "GOCSPX-sesame-of-the-forty")
        google = {"clientId": "google-client", "clientSecret": hidden}
        shown = self.ask("save an app", "PUT", "/admin/oauth-apps/google", google, status=200)
        assert shown["google"]["clientSecretConfigured"]
        self.ask("forget an app", "DELETE", "/admin/oauth-apps/google", status=200)
        self._secret("licence", self.licence)
        self.ask("install a licence", "PUT", "/admin/license", {"token": self.licence}, status=200)
        forged = self._secret("forged licence", self.licence[:-20] + "A" * 20)
        self.ask("install a forged licence", "PUT", "/admin/license", {"token": forged}, status=400)
        self.ask("remove the licence", "DELETE", "/admin/license", status=200)
        self.ask("change a setting", "PATCH", "/admin/settings", {"log.level": "debug"}, status=200)

    def _https(self) -> None:
        own = issued(since=datetime(2020, 1, 1, tzinfo=UTC), until=FAR)
        self._secret("private key", own.key.decode().splitlines()[1])
        given = {"certificate": own.pem.decode(), "privateKey": own.key.decode()}
        wrong = {**given, "certificate": authority().pem.decode()}
        self.ask("import a certificate wrongly", "PUT", "/admin/https/certificate", wrong, status=400)
        self.ask("import a certificate", "PUT", "/admin/https/certificate", given, status=200)
        here = {"enabled": True, "host": "127.0.0.1", "port": 0}
        self.ask("offer HTTPS", "PATCH", "/admin/https", here, status=200)
        self.ask("offer it elsewhere", "PATCH", "/admin/https", {"host": "192.0.2.7"}, status=409)
        self.ask("make another certificate", "POST", "/admin/https/rotate", status=200)
        self.ask("offer HTTPS no more", "PATCH", "/admin/https", {"enabled": False}, status=200)

    def _backups(self) -> None:
        self.ask("make a backup", "POST", "/admin/backups", {}, status=201)
        passphrase = self._secret("passphrase", "correct horse backup staple")
        sealed = {"passphrase": passphrase}
        made = self.ask("make a sealed backup", "POST", "/admin/backups", sealed, status=201)
        weak = self._secret("weak passphrase", "backupstapl")
        self.ask("make a weak backup", "POST", "/admin/backups", {"passphrase": weak}, status=400)
        wrong, path = self._secret("wrong passphrase", "incorrect horse backup"), f"/admin/backups/{made['id']}/verify"
        self.ask("verify a backup wrongly", "POST", path, {"passphrase": wrong}, status=400)
        summary = self.ask("verify a backup", "POST", path, sealed, status=200)
        assert summary["members"] == 2
        dry = {"backupId": made["id"], "dryRun": True, **sealed}
        self.ask("look what a restore would bring", "POST", "/admin/restore", dry, status=200)

    def _misplaced_secrets(self) -> None:
        """Secrets where they do not belong: they must not come back, nor be written down."""
        key, session = self.secrets["key"], str(self.running.token)
        self.ask("a token in the query", "GET", f"/me?token={key}", status=400)
        self.ask("a token in the path", "DELETE", f"/me/sessions/{session}", status=404)
        self.ask("a token as a key's id", "DELETE", f"/admin/api-keys/{key}", status=404)
        wrong = {"email": "ada@example.org", "password": {"is": self.secrets["changed password"]}, "deviceName": "x"}
        self.ask("a password of a wrong type", "POST", "/auth/login", wrong, status=400)
        login = {"email": self.secrets["changed password"], "password": "x", "deviceName": "x"}
        self.ask("a password as email", "POST", "/auth/login", login, status=400)
        self.ask("a token as a role", "PATCH", f"/admin/members/{key}", {"role": key}, status=404)

    def _leave(self, bob: str) -> None:
        sessions = self.ask("list sessions", "GET", f"/admin/members/{bob}/sessions", status=200)
        path = f"/admin/members/{bob}/sessions/{sessions[0]['id']}"
        self.ask("end somebody's session", "DELETE", path, status=200)
        self.ask("suspend", "PATCH", f"/admin/members/{bob}", {"status": "suspended"}, status=200)
        self.ask("a suspended member's key", "GET", "/me", status=403, token=self.secrets["key"])
        login = {"email": "bob@example.org", "password": self.secrets["reset password"], "deviceName": "x"}
        self.ask("a suspended member logs in", "POST", "/auth/login", login, status=403)
        self.ask("delete a member", "DELETE", f"/admin/members/{bob}", status=200)


def leaks(texts: Iterable[tuple[str, str]], secrets: dict[str, str]) -> set[tuple[str, str]]:
    """Text and secret, by name, where one stands in the other."""
    return {(where, name) for where, text in texts for name, secret in secrets.items() if secret in text}
