"""The shape of the package stays within the bounds of `scripts/measure-house`."""

from pathlib import Path

import pytest

from tests.house.measure import House, Measure, Module, measure, read_house

#: Names of modules that stand twice: the same noun on another floor, or the same part of another room.
SAME_NOUN = {
    "accounts",
    "actions",
    "address",
    "api_keys",
    "approvals",
    "audit",
    "backups",
    "changes",
    "connection",
    "context",
    "decoding",
    "deliveries",
    "drafts",
    "errors",
    "events",
    "files",
    "folders",
    "graph",
    "http",
    "https",
    "licence",
    "main",
    "members",
    "menu",
    "messages",
    "oauth",
    "policies",
    "restore",
    "run",
    "scheduler",
    "search",
    "sending",
    "service",
    "settings",
    "smtp",
    "stdio",
    "store",
    "tokens",
    "undo",
    "webhooks",
}


@pytest.fixture(scope="module")
def house() -> House:
    return read_house()


@pytest.mark.parametrize("each", measure(read_house()), ids=lambda each: each.name)
def test_a_measure_is_within_its_bound(each: Measure) -> None:
    assert each.value <= each.most, each.detail


def test_a_module_name_stands_twice_for_the_same_noun_only(house: House) -> None:
    assert set(house.stems_of_two_modules()) == SAME_NOUN


def test_measures_are_those_of_the_sources(tmp_path: Path) -> None:
    sources = {
        "top.py": "from mailbox_appliance.room import left\n\n\ndef f():\n    from mailbox_appliance import other\n",
        "other.py": "from mailbox_appliance import top\n\n\nclass Twice: ...\n",
        "room/__init__.py": '"""A room."""\n',
        "room/left.py": "from typing import TYPE_CHECKING\nfrom mailbox_appliance.room.right import Twice\n"
        "if TYPE_CHECKING:\n    from mailbox_appliance.top import f\n",
        "room/right.py": "class Twice: ...\nclass _Twice: ...\n",
    }
    for name, source in sources.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    house = read_house(tmp_path)
    found = {each.name: each for each in measure(house)}
    assert found["modules"].value == 4
    assert found["modules at the top"].value == 2
    assert found["import cycles, lazy ones too"].detail == "other top"
    assert found["public class names used twice"].detail == "Twice"
    assert house.slices() == ["other", "room.right"]
    assert house.longest_chain() == ["other", "top", "room.left", "room.right"]
    assert house.stems_of_two_modules() == {}
    assert isinstance(house.modules["room.left"], Module)
