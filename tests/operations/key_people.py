"""Two administrators and a member with mailboxes, and the keys that they make over HTTP."""

from typing import Any

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.members import Role
from mailbox_appliance.security.tokens import hash_token, new_token
from tests.checked_client import Answer, CheckedClient
from tests.operations.filled import FilledMailbox

MAIL = ["mail.read", "mail.drafts", "mail.organize", "mail.trash", "mail.delete", "mail.send"]
ADMIN = ["admin.accounts", "admin.members", "admin.api_keys", "admin.license", "admin.audit"]
OWN, ALL = "/me/api-keys", "/admin/api-keys"


class People:
    """Ada and Bea are admins, Cid is a member; Ada has two mailboxes, Cid one. Nobody logs in: that takes long."""

    def __init__(self, appliance: Appliance) -> None:
        self.appliance = appliance
        self.ada, self.bea, self.cid = self._client("ada", "admin"), self._client("bea", "admin"), self._client("cid")
        self.adas, self.second = (self._mailbox(self.ada, email) for email in ("ada@example.org", "second@example.org"))
        self.cids = self._mailbox(self.cid, "cid@example.org")

    def make(self, who: CheckedClient, **given: Any) -> tuple[str, str]:
        """A key of somebody's own; answers id and token."""
        return _made(who.ask("POST", OWN, {"name": "a key", **given}))

    def make_for(self, owner: CheckedClient, who: CheckedClient, token: str | None = None, **given: Any) -> Answer:
        """What the one who asks for a key of this owner is answered."""
        body = {"name": "a key", "memberId": owner.member["id"], **given}
        return who.ask("POST", ALL, body, token=token)

    def change(self, key_id: str, token: str | None = None, **given: Any) -> Answer:
        """What is answered to the one with this token, else to Ada, who changes a key."""
        return self.ada.ask("PATCH", f"{ALL}/{key_id}", given, token=token)

    def update(self, who: CheckedClient, **change: Any) -> None:
        """Change a member's role or status."""
        with self.appliance.store.database.transaction(durable=True):
            self.appliance.store.members.update(who.member["id"], **change)

    def _client(self, name: str, role: Role = "member") -> CheckedClient:
        client, token, store = CheckedClient(self.appliance), new_token("mbxs"), self.appliance.store
        with store.database.transaction(durable=True):
            email = f"{name}@example.org"
            member = store.members.add(name=name, email=email, role=role, password_hash="-")
            store.credentials.add_session(member.id, hash_token(token), "test")
        client.token = token
        client.member = {"id": member.id}
        return client

    def _mailbox(self, owner: CheckedClient, email: str) -> FilledMailbox:
        return FilledMailbox(self.appliance, owner.member["id"], email)


def _made(answer: Answer) -> tuple[str, str]:
    return answer.data["apiKey"]["id"], answer.data["token"]
