"""How an update of an API key combines: every stored state with every body, against a table of the contract's rules.

section 2, "API keys": `capabilities` always lists the effective stored set: the profile's, plus the supplemental
admin capabilities. `customCapabilities` replaces everything. In one update it excludes the other two (400). A lone
`supplementalCapabilities` on a `custom` key is 400. A custom key that gets a `permissionProfile` keeps its
supplemental set. `accounts: null` lifts the limit, `[]` reaches no mailbox; a field left out is unchanged.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple, get_args

import pytest

from mailbox_appliance.errors import Invalid
from mailbox_appliance.model.members import ADMIN_CAPABILITIES, Capability, KeyPermissions, PermissionProfile
from mailbox_appliance.operations.api_keys import (
    AdminCapability,
    CreateApiKeyRequest,
    UpdateApiKeyRequest,
    changed_permissions,
    first_permissions,
    grants_administration,
)
from mailbox_appliance.operations.decoding import convert_body

LEFT_OUT = "left out"
READ_ONLY = ("mail.read",)
READ_WRITE = ("mail.read", "mail.drafts", "mail.organize", "mail.trash")
FULL = ("mail.read", "mail.drafts", "mail.organize", "mail.trash", "mail.delete", "mail.send")
ADMIN = ("admin.accounts", "admin.members", "admin.api_keys", "admin.license", "admin.audit")
PROFILES = {"read-only": READ_ONLY, "read-write": READ_WRITE, "full": FULL}


class State(NamedTuple):
    """What a key stores: profile, capabilities, supplemental ones, mailboxes."""

    profile: PermissionProfile
    capabilities: tuple[str, ...]
    supplemental: tuple[str, ...]
    accounts: tuple[str, ...] | None

    @property
    def stored(self) -> KeyPermissions:
        """The same as the store's record."""
        held, supplemental = (tuple(map(Capability, one)) for one in (self.capabilities, self.supplemental))
        return KeyPermissions(self.profile, held, supplemental, self.accounts)


CAPABILITIES: tuple[tuple[PermissionProfile, tuple[str, ...], tuple[str, ...]], ...] = (
    ("read-only", READ_ONLY, ()),
    ("read-write", (*READ_WRITE, "admin.audit"), ("admin.audit",)),
    ("full", (*FULL, *ADMIN), ADMIN),
    ("custom", ("mail.send",), ()),
    ("custom", ("mail.send", "admin.members", "admin.audit"), ("admin.members", "admin.audit")),
    ("custom", ("admin.license",), ("admin.license",)),
)
STATES = tuple(State(*one, scope) for one in CAPABILITIES for scope in (None, (), ("acc_1", "acc_2")))

#: What a field may be: what is given, and what it stands for. None: 400 whatever else is there.
PROFILE: tuple[tuple[Any, Any], ...] = (
    (LEFT_OUT, LEFT_OUT),
    ("read-only", READ_ONLY),
    ("read-write", READ_WRITE),
    ("full", FULL),
    ("custom", None),
    ("FULL", None),
    (None, None),
)
SUPPLEMENTAL: tuple[tuple[Any, Any], ...] = (
    (LEFT_OUT, LEFT_OUT),
    ([], ()),
    (["admin.audit", "admin.accounts", "admin.audit"], ("admin.audit", "admin.accounts")),
    ([*ADMIN], ADMIN),
    ([*ADMIN, "admin.audit"], None),
    (["mail.read"], None),
    (None, None),
)
CUSTOM: tuple[tuple[Any, Any], ...] = (
    (LEFT_OUT, LEFT_OUT),
    (["admin.audit", "mail.send", "mail.read", "mail.send"], ("admin.audit", "mail.send", "mail.read")),
    ([*reversed(FULL + ADMIN)], tuple(reversed(FULL + ADMIN))),
    (["mail.read"], READ_ONLY),
    ([], None),
    (["mail.read"] * 12, None),
    (["mail.everything"], None),
    (None, None),
)
SCOPE: tuple[tuple[Any, Any], ...] = (
    (LEFT_OUT, LEFT_OUT),
    (None, None),
    ([], ()),
    (["acc_2", "acc_1", "acc_2"], ("acc_2", "acc_1")),
    (["a" * 200] * 100, ("a" * 200,)),
)
WRONG_SCOPE: tuple[Any, ...] = (["acc_1"] * 101, [""], ["a" * 201], [None], "acc_1", {}, 0)

#: (profile, supplemental, custom) given? -> what becomes of a key with a profile, and of a custom one; or what is 400.
RULES: dict[tuple[bool, bool, bool], tuple[str, str]] = {
    (False, False, False): ("stays", "stays"),
    (True, False, False): ("profile, supplemental stays", "profile, supplemental stays"),
    (False, True, False): ("profile stays, supplemental", "400 /supplementalCapabilities"),
    (True, True, False): ("profile, supplemental", "profile, supplemental"),
    (False, False, True): ("custom", "custom"),
    (True, False, True): ("400 /permissionProfile",) * 2,
    (False, True, True): ("400 /supplementalCapabilities",) * 2,
    (True, True, True): ("400 /permissionProfile /supplementalCapabilities",) * 2,
}


