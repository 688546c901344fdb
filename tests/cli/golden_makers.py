"""Preparations for golden command lines, made again for each; IDs and folders become values of the stage."""

import os
import shutil

from mailbox_appliance.offline.store import setup_on_files
from tests.cli.golden_stage import LATER, Stage, connected, play, write_instances
from tests.servers.running import PASSWORD
from tests.servers.smtp_script import DROP, Keep
from tests.stores.opening import copied
from tests.system.test_keyring import BACKENDS
from tests.tls.issued import FAR, issued

_LOG = """\
{"at": "2024-01-31T09:00:00.000Z", "level": "info", "event": "started", "pid": 7}
{"at": "2024-01-31T09:00:01.000Z", "level": "info", "event": "request", "method": "GET", "path": "/me", "status": 200}
{"at": "2024-01-31T09:00:02.000Z", "level": "warning", "event": "sync_failed", "accountId": "acc_1"}
"""
_EVE = {"name": "Eve", "email": "eve@example.org", "role": "member"}


def _message(stage: Stage) -> dict[str, object]:
    return {"to": [{"email": stage.values["reader"]}], "subject": "Made for this", "body": {"text": "Hello."}}


# --- mail -------------------------------------------------------------------------------------------------------------


def doubt(stage: Stage) -> None:
    """Create an uncertain delivery."""
    if "doubting" not in stage.values:
        stage.smtp.user = stage.values["doubter"]
        stage.smtp.at("reply", Keep(DROP))
        stage.values["doubting"] = connected(stage, stage.values["doubter"], stage.smtp.port)
    path = f"/accounts/{stage.values['doubting']}/send"
    sent = stage.ask("POST", path, _message(stage), key=f"doubt-{stage.next()}")
    stage.values["doubt"] = sent["operationId"]


def message_to_lose(stage: Stage) -> None:
    """Choose a message that no other row needs."""
    stage.values["any"] = stage.values[f"heap{20 + stage.next() % 4}"]


def undo(stage: Stage) -> None:
    """Star a message, which can be undone."""
    body = {"messageIds": [stage.values["heap11"]], "action": "star"}
    stage.values["undo"] = stage.appliance.ask("POST", f"{stage.box}/messages/actions", body).body["undo"]["token"]


def draft(stage: Stage) -> None:
    """Create a draft and a key for sending it."""
    stage.values["new"] = stage.ask("POST", f"{stage.box}/drafts", _message(stage))["id"]
    stage.values["token"] = f"draft-{stage.next()}"


def scheduled(stage: Stage) -> None:
    """Schedule a message."""
    body = {**_message(stage), "sendAt": LATER}
    answer = stage.ask("POST", f"{stage.box}/send", body, key=f"later-{stage.next()}")
    stage.values["new"] = answer["scheduleId"]


def approval(stage: Stage) -> None:
    """Send a message that a person must approve, and nothing else."""
    for one in stage.ask("GET", "/approvals?status=pending")["items"]:
        stage.ask("POST", f"/approvals/{one['id']}/reject")
    stage.ask("PUT", f"{stage.box}/sending-policy", {"approval": "always"})
    body = {**_message(stage), "to": [{"email": "bob@example.test"}]}
    stage.ask("POST", f"{stage.box}/send", body, key=f"approval-{stage.next()}")
    (made,) = stage.ask("GET", "/approvals?status=pending")["items"]
    stage.values["approval"] = made["id"]
    no_policy(stage)


def no_policy(stage: Stage) -> None:
    """Remove the sending policy of the mailbox."""
    stage.ask("PUT", f"{stage.box}/sending-policy", {})


def no_webhooks(stage: Stage) -> None:
    """Delete all webhooks."""
    for one in stage.ask("GET", "/webhooks"):
        stage.ask("DELETE", f"/webhooks/{one['id']}")


def webhook(stage: Stage) -> None:
    """Create a webhook with an address that is refused, and attempt to send to it."""
    no_webhooks(stage)
    made = stage.ask("POST", "/webhooks", {"url": "https://localhost/hook", "types": ["backup.failed"]})
    stage.values["hook"] = made["webhook"]["id"]
    stage.ask("POST", f"/webhooks/{stage.values['hook']}/test")
    stage.values["position"] = stage.ask("GET", "/events")["nextPosition"]


def account_of_reader(stage: Stage) -> None:
    """Connect a second mailbox."""
    room_for_reader(stage)
    email, mail = stage.values["reader"], stage.mail
    stage.appliance.connect(email, imap_port=mail.imap_port, smtp_port=mail.submission_port)


def room_for_reader(stage: Stage) -> None:
    """Disconnect the second mailbox."""
    for one in stage.ask("GET", "/accounts"):
        if one["email"] == stage.values["reader"]:
            stage.ask("DELETE", f"/accounts/{one['id']}")


