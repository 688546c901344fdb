"""What somebody may try who holds an API key with administrative capabilities and wants the rights of an admin.

Each attack is a list of steps, each one request and what must come of it. `{name}` in a path, and in a body, is an id
or a token that is known: of the members (see `Besieged`), or one that an earlier step was given (`keeps`).

By the contract such a key may do some of it: with `admin.members` it makes, invites and resets members who are no
admins, and whoever resets a member can log in as that member. That stays within its reach and is audited; what has to
hold is that nobody comes by an admin's rights in this way.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.doors.rights import ACCOUNTS, API_KEYS, AUDIT, LICENSE, MEMBERS

PASSWORD = "a new and long password"


@dataclass(frozen=True)
class Step:
    """`by`: whose token goes with it. `wanted`: a status, and where it is 403 what the details name."""

    call: str
    wanted: tuple[int, str | None]
    body: Mapping[str, Any] | None = None
    by: str = "key"
    #: A name for what lies at a path in the answer, such as `member.id`.
    keeps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Attack:
    """Steps that are taken one after the other, with a key that holds these capabilities."""

    name: str
    holding: tuple[str, ...]
    steps: tuple[Step, ...]
    #: The mailbox that the key is limited to.
    scope: str | None = None


ROLE, CAPABILITY, OWNER = (403, "role"), (403, "capability"), (403, "owner")
SESSION = (403, None)  # session_required
NO_TOKEN, WRONG, TAKEN, DONE, MADE = (400, None), (400, "*"), (409, None), (200, None), (201, None)

NEW = {"name": "Mallory", "email": "mallory@example.org", "role": "member"}
REDEEM = {"password": PASSWORD, "deviceName": "x"}
ADMINS = ("boss", "bea", "invited", "resting")
STRONG = (MEMBERS, API_KEYS, ACCOUNTS)


def _each(call: str, wanted: tuple[int, str | None], body: Mapping[str, Any] | None = None) -> tuple[Step, ...]:
    """One step at every admin: the key's own owner, another, an invited one, a suspended one."""
    return tuple(Step(call.replace("{admin}", f"{{{admin}}}"), wanted, body) for admin in ADMINS)


def _key(body: Mapping[str, Any], wanted: tuple[int, str | None] = CAPABILITY, whose: str = "own") -> Step:
    return Step(f"PATCH /admin/api-keys/{{{whose}_key}}", wanted, body)


def _new_key(wanted: tuple[int, str | None], owner: str, by: str = "key", **rights: Any) -> Step:
    body = {"name": "k", "memberId": f"{{{owner}}}", **rights}
    return Step("POST /admin/api-keys", wanted, body, by, {"made_key": "apiKey.id", "made": "token"})


RESET = (
    Step("POST /admin/members/{eve}/password-reset", MADE, keeps={"reset": "token"}),
    Step("POST /auth/password-reset", DONE, {**REDEEM, "token": "{reset}"}, by="", keeps={"eves": "token"}),
)
INVITE = (
    Step("POST /admin/members", MADE, NEW, keeps={"mallory": "member.id", "invitation": "invitation.token"}),
    Step("POST /auth/enroll", DONE, {**REDEEM, "token": "{invitation}"}, by="", keeps={"mallorys": "token"}),
)

