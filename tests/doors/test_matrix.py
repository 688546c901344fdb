"""Every credential, every operation, every interface: the verdict is the table's, at each of them.

The table (`rights.py`) is written by hand; an operation without a row there fails here.
"""

import re
from collections.abc import Iterator
from itertools import product

import pytest

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.web.routes import ROUTES
from tests.doors.cli import Cli
from tests.doors.door import Door, Way
from tests.doors.gathering import Gathering
from tests.doors.mcp import Mcp
from tests.doors.people import ELSEWHERE, HERE, Aim, Credential, Origin, World
from tests.doors.rest import Rest
from tests.doors.rights import ACCOUNTS, FILES, LOCAL_PAGES, NOT_YET, PAGES, READ, RIGHTS, Right
from tests.doors.verdicts import ALLOWED, Verdict, capabilities, expected

#: The description, its viewer, and the page that a provider's sign-in comes back to, are beside the table of routes.
OFFERED = {f"{route.method} {route.path}" for route in ROUTES} | {
    "GET /openapi.json",
    "GET /oauth/callback",
    "GET /docs",
}
STORED = (
    "id, name, email, role, status, password_hash, last_login_at FROM members ORDER BY id",
    "id, member_id FROM sessions ORDER BY id",
    "id, capabilities, account_ids, revoked_at FROM api_keys ORDER BY id",
    "id, kind, used_at FROM invitations ORDER BY id",
    "id, email, display_name, shared_with_all, status, connection, mapped_folders FROM accounts ORDER BY id",
    "account_id, member_id FROM account_grants ORDER BY account_id, member_id",
    "id, status, phase FROM delivery_operations ORDER BY id",
    "count(*) FROM messages",
    "count(*) FROM oauth_apps",
    "count(*) FROM settings",
    "count(*) FROM audit_events",
    "id, member_id, url, status, secret, position FROM webhooks ORDER BY id",
    "count(*) FROM webhook_attempts",
)
THERE = [right for right in RIGHTS if right.call in OFFERED]


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    """An appliance with everybody in it; its workers rest."""
    made = Appliance(tmp_path_factory.mktemp("doors") / "data")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def gathered(appliance: Appliance) -> tuple[World, dict[str, list[object]]]:
    """Everybody, and what is stored in the beginning."""
    return Gathering(appliance).world(), stored(appliance)


@pytest.fixture(scope="module")
def world(gathered: tuple[World, dict[str, list[object]]]) -> World:
    return gathered[0]


def stored(appliance: Appliance) -> dict[str, list[object]]:
    """Whatever an operation might change, but when a credential was used last."""
    return {query: list(appliance.store.database.rows(f"SELECT {query}")) for query in STORED}


@pytest.fixture(scope="module")
def rest(appliance: Appliance) -> Rest:
    return Rest(appliance)


def test_every_operation_has_a_row_and_every_row_an_operation() -> None:
    written = [right.name for right in RIGHTS]
    assert len(written) == len(set(written)), "a row stands there twice"
    calls = {right.call for right in RIGHTS}
    assert not OFFERED - calls, "write a row for it in tests/doors/rights.py"
    assert not OFFERED & NOT_YET, "it is there: take it out of NOT_YET"
    assert not calls - OFFERED - NOT_YET, "nothing offers it"


def test_nothing_is_offered_beside_the_table(rest: Rest) -> None:
    below = {right.call.replace(" /", " /api/v1/").rstrip("/") for right in RIGHTS}
    assert not rest.offered() - below - PAGES - FILES.keys() - LOCAL_PAGES, (
        "write a row for it in tests/doors/rights.py"
    )


def test_a_page_is_the_same_for_everybody(world: World, rest: Rest) -> None:
    for page in PAGES | {f"GET {path}" for path in FILES.values()}:
        method, path = page.split(" ")
        shown = {
            (answer.status, answer.content)
            for origin in (HERE, *ELSEWHERE)
            for who in world.credentials
            for answer in [rest.answer(method, path, who, origin)]
        }
        assert len(shown) == 1
        assert {status for status, _ in shown} == {200}


def test_a_local_page_is_for_whoever_is_on_this_computer(world: World, rest: Rest) -> None:
    """The operator as well as one who has nothing; and for nobody elsewhere, whatever they come with."""
    for page in LOCAL_PAGES:
        method, path = page.split(" ")
        for origin, status in ((HERE, 200), *((elsewhere, 403) for elsewhere in ELSEWHERE)):
            shown = {rest.answer(method, path, who, origin).status for who in world.credentials}
            assert shown == {status}


def parameters(right: Right) -> tuple[str, ...]:
    return tuple(re.findall(r"{(\w+)}", right.path))


def asked(right: Right, world: World) -> Iterator[tuple[Origin, Aim, Credential]]:
    """Everybody from here, at everything who has anything that is good; each from one place elsewhere."""
    first, *more = world.aims(parameters(right))
    yield from product((HERE,), (first,), world.credentials)
    yield from product((HERE,), more, (who for who in world.credentials if who.kind != "none"))
    for number, who in enumerate(world.credentials, THERE.index(right) if right in THERE else 0):
        if who.kind != "operator":
            yield ELSEWHERE[number % len(ELSEWHERE)], first, who
    yield from product(ELSEWHERE, (first,), (who for who in world.credentials if who.kind == "operator"))