def wanted(before: State, profile: Any, supplemental: Any, custom: Any, scope: Any) -> State | str:
    """What the table says: the state afterwards, or the 400."""
    (_, mail), (_, added), (_, exactly) = profile, supplemental, custom
    for field, meant in (
        ("permissionProfile", mail),
        ("supplementalCapabilities", added),
        ("customCapabilities", exactly),
    ):
        if meant is None:
            return f"400 /{field}"
    rule = RULES[mail is not LEFT_OUT, added is not LEFT_OUT, exactly is not LEFT_OUT][before.profile == "custom"]
    accounts = before.accounts if scope[0] == LEFT_OUT else scope[1]
    if rule.startswith("400"):
        return rule
    if rule == "stays":
        return before._replace(accounts=accounts)
    if rule == "custom":
        return State("custom", exactly, tuple(one for one in exactly if one.startswith("admin.")), accounts)
    kept = added if not rule.endswith("stays") else before.supplemental
    name = before.profile if rule.startswith("profile stays") else profile[0]
    return State(name, PROFILES[name] + kept, kept, accounts)


def body(profile: Any, supplemental: Any, custom: Any, scope: Any) -> dict[str, Any]:
    given = {
        "permissionProfile": profile[0],
        "supplementalCapabilities": supplemental[0],
        "customCapabilities": custom[0],
        "accounts": scope[0],
    }
    return {name: value for name, value in given.items() if value != LEFT_OUT}


def outcome(before: State, given: dict[str, Any]) -> State | str:
    try:
        after = changed_permissions(before.stored, convert_body(given, UpdateApiKeyRequest))
    except Invalid as problem:
        # Of several fields that are wrong in themselves the first that is read is told.
        return " ".join(["400", *("/" + detail.path.split("/")[1] for detail in problem.details)])
    return State(after.profile, after.capabilities, after.supplemental, after.account_ids)


@pytest.mark.parametrize(
    "before", STATES, ids=lambda state: f"{state.profile} {len(state.capabilities)} {state.accounts}"
)
def test_every_update_of_every_key(before: State) -> None:
    wrong = []
    for fields in product(PROFILE, SUPPLEMENTAL, CUSTOM, SCOPE):
        expected, found = wanted(before, *fields), outcome(before, body(*fields))
        if expected != found:
            wrong.append((body(*fields), expected, found))
    assert wrong == []


@pytest.mark.parametrize("scope", WRONG_SCOPE, ids=lambda scope: str(scope)[:20])
def test_a_scope_is_a_bounded_list_or_null(scope: Any) -> None:
    for before in STATES:
        assert outcome(before, {"accounts": scope}) == "400 /accounts"


def test_an_update_that_is_repeated_changes_nothing_more() -> None:
    for before, *fields in product(STATES[::3], PROFILE, SUPPLEMENTAL, CUSTOM, SCOPE[:4]):
        after = outcome(before, body(*fields))
        if not isinstance(after, str):
            assert outcome(after, body(*fields)) == after
            assert set(after.supplemental) == {one for one in after.capabilities if one.startswith("admin.")}
            assert outcome(after, {}) == after


def creations() -> Iterator[tuple[dict[str, Any], State | str]]:
    """A new key: exactly one of profile and custom capabilities, supplemental ones with a profile only."""
    for profile, supplemental, custom, scope in product(PROFILE, SUPPLEMENTAL, CUSTOM, SCOPE):
        given = body(profile, supplemental, custom, scope)
        expected = wanted(State("read-only", (), (), None), profile, supplemental, custom, scope)
        if profile[0] == custom[0] == LEFT_OUT and supplemental[1] is not None:
            expected = "400 /permissionProfile"
        yield given, expected


def test_every_creation() -> None:
    wrong = []
    for given, expected in creations():
        found: State | str
        try:
            made = first_permissions(convert_body({"name": "a key", **given}, CreateApiKeyRequest))
            found = State(made.profile, made.capabilities, made.supplemental, made.account_ids)
        except Invalid as problem:
            found = " ".join(["400", *("/" + detail.path.split("/")[1] for detail in problem.details)])
        if found != expected:
            wrong.append((given, expected, found))
    assert wrong == []


def test_admin_capabilities_are_those_there_are() -> None:
    assert set(get_args(AdminCapability)) == ADMIN_CAPABILITIES


def test_which_bodies_ask_for_administration() -> None:
    """Also those that are wrong in another way: what they are is told after where they came from."""
    for admin in ADMIN:
        assert grants_administration({"customCapabilities": ["mail.read", admin]})
        assert grants_administration({"permissionProfile": "full", "supplementalCapabilities": [[], admin], "name": 1})
    others: tuple[object, ...] = (
        None,
        [],
        {},
        {"customCapabilities": [*FULL, {}, None]},
        {"supplementalCapabilities": ADMIN[0]},
    )
    for other in others:
        assert not grants_administration(other)