ATTACKS: tuple[Attack, ...] = (
    Attack(
        "create an admin",
        STRONG,
        (
            Step("POST /admin/members", ROLE, {**NEW, "role": "admin"}),
            Step("POST /admin/members", WRONG, {**NEW, "role": "Admin"}),
            Step("POST /admin/members", WRONG, {**NEW, "role": ["admin"]}),
            Step("POST /admin/members", WRONG, {**NEW, "status": "active", "capabilities": [LICENSE]}),
        ),
    ),
    Attack(
        "raise a role",
        STRONG,
        (
            Step("PATCH /admin/members/{eve}", ROLE, {"role": "admin"}),
            Step("PATCH /admin/members/{eve}", ROLE, {"name": "Eve", "status": "active", "role": "admin"}),
            *INVITE,
            Step("PATCH /admin/members/{mallory}", ROLE, {"role": "admin"}),
            Step("PATCH /admin/members/{gus}", ROLE, {"status": "active", "role": "admin"}),
        ),
    ),
    Attack("rename an admin", (MEMBERS,), _each("PATCH /admin/members/{admin}", ROLE, {"name": "Mallory"})),
    Attack(
        "have an admin's resets sent elsewhere",
        (MEMBERS,),
        (
            *_each("PATCH /admin/members/{admin}", ROLE, {"email": "mallory@example.org"}),
            *_each("POST /admin/members/{admin}/password-reset", ROLE),
        ),
    ),
    Attack("demote an admin", (MEMBERS,), _each("PATCH /admin/members/{admin}", ROLE, {"role": "member"})),
    Attack("suspend an admin", (MEMBERS,), _each("PATCH /admin/members/{admin}", ROLE, {"status": "suspended"})),
    Attack("wake an admin", (MEMBERS,), _each("PATCH /admin/members/{admin}", ROLE, {"status": "active"})),
    Attack("change nothing of an admin", (MEMBERS,), _each("PATCH /admin/members/{admin}", ROLE, {})),
    Attack("invite an admin", (MEMBERS,), _each("POST /admin/members/{admin}/invitation", ROLE)),
    Attack("reset an admin", (MEMBERS,), _each("POST /admin/members/{admin}/password-reset", ROLE)),
    Attack("delete an admin", (MEMBERS,), _each("DELETE /admin/members/{admin}", ROLE)),
    Attack(
        "end an admin's sessions",
        (MEMBERS,),
        (
            *_each("DELETE /admin/members/{admin}/sessions", ROLE),
            Step("DELETE /admin/members/{bea}/sessions/{beas_session}", ROLE),
            Step("DELETE /admin/members/{eve}/sessions/{beas_session}", (404, None)),
        ),
    ),
    Attack(
        "take the email of an admin",
        (MEMBERS,),
        tuple(
            step
            for email in ("bea@example.org", "BEA@Example.ORG")
            for step in (
                Step("POST /admin/members", TAKEN, {**NEW, "email": email}),
                Step("PATCH /admin/members/{eve}", TAKEN, {"email": email}),
            )
        ),
    ),
    Attack(
        "climb as a member whose password was reset",
        STRONG,
        (
            *RESET,
            Step("PATCH /me", WRONG, {"role": "admin"}, by="eves"),
            Step("PATCH /me", WRONG, {"name": "Eve", "role": "admin"}, by="eves"),
            Step("GET /admin/members", CAPABILITY, by="eves"),
            Step("PATCH /admin/members/{eve}", CAPABILITY, {"role": "admin"}, by="eves"),
            Step("GET /admin/settings", ROLE, by="eves"),
            Step("GET /admin/audit-events", CAPABILITY, by="eves"),
            *(
                Step("POST /me/api-keys", CAPABILITY, {"name": "k", "customCapabilities": [one]}, by="eves")
                for one in (MEMBERS, API_KEYS, ACCOUNTS, LICENSE, AUDIT)
            ),
            Step(
                "POST /me/api-keys",
                CAPABILITY,
                {"name": "k", "permissionProfile": "full", "supplementalCapabilities": [MEMBERS]},
                by="eves",
            ),
            _new_key(CAPABILITY, "boss", by="eves", customCapabilities=[AUDIT]),
            Step("PATCH /admin/api-keys/{own_key}", CAPABILITY, {"customCapabilities": [AUDIT]}, by="eves"),
            Step("DELETE /me/sessions/{beas_session}", (404, None), by="eves"),
            Step("DELETE /me/api-keys/{beas_key}", (404, None), by="eves"),
        ),
    ),
    Attack(
        "climb as a new member",
        STRONG,
        (
            *INVITE,
            Step("GET /admin/members", CAPABILITY, by="mallorys"),
            Step("GET /admin/settings", ROLE, by="mallorys"),
            Step("POST /me/api-keys", CAPABILITY, {"name": "k", "customCapabilities": [MEMBERS]}, by="mallorys"),
            Step("GET /accounts/{cids_box}", (404, None), by="mallorys"),
        ),
    ),
    Attack(
        "keep a token until its member is an admin",
        (MEMBERS,),
        (
            RESET[0],
            INVITE[0],
            Step("PATCH /admin/members/{eve}", DONE, {"role": "admin"}, by="boss's"),
            Step("PATCH /admin/members/{mallory}", DONE, {"role": "admin"}, by="boss's"),
            Step("POST /auth/password-reset", NO_TOKEN, {**REDEEM, "token": "{reset}"}, by=""),
            Step("POST /auth/enroll", NO_TOKEN, {**REDEEM, "token": "{invitation}"}, by=""),
            Step("PATCH /admin/members/{eve}", DONE, {"role": "member"}, by="boss's"),
            Step("PATCH /admin/members/{mallory}", DONE, {"role": "member"}, by="boss's"),
        ),
    ),
    Attack(
        "use a token for something else",
        (MEMBERS,),
        (
            RESET[0],
            INVITE[0],
            Step("POST /auth/enroll", NO_TOKEN, {**REDEEM, "token": "{reset}"}, by=""),
            Step("POST /auth/password-reset", NO_TOKEN, {**REDEEM, "token": "{invitation}"}, by=""),
            *(
                Step("POST /auth/console-links/redeem", NO_TOKEN, {"token": token}, by="")
                for token in ("{reset}", "{invitation}")
            ),
            RESET[1],
            Step("POST /auth/password-reset", NO_TOKEN, {**REDEEM, "token": "{reset}"}, by=""),
            INVITE[1],
            Step("POST /auth/enroll", NO_TOKEN, {**REDEEM, "token": "{invitation}"}, by=""),
        ),
    ),
    Attack(
        "do what is a session's",
        STRONG,
        (
            Step("PATCH /me", SESSION, {"name": "Mallory"}),
            Step("POST /me/password", SESSION, {"currentPassword": "x", "newPassword": PASSWORD}),
            Step("POST /me/api-keys", SESSION, {"name": "k", "permissionProfile": "full"}),
            Step("GET /me/api-keys", SESSION),
            Step("GET /me/sessions", SESSION),
            Step("DELETE /me/sessions/{bosss_session}", SESSION),
            Step("POST /auth/console-links", SESSION),
            Step("GET /me/audit-events", SESSION),
            Step("GET /admin/settings", SESSION),
            Step("PATCH /admin/settings", SESSION, {"x": 1}),
        ),
    ),
    Attack(
        "do what other capabilities are for",
        (MEMBERS,),
        (
            Step("GET /admin/audit-events", CAPABILITY),
            Step("GET /admin/audit-events/verify", CAPABILITY),
            Step("GET /admin/api-keys", CAPABILITY),
            _new_key(CAPABILITY, "boss", customCapabilities=[MEMBERS]),
            _key({"permissionProfile": "full"}),
            Step("DELETE /admin/api-keys/{beas_key}", CAPABILITY),
            Step("GET /admin/accounts", CAPABILITY),
            Step("PUT /admin/oauth-apps/google", CAPABILITY, {"clientId": "x"}),
            Step("PUT /admin/license", CAPABILITY, {"token": "x"}),
            Step("DELETE /admin/license", CAPABILITY),
            Step("GET /accounts", CAPABILITY),
            Step("GET /accounts/{bosss_box}", CAPABILITY),
            Step("GET /messages", CAPABILITY),
        ),
    ),
    Attack(
        "make a key that holds more",
        STRONG,
        (
            *(_new_key(CAPABILITY, owner, customCapabilities=[AUDIT]) for owner in ("boss", "bea", "eve")),
            *(_new_key(CAPABILITY, owner, customCapabilities=[MEMBERS, LICENSE]) for owner in ("boss", "bea")),
            *(_new_key(CAPABILITY, owner, permissionProfile="read-only") for owner in ("boss", "bea", "eve", "cid")),
            _new_key(CAPABILITY, "cid", permissionProfile="read-only", accounts=["{cids_box}"]),
            _new_key(CAPABILITY, "boss", customCapabilities=["mail.send"], accounts=None),
        ),
    ),
    Attack(
        "let a key rise",
        STRONG,
        tuple(
            _key(rights, CAPABILITY, whose)
            for whose in ("own", "bosss", "beas")
            for rights in (
                {"permissionProfile": "full"},
                {"customCapabilities": [MEMBERS, AUDIT]},
                {"customCapabilities": [*STRONG, LICENSE]},
                {"permissionProfile": "read-only", "supplementalCapabilities": [AUDIT]},
            )
        ),
    ),
    Attack(
        "make a key for somebody, and let it rise",
        STRONG,
        (
            _new_key(MADE, "cid", customCapabilities=[MEMBERS]),
            _key({"permissionProfile": "read-only"}, CAPABILITY, "made"),
            _key({"customCapabilities": ["mail.read"]}, CAPABILITY, "made"),
            _key({"customCapabilities": ["mail.read"], "accounts": ["{cids_box}"]}, CAPABILITY, "made"),
            _new_key(MADE, "boss", customCapabilities=[MEMBERS]),
            _key({"permissionProfile": "full"}, CAPABILITY, "made"),
            _key({"customCapabilities": [MEMBERS, AUDIT]}, CAPABILITY, "made"),
            # What the session of an admin who is not the owner may not add either: the attacker knows the token.
            Step(
                "PATCH /admin/api-keys/{made_key}",
                CAPABILITY,
                {"permissionProfile": "read-only", "supplementalCapabilities": []},
            ),
        ),
    ),
    Attack(
        "lay down rights and take them up again",
        STRONG,
        (
            _key({"customCapabilities": [API_KEYS]}, DONE),
            _key({"customCapabilities": [API_KEYS, MEMBERS]}),
            _key({"customCapabilities": [*STRONG]}),
        ),
    ),
    Attack(
        "reach other mailboxes",
        STRONG,
        (
            *INVITE,
            *(
                Step(f"PUT /accounts/{{{box}}}/access", OWNER, {"sharedWithAll": shared, "memberIds": members})
                for box in ("cids_box", "beas_box")
                for shared, members in ((True, []), (False, ["{mallory}"]), (False, ["{boss}"]), (True, ["{mallory}"]))
            ),
            Step("GET /accounts/{cids_box}", (404, None)),
            Step("GET /accounts/{cids_box}/messages", (404, None)),
            Step("POST /accounts/{cids_box}/reconnect", SESSION, {}),
            Step("PATCH /accounts/{cids_box}", SESSION, {"displayName": "x"}),
            Step("DELETE /accounts/{cids_box}", SESSION),
            Step("GET /accounts/{cids_box}", (404, None), by="mallorys"),
            Step("GET /accounts/{cids_box}/messages", (404, None), by="mallorys"),
        ),
    ),
    Attack(
        "leave the mailboxes of the key",
        ("mail.read", *STRONG),
        (
            _key({"accounts": None}),
            _key({"accounts": ["{bosss_box}", "{bosss_other_box}"]}),
            _key({"accounts": ["{bosss_other_box}"]}),
            _new_key(CAPABILITY, "boss", customCapabilities=["mail.read"]),
            _new_key(CAPABILITY, "boss", customCapabilities=["mail.read"], accounts=["{bosss_other_box}"]),
            _key({"accounts": ["{cids_box}"]}),
            Step("GET /accounts/{bosss_other_box}", (404, None)),
            Step("PUT /accounts/{cids_box}/access", (404, None), {"sharedWithAll": False, "memberIds": []}),
        ),
        scope="bosss_box",
    ),
    Attack(
        "administer beyond the mailboxes of the key",
        (API_KEYS, ACCOUNTS),
        (
            _key({"accounts": None}),
            _key({"accounts": ["{bosss_box}", "{bosss_other_box}"]}),
            _new_key(CAPABILITY, "boss", customCapabilities=[ACCOUNTS]),
            _new_key(CAPABILITY, "boss", customCapabilities=[ACCOUNTS], accounts=["{bosss_other_box}"]),
            _new_key(CAPABILITY, "bea", customCapabilities=[ACCOUNTS]),
            Step("PUT /accounts/{cids_box}/access", (404, None), {"sharedWithAll": False, "memberIds": []}),
            Step("PUT /accounts/{bosss_other_box}/access", (404, None), {"sharedWithAll": False, "memberIds": []}),
        ),
        scope="bosss_box",
    ),
)


