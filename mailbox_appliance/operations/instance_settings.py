"""The settings that may change while running: a session of an administrator changes them, and they count at once."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import CertificateUnusable, Conflict, Detail, HttpsNotOffered, Invalid
from mailbox_appliance.model.records import Input, OperationResult
from mailbox_appliance.operations.caller import Caller
from mailbox_appliance.operations.certificates import ensure_certificate
from mailbox_appliance.operations.operation import operation
from mailbox_appliance.operations.rights import Access
from mailbox_appliance.security.licence import STORED_AS as LICENCE
from mailbox_appliance.settings import BY_NAME, OPTIONS, Option, is_https_public, why_invalid

log = logging.getLogger(__name__)

Stored = Mapping[str, object]

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


def _about_stray(name: str) -> str | None:
    """What is to be said of a setting that does not change while running."""
    if (option := BY_NAME.get(name)) is None:
        return None
    table, _, key = name.partition(".")
    return (
        f"{name} counts from the next start on, and is not set here: set `{key}` below [{table}] in config.toml, or"
        f" {option.environment}, and start the appliance again."
    )


if TYPE_CHECKING:
    ChangedSettings = Input
else:
    ChangedSettings = msgspec.defstruct(
        "ChangedSettings",
        [_field(option) for option in RUNTIME],
        bases=(Input,),
        namespace={"about_stray": staticmethod(_about_stray)},
        frozen=True,
        kw_only=True,
    )
    ChangedSettings.__doc__ = "New values of settings, by name. Those that are left out stay; null takes one back."


@operation(access=Access.SESSION, role="admin", https=True, tag="instance_settings")
def get_settings(appliance: Appliance, caller: Caller) -> dict[str, Any]:  # noqa: ARG001 - rights were checked
    """The settings that may change while running: name -> value in force.

    Also those that are stored and that this release does not know; they are kept for one that does.
    """
    stored = appliance.store.stored_settings.get_all()
    unknown = {name: value for name, value in stored.items() if name not in BY_NAME.keys() | _NO_SETTINGS}
    return unknown | {option.name: appliance.settings.values[option.name] for option in RUNTIME}


@operation(access=Access.SESSION, role="admin", https=True, tag="instance_settings")
def update_settings(appliance: Appliance, caller: Caller, request: ChangedSettings) -> OperationResult[dict[str, Any]]:
    """Change settings, all of them or none. `null` takes a change back: what config.toml has counts again.

    What the operator sets in the environment or on the command line cannot be changed here (409). `warnings` tell who
    asks from another computer that HTTPS does not let it in any more.
    """
    changes = dict(_changes(request))
    require_fitting(changes)
    warnings = change(appliance, caller, changes)
    return OperationResult(get_settings(appliance, caller), warnings)


def change(appliance: Appliance, caller: Caller, changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Store these values, which fit, and let them take effect; None takes a change back. Answers what is to be said.

    Raises Conflict, with all as it was, where something rules over a value, or HTTPS cannot be offered so.
    """
    with appliance.settings_lock:
        _require_free(appliance, changes)
        let_in = is_https_public(appliance.settings)
        if changes.get("server.https"):
            _require_certificate(appliance, caller)
        before = _store(appliance, caller, changes)
        try:
            appliance.apply_stored_settings()
        except BaseException:
            _put_back(appliance, caller, before)
            raise
        is_shut_out = let_in and not caller.origin.is_local and not is_https_public(appliance.settings)
    return tuple(_shut_out(appliance)) if is_shut_out else ()


def _shut_out(appliance: Appliance) -> Iterator[str]:
    is_on = appliance.settings.flag("server.https")
    what = "HTTPS answers on this computer only from now on" if is_on else "HTTPS is not offered any more"
    how = "`mailbox-appliance https enable --host ''`" if is_on else "`mailbox-appliance https enable`"
    yield f"{what}: if you came in by it from another one, only {how} on the appliance's computer lets you in again."


def _require_certificate(appliance: Appliance, caller: Caller) -> None:
    """HTTPS needs one; it is made here, and not when it opens, so that the log tells who had it made."""
    try:
        ensure_certificate(appliance, caller.actor)
    except CertificateUnusable as problem:
        raise HttpsNotOffered(reason=problem.message) from problem


def _store(appliance: Appliance, caller: Caller, changes: Mapping[str, Any]) -> Stored:
    """Write what changes, with a row of the log each; answers those values as they were."""
    store = appliance.store
    with store.database.transaction(durable=True):
        stored = store.stored_settings.get_all()
        now = {name: list(value) if isinstance(value, tuple) else value for name, value in changes.items()}
        now = {name: value for name, value in now.items() if not _is_same(stored.get(name), value)}
        for name, value in now.items():
            _put(appliance, name, value)
            store.audit.record(caller.actor, "settings.update", ("setting", name))
    return {name: stored.get(name) for name in now}


def _put_back(appliance: Appliance, caller: Caller, before: Stored) -> None:
    """Undo a change that could not take effect. Where that fails too, what is stored is in force all the same."""
    store = appliance.store
    try:
        with store.database.transaction(durable=True):
            for name, value in before.items():
                _put(appliance, name, value)
                store.audit.record(caller.actor, "settings.update", ("setting", name), "failure")
        with suppress(HttpsNotOffered):  # it was not before, either
            appliance.apply_stored_settings()
    except Exception:
        log.exception("settings could not be put back", extra={"settings": [*before]})


def _put(appliance: Appliance, name: str, value: object) -> None:
    if value is None:
        appliance.store.stored_settings.remove(name)
    else:
        appliance.store.stored_settings.put(name, value)


def _is_same(one: object, other: object) -> bool:
    """Whether two JSON values are the same; 1 and true are not."""
    return one == other and type(one) is type(other)


def _changes(request: ChangedSettings) -> Iterator[tuple[str, Any]]:
    for option in RUNTIME:
        value = getattr(request, option.name.replace(".", "_"))
        if value is not UNSET:
            yield option.name, tuple(value) if isinstance(value, list) else value


def require_fitting(changes: Mapping[str, Any], places: Mapping[str, str] | None = None) -> None:
    """Raises Invalid for values that do not fit. `places`: where a setting stands in the request, else by its name."""
    faults = [
        Detail(f"/{(places or {}).get(name, name)}", f"{name} {wrong}.")
        for name, value in changes.items()
        if value is not None and (wrong := why_invalid(BY_NAME[name], value)) is not None
    ]
    if faults:
        raise Invalid(details=tuple(faults), reason=faults[0].message)


def _require_free(appliance: Appliance, changes: Mapping[str, Any]) -> None:
    for name in changes:
        if (ruler := appliance.settings.overridden_by(name)) is not None:
            raise Conflict(reason=f"{name} is set by {ruler}, which rules; change it there.")
