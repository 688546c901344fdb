"""After one of everything: each secret was shown once at most, stands nowhere, and every act is in the audit log."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from mailbox_appliance.store.store import Store
from tests.full_run import FullRun, Steps, leaks
from tests.full_run_by_tools import PRIVATE
from tests.servers.dovecot import MailServer
from tests.servers.running import RunningAppliance
from tests.store.test_secrets_at_rest import files_of, found

#: What the audit log tells of each step that is an act of authentication or management; no other step adds a row.
RECORDED: dict[str, Steps] = {
    "log in wrongly": ("setup success", "session.create success", "session.create failure"),
    "log in": ("session.create success",),
    "rename oneself": ("member.update success",),
    "change the password wrongly": ("password.change failure",),
    "change the password": ("password.change success", "session.revoke success"),
    "make a console link": ("console_link.create success",),
    "open the console": ("console_link.redeem success", "session.create success"),
    "open it again": ("console_link.redeem failure",),
    "log out": ("session.revoke success",),
    "create a member": ("member.create success", "invitation.create success"),
    "invite again": ("invitation.create success",),
    "enroll too late": ("member.enroll failure",),
    "enroll": ("member.enroll success", "session.create success"),
    "issue a reset": ("password_reset.create success",),
    "reset the password": ("password_reset.redeem success", "session.create success", "session.revoke success"),
    "reset it again": ("password_reset.redeem failure",),
    "change a member": ("member.update success",),
    "make a key": ("api_key.create success",),
    "change a key": ("api_key.update success",),
    "make a key for somebody": ("api_key.create success",),
    "revoke a key": ("api_key.revoke success",),
    "connect": ("account.create success",),
    "rename a mailbox": ("account.update success",),
    "share": ("account.access success",),
    "reconnect": ("account.reconnect success",),
    "connect for somebody": ("account.create success",),
    "remove a mailbox": ("account.delete success",),
    "make a key for an assistant": ("api_key.create success",),
    "tool cancel_scheduled_email": ("schedule.cancel success",),
    "save an app": ("oauth_app.set success",),
    "forget an app": ("oauth_app.delete success",),
    "install a licence": ("license.set success",),
    "remove the licence": ("license.delete success",),
    "change a setting": ("settings.update success",),
    "import a certificate": ("certificate.import success",),
    "offer HTTPS": ("settings.update success",) * 3,
    "offer it elsewhere": ("settings.update success", "settings.update failure"),
    "make another certificate": ("certificate.rotate success",),
    "offer HTTPS no more": ("settings.update success",),
    "make a backup": ("backup.create success",),
    "make a sealed backup": ("backup.create success",),
    "end somebody's session": ("session.revoke success",),
    "suspend": ("member.suspend success",),
    "a suspended member logs in": ("session.create denied",),
    "delete a member": ("member.delete success",),
}
#: Everything that can be looked at afterwards.
PAGES = (
    *("/admin/audit-events?limit=100", "/admin/members", "/admin/api-keys", "/admin/accounts", "/admin/oauth-apps"),
    *(
        "/admin/backups",
        "/admin/store",
        "/admin/license",
        "/admin/settings",
        "/me",
        "/me/sessions",
        "/me/api-keys",
        "/me/audit-events",
        "/status",
    ),
)


def a_licence(key: Ed25519PrivateKey) -> str:
    """A licence as an issuer signs it (RFC 7515, RFC 8037)."""
    terms = {"plan": "team", "maxMembers": 10, "maxAccounts": 10, "expiresAt": None, "issuedTo": "Ada"}
    head, payload = (_part(json.dumps(part).encode()) for part in ({"alg": "EdDSA", "typ": "JWT"}, terms))
    return f"{head}.{payload}.{_part(key.sign(f'{head}.{payload}'.encode()))}"


def _part(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAppliance]:
    """An appliance that says all it can in its log, and waits to be set up."""
    key = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
    public = base64.b64encode(key.public_key().public_bytes_raw()).decode()
    settings = {"LICENSE_ISSUER_PUBLIC_KEY": public}
    environment = {f"MAILBOX_APPLIANCE_{name}": value for name, value in settings.items()}
    process = RunningAppliance(tmp_path_factory.mktemp("full") / "data", environment).start()
    yield process
    process.stop()


@pytest.fixture(scope="module")
def full_run(running: RunningAppliance, mail_server: MailServer) -> FullRun:
    return FullRun(running, mail_server, a_licence(Ed25519PrivateKey.from_private_bytes(b"k" * 32))).go()


def test_every_act_is_in_the_audit_log(full_run: FullRun) -> None:
    recorded = {step.name: step.actions for step in full_run.steps if step.actions}
    assert recorded == RECORDED


def test_the_audit_log_is_whole(full_run: FullRun) -> None:
    verdict = full_run.running.ask("GET", "/admin/audit-events/verify").data
    assert (verdict["ok"], verdict["firstBroken"]) == (True, None)
    assert verdict["count"] == sum(len(actions) for actions in RECORDED.values())


def test_a_secret_is_shown_once_by_the_step_that_makes_it(full_run: FullRun) -> None:
    answers = [(step.name, json.dumps(step.answer.body)) for step in full_run.steps]
    answers += [(step.name, str(dict(step.answer.headers))) for step in full_run.steps]
    expected = {(step, name) for name, step in full_run.shown_by.items() if step != "set up"}
    assert leaks(answers, full_run.secrets) == expected
    # A link to a file stands in the text, in the structure, and as a link, with the file where it was asked for.
    assert all(
        json.dumps(step.answer.body).count(full_run.secrets[name]) <= (4 if name == "download link" else 2)
        for step in full_run.steps
        for name in full_run.shown_by
    )


def test_every_tool_was_used(full_run: FullRun) -> None:
    used, listed = full_run.tools
    assert used == listed
    assert len(used) == 25


def test_nothing_tells_a_secret_afterwards(full_run: FullRun) -> None:
    answers = [(page, full_run.running.ask("GET", page)) for page in PAGES]
    assert {answer.status for _, answer in answers} == {200}
    assert leaks(((page, json.dumps(answer.body)) for page, answer in answers), full_run.secrets) == set()


def test_no_file_holds_a_secret(full_run: FullRun) -> None:
    files = files_of(full_run.running)
    assert len(files["logs/appliance.log"]) > 10_000
    assert len([name for name in files if name.startswith("backups/")]) == 2
    assert found(files, full_run.secrets) == set()
    assert found(files, PRIVATE) == set()


def test_the_log_tells_of_tools_and_links_by_their_templates(full_run: FullRun) -> None:
    lines = (full_run.running.folder / "logs" / "appliance.log").read_text().splitlines()
    routes = {json.loads(line).get("route") for line in lines}
    assert {"POST /mcp", "GET /api/v1/downloads/{token}"} <= routes


def test_the_store_itself_holds_no_token_and_no_password(full_run: FullRun, tmp_path: Path) -> None:
    """Inside the encryption: tokens and members' passwords stand there as hashes only."""
    assert full_run.running.stop() == 0
    store = Store.open(full_run.running.folder)
    try:
        tables = [row[0] for row in store.database.rows("SELECT name FROM pragma_table_list WHERE type = 'table'")]
        dump = [(name, str(store.database.rows(f"SELECT * FROM {name}"))) for name in tables if name != "message_words"]
    finally:
        store.close()
    kept = {("accounts", "mailbox password")}
    assert leaks(dump, full_run.secrets) == kept
    assert any("$argon2id$" in text for _, text in dump)