def _as_admin(call: str, wanted: tuple[int, str | None], body: Mapping[str, Any] | None = None) -> Step:
    return Step(
        call, wanted, body, by="boss's", keeps={"made_key": "apiKey.id"} if "POST /admin/api-keys" in call else {}
    )


BOX = "/accounts/{cids_box}"
GONE = (404, None)
#: What an administrator tries, in a session, to read the mail of a member's mailbox: the role gives no right to it. A
#: key of the member may be widened: it stays the member's, who is told.
READING: tuple[Step, ...] = (
    _as_admin(f"GET {BOX}", GONE),
    _as_admin(f"GET {BOX}/messages", GONE),
    _as_admin(f"GET {BOX}/folders", GONE),
    _as_admin(f"POST {BOX}/reconnect", GONE, {}),
    _as_admin(f"PATCH {BOX}", GONE, {"displayName": "x"}),
    _as_admin(f"DELETE {BOX}", GONE),
    _as_admin(f"PUT {BOX}/access", OWNER, {"sharedWithAll": True, "memberIds": []}),
    _as_admin(f"PUT {BOX}/access", OWNER, {"sharedWithAll": False, "memberIds": ["{boss}"]}),
    _as_admin(f"PUT {BOX}/access", OWNER, {"sharedWithAll": False, "memberIds": ["{eve}"]}),
    _as_admin("DELETE /admin/members/{cid}", TAKEN),
    _as_admin("POST /admin/api-keys", CAPABILITY, {"name": "k", "memberId": "{cid}", "permissionProfile": "full"}),
    _as_admin("POST /admin/api-keys", MADE, {"name": "k", "memberId": "{cid}", "customCapabilities": [AUDIT]}),
    _as_admin("PATCH /admin/api-keys/{made_key}", (400, "/accounts/0"), {"accounts": ["{bosss_box}"]}),
    _as_admin("PATCH /admin/api-keys/{made_key}", DONE, {"customCapabilities": ["mail.read"]}),
    _as_admin(f"GET {BOX}/messages", GONE),
)