# --- people -----------------------------------------------------------------------------------------------------------


def nobody(stage: Stage) -> None:
    """Remove the member Eve."""
    for one in stage.ask("GET", "/admin/members"):
        if one["email"] == _EVE["email"]:
            stage.ask("DELETE", f"/admin/members/{one['id']}")


def member(stage: Stage) -> None:
    """Add the member Eve, who has not accepted the invitation."""
    nobody(stage)
    made = stage.ask("POST", "/admin/members", _EVE)
    stage.values["new"], stage.values["link"] = made["member"]["id"], made["invitation"]["url"]


def enrolled(stage: Stage) -> None:
    """Add the member Eve with a password."""
    member(stage)
    body = {"token": stage.values["link"].rpartition("=")[2], "password": PASSWORD, "deviceName": "desk"}
    stage.values["session of Eve"] = stage.ask("POST", "/auth/enroll", body)["token"]


def forgetful(stage: Stage) -> None:
    """Add the member Eve with a password reset link."""
    enrolled(stage)
    stage.values["link"] = stage.ask("POST", f"/admin/members/{stage.values['new']}/password-reset")["url"]


def api_key(stage: Stage) -> None:
    """Create an API key that no other row needs."""
    stage.values["new"] = stage.ask("POST", "/me/api-keys", {"name": "Old", "permissionProfile": "read-only"})[
        "apiKey"
    ]["id"]


def session(stage: Stage) -> None:
    """Create another session of the administrator."""
    known = {one["id"] for one in stage.ask("GET", "/me/sessions")}
    stage.ask("POST", "/auth/login", {"email": "ada@example.org", "password": PASSWORD, "deviceName": "phone"})
    stage.values["new"] = next(one["id"] for one in stage.ask("GET", "/me/sessions") if one["id"] not in known)


def log_in(stage: Stage) -> None:
    """Sign the command line in."""
    environment = {**stage.environment, "MAILBOX_APPLIANCE_PASSWORD": PASSWORD}
    assert play(["login", "--email", "ada@example.org", "--device-name", "desk"], environment).code == 0


def instances(stage: Stage) -> None:
    """Store known appliances."""
    write_instances(stage.folder)


def licensed(stage: Stage) -> None:
    """Install a license."""
    stage.ask("PUT", "/admin/license", {"token": stage.values["license"]})


def oauth_app(stage: Stage) -> None:
    """Save an OAuth app."""
    stage.ask("PUT", "/admin/oauth-apps/google", {"clientId": "1", "clientSecret": "s"})


# --- the appliance ----------------------------------------------------------------------------------------------------


def certificate(stage: Stage) -> None:
    """Write a certificate of another issuer, and its key."""
    own = issued(since=FAR.replace(year=2020), until=FAR)
    (stage.folder / "own.pem").write_bytes(own.pem)
    (stage.folder / "own.key").write_bytes(own.key)


def sealed_backup(stage: Stage) -> None:
    """Create a backup with a passphrase, which can be downloaded."""
    if "sealed" not in stage.values:
        stage.values["sealed"] = stage.ask("POST", "/admin/backups", {"passphrase": "twelve geese fly"})["id"]


def empty_directory(stage: Stage) -> None:
    """Name a data directory that does not exist yet."""
    stage.values["files"] = str(stage.folder / f"files-{stage.next():03}")


def log(stage: Stage) -> None:
    """Create a data directory with a log."""
    empty_directory(stage)
    stage.write("logs/appliance.log", _LOG)


def store(stage: Stage) -> None:
    """Create a store that is set up and not served."""
    template = stage.folder / "template"
    if not template.exists():
        setup_on_files(template, name="Ada", email="ada@example.org", password=PASSWORD, device_name="desk")
    empty_directory(stage)
    shutil.copytree(template, stage.values["files"])
    os.chmod(stage.values["files"], 0o700)


def store_beside_a_keychain(stage: Stage) -> None:
    """Create a store and a keychain for this process and its children (see `surroundings`)."""
    store(stage)
    backends = stage.folder / "backends"
    backends.mkdir(exist_ok=True)
    (backends / "made_up_keychains.py").write_text(BACKENDS)


def backup_of_store(stage: Stage) -> None:
    """Create a store and a backup of it."""
    store(stage)
    files = {**stage.environment, "MAILBOX_APPLIANCE_DATA_DIR": stage.values["files"]}
    assert play(["backup", "create"], files).code == 0
    made = play(["backup", "list", "--format", "ndjson"], files)
    stage.values["backup"] = made.out.partition('"id": "')[2].partition('"')[0]


def older_store(stage: Stage) -> None:
    """Create a store of release 0.10."""
    empty_directory(stage)
    copied(4, stage.folder / stage.values["files"])
