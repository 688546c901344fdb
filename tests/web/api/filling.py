"""Makes generated requests meaningful: replaces random texts by names of existing objects.

Only valid values are replaced, by other valid ones; values that are wrong on purpose stay.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from schemathesis import Case
from schemathesis.core.parameters import ParameterLocation

from tests.checked_client import PASSWORD
from tests.operations.filled import FOLDERS
from tests.web.api.household import PASSPHRASE, Household

#: Fields and parameters that name an object of another kind than their own name suggests.
_NAMED = {"replyToMessageId": "messageId", "ownerMemberId": "memberId"}
_LISTS = {"messageIds": "messageId", "memberIds": "memberId", "accounts": "accountId"}
_TOKENS = {"enroll": "invitation", "reset": "password_reset", "console": "console_link", "license": "license"}
#: Combinations that are not valid, though no schema forbids them.
_EITHER = ("customCapabilities",), ("permissionProfile", "supplementalCapabilities")
#: How much is replaced. The path is checked first, so more of it must exist.
_SHARE, _SHARE_IN_PATHS = 0.8, 0.9
_TEXTS: dict[str, tuple[str, ...]] = {
    "host": ("127.0.0.1",),
    "password": (PASSWORD,),
    "currentPassword": (PASSWORD,),
    "newPassword": ("another correct horse",),
    "passphrase": (PASSPHRASE,),
    "mimeType": ("text/plain",),
    "content": ("SGVsbG8=",),
} | dict.fromkeys(("folder", "sent", "drafts", "trash", "archive", "spam"), tuple(path for path, _ in FOLDERS))
#: Values that are useless if any part of them is wrong.
_WHOLE: dict[str, Any] = {
    "to": [{"email": "bob@example.test", "name": "Bob"}],
    "cc": [{"email": "eve@example.test"}],
    "bcc": [{"email": "eve@example.test"}],
    "body": {"text": "Hello", "html": "<p>Hello"},
    "customCapabilities": ["admin.members"],
    "supplementalCapabilities": ["admin.audit"],
    "attachments": [{"filename": "\u00c4rger.txt", "mimeType": "text/plain", "content": "SGVsbG8="}],
}
_SHARE_OF_WHOLES = 0.5


class Filling:
    """Puts real values into the cases of one operation."""

    def __init__(self, household: Household, operation_id: str, random: Random) -> None:
        self._household, self._operation, self.random = household, operation_id, random
        #: The cursor of the last page.
        self.cursor = ""

    def fill(self, case: Case[Any]) -> None:
        """Put names of existing objects into most places."""
        if not _is_wrong(case, ParameterLocation.PATH):
            given = case.path_parameters or {}
            case.path_parameters = {
                name: self._value(_belonging(name, given), text) if self.random.random() < _SHARE_IN_PATHS else text
                for name, text in given.items()
            }
        if not _is_wrong(case, ParameterLocation.QUERY) and isinstance(case.query, Mapping):
            case.query = {name: self._maybe(name, value) for name, value in case.query.items()}
        if not _is_wrong(case, ParameterLocation.BODY) and isinstance(case.body, dict):
            dropped = self.random.choice(_EITHER)
            case.body = self._maybe("", {name: value for name, value in case.body.items() if name not in dropped})

    def _maybe(self, name: str, value: Any) -> Any:
        """Return a value with real ones in most of its places."""
        if name in _WHOLE and isinstance(value, type(_WHOLE[name])) and self.random.random() < _SHARE_OF_WHOLES:
            return _WHOLE[name]
        if isinstance(value, dict):
            return {inner: self._maybe(inner, each) for inner, each in value.items()}
        if self.random.random() > _SHARE:
            return value
        if isinstance(value, list):
            if name in _LISTS:
                return list({str(self._household.real(_LISTS[name], self.random)) for _ in value})
            return [self._maybe(name, each) for each in value]
        if name == "port" and isinstance(value, int):
            return 1
        return self._value(name, value) if isinstance(value, str) else value

    def _value(self, name: str, text: str) -> str:
        """Return a real value for a text; the text itself if there is none of its kind."""
        house, random = self._household, self.random
        if name in _TEXTS:
            return random.choice(_TEXTS[name])
        if name == "token":
            name = next((kind for word, kind in _TOKENS.items() if word in self._operation), name)
        of_now: dict[str, Callable[[], str]] = {
            "email": lambda: random.choice(
                (house.email, "bob@example.test", f"new{random.randrange(10**6)}@example.org")
            ),
            "from": lambda: house.box.email,
            "sendAt": house.soon,
            "cursor": lambda: self.cursor or text,
        }
        if name in of_now:
            return of_now[name]()
        return house.real(_NAMED.get(name, name), random) or text


def _belonging(name: str, beside: Mapping[str, Any]) -> str:
    """Return the kind of object for a path parameter, so that it belongs to the one before it."""
    if name == "sessionId" and "memberId" in beside:
        return "sessionOfMember"
    if name == "messageId" and "attachmentId" in beside:
        return "messageWithFile"
    return name


def _is_wrong(case: Case[Any], location: ParameterLocation) -> bool:
    return case.meta is not None and case.meta.is_negative_at(location)
