"""Names that people are shown: something of them can be seen, and they turn nothing around."""

import unicodedata

import msgspec
import pytest

from mailbox_appliance.operations.message_input import DeviceName, Name
from tests.checked_client import PASSWORD, CheckedClient
from tests.operations.log_ins import LOGIN, log_in

RLO, ISOLATE = "\u202e", "\u2066"
#: names that are no names
REFUSED = (
    *(
        " ",
        "\t",
        "\u00a0\u2003",
        "\u200b",
        "\u200b\u200d ",
        "\u2060",
        "\ufeff",
        "\u00ad",
        "\u3164",
        "\u115f\u1160",
        "\u2800",
    ),
    *("\ufe0f", "\U000e0041\U000e007f", "\U0001d173", "\u180e", "\u061c"),
    *(f"Ada{RLO}", f"{RLO}Ada", f"A{ISOLATE}da", "Ada\u2069", "Ada\u202a", f"{RLO} "),
)
#: names as people have them
TAKEN = (
    "A",
    "李",
    "🏴\U000e0067\U000e0062\U000e007f",
    "👩\u200d🚀",
    "אדה",
    "\u200fאדה",
    "Nur\u200can",
    "ada's ü",
    "\u0301a",
    "☃\ufe0f",
    ".",
)


def is_taken(text: str, kind: type = str) -> bool:
    try:
        return bool(msgspec.convert(text, kind) == text)
    except msgspec.ValidationError:
        return False


@pytest.mark.parametrize("kind", [Name, DeviceName])
def test_what_can_be_seen_is_a_name(kind: type) -> None:
    assert [text for text in REFUSED if is_taken(text, kind)] == []
    assert [text for text in TAKEN if not is_taken(text, kind)] == []


def test_white_space_controls_and_format_characters_alone_are_no_name() -> None:
    # Those signs of format that stand above or below the numbers after them are seen.
    seen = {"ARABIC", "SYRIAC", "KAITHI", "EGYPTIAN"}
    for character in map(chr, range(0x110000)):
        if unicodedata.category(character) not in ("Zs", "Zl", "Zp", "Cc", "Cf"):
            continue
        name = unicodedata.name(character, "")
        if name.split(" ")[0] not in seen or name == "ARABIC LETTER MARK":
            assert not is_taken(character * 3, Name), name


def test_everywhere_a_name_is_given(ada: CheckedClient) -> None:
    bob = {"name": "Bob", "email": "bob@example.org", "role": "member"}
    taken = {"token": "x", "password": PASSWORD, "deviceName": "x"}
    for wrong in ("\u200b", f"Ada{RLO}"):
        for method, path, body, place in (
            ("POST", "/admin/members", bob | {"name": wrong}, "/name"),
            ("PATCH", f"/admin/members/{ada.member['id']}", {"name": wrong}, "/name"),
            ("PATCH", "/me", {"name": wrong}, "/name"),
            ("POST", "/me/api-keys", {"name": wrong, "permissionProfile": "full"}, "/name"),
            ("POST", "/auth/enroll", taken | {"deviceName": wrong}, "/deviceName"),
            ("POST", "/auth/password-reset", taken | {"deviceName": wrong}, "/deviceName"),
        ):
            answer = ada.ask(method, path, body)
            assert (answer.refusal, answer.places) == ((400, "invalid_request"), [place]), (path, wrong)
            assert "a visible character" in answer.body["error"]["details"][0]["message"]
        assert log_in(ada, LOGIN | {"deviceName": wrong}).places == ["/deviceName"]
