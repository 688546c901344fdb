"""An API key with administrative capabilities never comes by the rights of an admin, whatever is tried with it."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.model.members import Role
from mailbox_appliance.security import passwords
from mailbox_appliance.security.tokens import hash_token, new_token
from tests.checked_client import PASSWORD, Answer, CheckedClient
from tests.doors.attacks import ADMINS, ATTACKS, READING, Attack, Step
from tests.doors.gathering import make_key
from tests.doors.rights import ADMIN, API_KEYS, MAIL, MEMBERS
from tests.operations.filled import FilledMailbox

#: Boss owns the key of the attacker. `invited` and `resting` are admins who have not enrolled, and who are suspended.
MEMBERS_OF: dict[str, Role] = {
    "boss": "admin",
    "bea": "admin",
    "invited": "admin",
    "resting": "admin",
    "cid": "member",
    "eve": "member",
    "gus": "member",
}


class Besieged:
    """An appliance with admins, members, mailboxes, and somebody who holds a key."""

    def __init__(self, appliance: Appliance, attack: Attack) -> None:
        self.appliance, self.store, self.attack = appliance, appliance.store, attack
        self.client = CheckedClient(appliance)
        self.known = {name: self._member(name, role) for name, role in MEMBERS_OF.items()}
        self._enrolled()
        boxes = {"bosss_box": "boss", "bosss_other_box": "boss", "beas_box": "bea", "cids_box": "cid"}
        for box, owner in boxes.items():
            self.known[box] = FilledMailbox(appliance, self.known[owner], f"{box}@example.org").id
        for name in ("boss", "bea"):
            self.known[f"{name}s_session"], self.known[f"{name}'s"] = self._session(name)
            self.known[f"{name}s_key"] = make_key(self.store, self.known[name], MEMBERS, API_KEYS)[0]
        scope = None if attack.scope is None else [self.known[attack.scope]]
        self.known["own_key"], self.known["key"] = make_key(
            self.store, self.known["boss"], *attack.holding, accounts=scope
        )
        #: Tokens that the attacker was given, and what was there before.
        self.hands = {self.known["key"]}
        self.before = self.admins()

    def take(self, step: Step) -> Answer:
        """One step of the attack; what it answers is kept."""
        method, _, path = self._filled(step.call).partition(" ")
        token = self.known[step.by] if step.by else ""
        answer = self.client.ask(method, path, self._filled(step.body), token=token)
        if answer.status < 300:
            self._keep(step, answer)
        return answer

    def admins(self) -> dict[str, Any]:
        """Everything about those who are admins: who they are, their passwords, sessions and keys."""
        rows = self.store.database.rows(
            "SELECT m.id, m.name, m.email, m.status, m.password_hash,"
            " (SELECT json_group_array(s.id) FROM sessions s WHERE s.member_id = m.id),"
            " (SELECT count(*) FROM invitations i WHERE i.member_id = m.id)"
            " FROM members m WHERE m.role = 'admin' ORDER BY m.id"
        )
        return {row[0]: tuple(row[1:]) for row in rows}

    def grasp(self, token: str) -> tuple[str, str, frozenset[str], frozenset[str]]:
        """What a token is good for: its kind, its member's role, its capabilities, the mailboxes it reads."""
        me = self.client.ask("GET", "/me", token=token)
        if me.status == 401:
            return "none", "", frozenset(), frozenset()
        credential = me.data["credential"]
        listed = self.client.ask("GET", "/accounts", token=token)
        boxes = frozenset(box["id"] for box in listed.data) if listed.status == 200 else frozenset()
        return credential["kind"], me.data["member"]["role"], frozenset(credential["capabilities"]), boxes

    def _keep(self, step: Step, answer: Answer) -> None:
        for name, path in step.keeps.items():
            value = answer.data
            for part in path.split("."):
                value = value[part]
            self.known[name] = value
            if str(value).startswith("mbx"):
                self.hands.add(value)

    def _filled(self, value: Any) -> Any:
        """The value with the names in braces replaced by what they stand for."""
        if isinstance(value, str):
            return re.sub(r"{(\w+)}", lambda found: self.known[found[1]], value)
        if isinstance(value, Mapping):
            return {name: self._filled(inner) for name, inner in value.items()}
        return [self._filled(inner) for inner in value] if isinstance(value, list) else value

    def _member(self, name: str, role: Role) -> str:
        email = f"{name}@example.org"
        with self.store.database.transaction():
            return self.store.members.add(name=name, email=email, role=role, password_hash=None).id

    def _enrolled(self) -> None:
        """Everybody has a password but who is invited; two are suspended."""
        with self.store.database.transaction():
            for name in MEMBERS_OF.keys() - {"invited"}:
                self.store.members.set_password(self.known[name], HASH)
            token = hash_token(new_token("mbxi"))
            self.store.one_time_tokens.issue("invitation", self.known["invited"], token, timedelta(days=7))
            for name in ("resting", "gus"):
                self.store.members.update(self.known[name], status="suspended")

    def _session(self, name: str) -> tuple[str, str]:
        token = new_token("mbxs")
        with self.store.database.transaction():
            session = self.store.credentials.add_session(self.known[name], hash_token(token), "device")
        return session.id, token


