"""The settings that may change while running: a session of an administrator changes them, and they count at once."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Conflict, Detail, Invalid
from mailbox_appliance.licensing import STORED_AS as LICENCE
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.options import BY_NAME, OPTIONS, Option, complaint
from mailbox_appliance.records import Input

RUNTIME = tuple(option for option in OPTIONS if option.runtime)
#: What lies beside the settings in their table and is none.
_NO_SETTINGS = frozenset({LICENCE})
_JSON_TYPES = {bool: "boolean", int: "integer", str: "string", tuple: "array"}


def _schema(option: Option) -> dict[str, Any]:
    kind = _JSON_TYPES[type(option.default)]
    bounds = {"minimum": option.minimum, "maximum": option.maximum} if kind == "integer" else {}
    choices = {"enum": [*option.choices, None]} if option.choices else {}
    items = {"items": {"type": "string"}} if kind == "array" else {}
    return {
        "type": [kind, "null"],
        "description": f"{option.help} null: as config.toml has it.",
        **bounds,
        **choices,
        **items,
    }


def _field(option: Option) -> tuple[str, Any, Any]:
    # Any: the table of settings says what fits, here as at the start.
    annotation = Annotated[Any, Meta(extra_json_schema=_schema(option))]
    return option.name.replace(".", "_"), annotation, msgspec.field(default=UNSET, name=option.name)


if TYPE_CHECKING:
    ChangedSettings = Input
else:
    ChangedSettings = msgspec.defstruct(
        "ChangedSettings", [_field(option) for option in RUNTIME], bases=(Input,), frozen=True, kw_only=True
    )
    ChangedSettings.__doc__ = "New values of settings, by name. Those that are left out stay; null takes one back."


@operation(access=Access.SESSION, role="admin", https=True)
def get_settings(appliance: Appliance, caller: Caller) -> dict[str, Any]:  # noqa: ARG001 - rights were checked
    """The settings that may change while running: name -> value in force.

    Also those that are stored and that this release does not know; they are kept for one that does.
    """
    stored = appliance.store.stored_settings.all()
    unknown = {name: value for name, value in stored.items() if name not in BY_NAME.keys() | _NO_SETTINGS}
    return unknown | {option.name: appliance.settings.values[option.name] for option in RUNTIME}


@operation(access=Access.SESSION, role="admin", https=True)
def update_settings(appliance: Appliance, caller: Caller, request: ChangedSettings) -> dict[str, Any]:
    """Change settings, all of them or none. `null` takes a change back: what config.toml has counts again.

    What the operator sets in the environment or on the command line cannot be changed here (409).
    """
    changes = dict(_changes(request))
    _check(changes)
    _require_free(appliance, changes)
    store = appliance.store
    with store.database.transaction(durable=True):
        before = store.stored_settings.all()
        for name, value in changes.items():
            value = list(value) if isinstance(value, tuple) else value
            if before.get(name) == value and type(before.get(name)) is type(value):
                continue
            if value is None:
                store.stored_settings.remove(name)
            else:
                store.stored_settings.put(name, value)
            store.audit.record(caller.actor, "settings.update", ("setting", name))
    appliance.use_changed_settings()
    return get_settings(appliance, caller)


def _changes(request: ChangedSettings) -> Iterator[tuple[str, Any]]:
    for option in RUNTIME:
        value = getattr(request, option.name.replace(".", "_"))
        if value is not UNSET:
            yield option.name, tuple(value) if isinstance(value, list) else value


def _check(changes: dict[str, Any]) -> None:
    faults = [
        Detail(f"/{name}", f"{name} {wrong}.")
        for name, value in changes.items()
        if value is not None and (wrong := complaint(BY_NAME[name], value)) is not None
    ]
    if faults:
        raise Invalid(details=tuple(faults), reason=faults[0].message)


def _require_free(appliance: Appliance, changes: dict[str, Any]) -> None:
    for name in changes:
        if (ruler := appliance.settings.ruled_by(name)) is not None:
            raise Conflict(reason=f"{name} is set by {ruler}, which rules; change it there.")