@pytest.mark.parametrize("right", THERE, ids=lambda right: right.name)
def test_rest_gives_the_rights_of_the_table(right: Right, world: World, rest: Rest) -> None:
    wrong: list[tuple[str, str, str, Verdict, Verdict]] = []
    for origin, aim, who in asked(right, world):
        wanted, given = expected(right, who, origin, aim), rest.ask(right, who, origin, aim)
        if wanted != given:
            wrong.append((who.name, origin.name, aim.name, wanted, given))
    assert wrong == []


def test_all_kinds_of_verdicts_are_met(world: World) -> None:
    met = {expected(right, who, origin, aim)[1:] for right in RIGHTS for origin, aim, who in asked(right, world)}
    assert len(met) == 10, met


@pytest.mark.parametrize("right", THERE, ids=lambda right: right.name)
def test_a_final_slash_and_head_change_nothing(right: Right, world: World, rest: Rest) -> None:
    aim = next(world.aims(parameters(right)))
    for who in world.credentials[::7]:
        verdict = rest.ask(right, who, HERE, aim)
        assert rest.ask(right, who, HERE, aim, ending="/") == verdict
        if right.method == "GET":
            assert rest.ask(right, who, HERE, aim, method="HEAD").status == verdict.status


# --- what lists show --------------------------------------------------------------------------------------------------


def reached(who: Credential, world: World) -> set[str]:
    """The mailboxes whose mail a credential reaches, by the table."""
    right = right_of_call("GET /accounts/{accountId}")
    return {aim.values["accountId"] for aim in world.mailboxes if expected(right, who, HERE, aim) == ALLOWED}


def right_of_call(call: str) -> Right:
    return next(right for right in RIGHTS if right.call == call)


def test_everybody_is_told_what_they_may_and_reach(world: World, rest: Rest) -> None:
    ids = {aim.mailbox.name: aim.mailbox.id for aim in world.mailboxes if aim.mailbox is not None}
    for who in world.credentials:
        if who.kind in ("none", "operator") or who.is_suspended:
            continue
        credential = rest.data("/me", who)["credential"]
        assert set(credential["capabilities"]) == capabilities(who), who.name
        scope = None if who.scope is None else {ids[name] for name in who.scope}
        assert (None if credential["accountIds"] is None else set(credential["accountIds"])) == scope, who.name
        if READ in capabilities(who):
            assert {box["id"] for box in rest.data("/accounts", who)} == reached(who, world), who.name
            assert {box["id"] for box in rest.data("/status", who)["accounts"]} == reached(who, world), who.name
        if ACCOUNTS in capabilities(who):
            within = set(ids.values()) if scope is None else scope
            assert {box["id"] for box in rest.data("/admin/accounts", who)} == within, who.name


# --- the other interfaces ---

DOORS: dict[str, type[Door]] = {"cli": Cli, "mcp": Mcp}
WAYS = [(name, way) for name, door in DOORS.items() for way in door.ways()]


@pytest.fixture(scope="module")
def doors(appliance: Appliance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Door]]:
    folder = tmp_path_factory.mktemp("doors")
    opened = {name: door(appliance, folder / name) for name, door in DOORS.items()}
    yield opened
    for door in opened.values():
        door.close()


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_whatever_a_door_offers_has_a_row(door: type[Door]) -> None:
    assert not set(door.without_row()), "write a row for it in tests/doors"


@pytest.mark.parametrize(("name", "way"), WAYS, ids=lambda way: getattr(way, "name", way))
def test_a_door_gives_the_rights_of_rest(name: str, way: Way, world: World, rest: Rest, doors: dict[str, Door]) -> None:
    door, right, wrong = doors[name], right_of(way), []
    for origin, aim, who in asked_at_a_door(way, right, world):
        wanted = door.told(rest.ask(right, who, origin, aim))
        given = door.ask(way, who, origin, aim)
        if wanted != given:
            wrong.append((who.name, origin.name, aim.name, wanted, given))
    assert wrong == []


def test_an_assistant_is_shown_the_tools_that_it_may_use(world: World, doors: dict[str, Door]) -> None:
    door = doors["mcp"]
    assert isinstance(door, Mcp)
    for who in world.credentials:
        has_any = who.kind in ("session", "api_key") and not who.is_suspended
        held = capabilities(who) if has_any else frozenset()
        assert door.listed(who) == {row.tool for row in Mcp.ways() if held.intersection(right_of(row).needs)}, who.name


def right_of(way: Way) -> Right:
    """The row of the table that a command or a tool stands for."""
    return next(right for right in RIGHTS if (right.call, right.action) == (way.call, way.action))


def asked_at_a_door(way: Way, right: Right, world: World) -> Iterator[tuple[Origin, Aim, Credential]]:
    """By turns every second of those who have something good, each aiming at another thing; few others and elsewhere.

    These interfaces are slow, and call REST instead of deciding anything.
    """
    turn = [one for _, one in WAYS].index(way)
    aims = tuple(world.aims(parameters(right)))
    for number, who in enumerate(world.credentials, turn):
        is_rare = number % (40 if right.is_page else 9) == 0
        if is_rare or (number % 2 == 0 and who.kind != "none" and not right.is_page):
            yield HERE, aims[number // 2 % len(aims)], who
        if is_rare and who.token:
            yield ELSEWHERE[number % len(ELSEWHERE)], aims[0], who


def test_by_all_of_this_nothing_was_done(appliance: Appliance, gathered: tuple[World, dict[str, list[object]]]) -> None:
    assert stored(appliance) == gathered[1]