HASH = passwords.hash_password(PASSWORD)


@pytest.fixture
def besieged(appliance: Appliance, request: pytest.FixtureRequest) -> Besieged:
    return Besieged(appliance, request.param)


def take_all(besieged: Besieged, steps: Iterable[Step]) -> None:
    """Take every step; each must end as it should."""
    wrong = []
    for step in steps:
        answer = besieged.take(step)
        place = next(iter(answer.places), None) if answer.status >= 400 else None
        if answer.status != step.wanted[0] or step.wanted[1] not in ("*", None, place):
            wrong.append(
                f"{step.call} {json.dumps(step.body)} by {step.by}: {answer.status} {place}, not {step.wanted}"
            )
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("besieged", ATTACKS, ids=lambda attack: attack.name, indirect=True)
def test_a_key_with_administrative_capabilities_does_not_reach_an_admins_rights(besieged: Besieged) -> None:
    take_all(besieged, besieged.attack.steps)
    holds_no_more_than_before(besieged)


def holds_no_more_than_before(besieged: Besieged) -> None:
    """No token in the attacker's hands is an admin's session, or a key that holds more than that of the beginning."""
    assert besieged.admins() == besieged.before, "an admin was touched, or there is another one"
    own = frozenset() if besieged.attack.scope is None else {besieged.known[besieged.attack.scope]}
    for token in besieged.hands:
        kind, role, capabilities, boxes = besieged.grasp(token)
        if kind == "api_key":
            assert capabilities <= set(besieged.attack.holding)
            assert boxes <= own
        elif kind == "session":
            assert (role, capabilities) == ("member", frozenset(MAIL))
            assert not boxes


def test_the_attacks_aim_at_every_kind_of_admin() -> None:
    assert set(ADMINS) == {name for name, role in MEMBERS_OF.items() if role == "admin"}


def test_what_an_attacker_wants_is_there_for_an_admins_session(appliance: Appliance) -> None:
    """The attacks would find what they look for: an admin's session can do it all."""
    besieged = Besieged(appliance, ATTACKS[0])
    kind, role, capabilities, boxes = besieged.grasp(besieged.known["boss's"])
    assert (kind, role, capabilities) == ("session", "admin", frozenset(MAIL + ADMIN))
    assert boxes == {besieged.known["bosss_box"], besieged.known["bosss_other_box"]}


def test_an_admins_role_gives_no_right_to_read_others_mail(appliance: Appliance) -> None:
    besieged = Besieged(appliance, ATTACKS[0])
    take_all(besieged, READING)
    cids = appliance.store.accounts.get(besieged.known["cids_box"])
    assert (cids.shared_with_all, cids.granted_member_ids) == (False, ())


def test_rights_change_with_the_next_request(appliance: Appliance) -> None:
    besieged = Besieged(appliance, ATTACKS[0])
    client, known = besieged.client, besieged.known
    beas = make_key(besieged.store, known["bea"], *MAIL, *ADMIN)[1]
    changes: tuple[tuple[dict[str, str], tuple[int, str | None]], ...] = (
        ({"role": "member"}, (403, "permission_denied")),
        ({"role": "admin"}, (200, None)),
        ({"status": "suspended"}, (403, "member_suspended")),
        ({"status": "active"}, (200, None)),
    )
    for change, wanted in changes:
        assert client.ask("PATCH", f"/admin/members/{known['bea']}", change, token=known["boss's"]).status == 200
        answer = client.ask("GET", "/admin/members", token=beas)
        assert (answer.status, answer.refusal[1] if answer.status >= 400 else None) == wanted
    # A session that ended stays so.
    assert client.ask("GET", "/me", token=known["bea's"]).status == 401
