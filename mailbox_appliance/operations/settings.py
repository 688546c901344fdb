"""Operations on the settings that can change while the appliance runs. Also loads config.toml, and creates, imports and
replaces the HTTPS certificate.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta

from mailbox_appliance import settings
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import CertificateUnusable, Conflict, Detail, HttpsNotOffered, Invalid
from mailbox_appliance.model.base import Input
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.operations.operation import Access, Caller, operation
from mailbox_appliance.remote import providers
from mailbox_appliance.remote.net.connect import require_ca_file
from mailbox_appliance.security import licence
from mailbox_appliance.security.licence import STORED_AS as LICENCE
from mailbox_appliance.settings import (
    BY_NAME,
    OPTIONS,
    BadSetting,
    Option,
    Settings,
    Value,
    is_https_public,
    why_invalid,
)
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.tls.files import CertificateFiles, Recorded
from mailbox_appliance.tls.generate import generate_certificate, own_names
from mailbox_appliance.tls.inspect import fingerprint
from mailbox_appliance.tls.validate import validate_certificate

# --- The configuration file, with every check of its values: at the start, and before a restore ---


def load_settings(file: Path, flags: Mapping[str, Value] | None = None) -> Settings:
    """Return the settings from a configuration file, the environment and command-line flags. Raises BadSetting.

    Unlike `settings.load`, this also checks the files and addresses that settings refer to.
    """
    options = settings.load(file, flags=flags)
    require_ca_file(options.text("remote.ca_file"))
    providers.load_providers(options.text("remote.providers_file"))
    licence.issuer_key(options), licence.verify_url(options)  # which refuse what cannot be used
    _require_public_address(options.text("server.public_url"))
    return options


def _require_public_address(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadSetting(f"server.public_url must be a web address: {error}.") from error
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise BadSetting("server.public_url must be a web address, such as https://mail.example.org.")


def require_usable_config(file: Path) -> None:
    """Raise Conflict if a configuration file from a backup is not valid on this computer."""
    try:
        load_settings(file)
    except BadSetting as error:
        said = str(error).replace(str(file), file.name).removesuffix(".")
        reason = f"The configuration in the backup cannot be used: {said}."
        raise Conflict(reason=reason) from error


# --- The HTTPS certificate: created and replaced by requests, the start and commands, with an audit entry each ---
#
# The entry is written when the new pair is on the disk and not yet in use. So a crash can leave an entry without a
# change, but never a change without an entry. If the change fails after that, another entry records the failure.


log = logging.getLogger(__name__)

_CERTIFICATE_ACTIONS = ("certificate.make", "certificate.rotate", "certificate.import")


def ensure_certificate(appliance: Appliance, actor: Actor) -> bool:
    """Create the HTTPS certificate if it does not exist. Returns whether it was created. Raises CertificateUnusable.

    If an earlier one is missing, a warning is logged, since clients that pinned it refuse the new one.
    """
    files = CertificateFiles(appliance.folder)
    was_lost = is_certificate_lost(appliance)
    with _record_change(appliance, actor, "certificate.make") as recorded:
        is_made = files.ensure(own_names(appliance.settings), appliance.clock.now(), recorded)
    if is_made and was_lost:
        log.warning("certificate_recreated")
    return is_made


def is_certificate_lost(appliance: Appliance) -> bool:
    """Whether there is no HTTPS certificate now, although the audit log shows that there was one."""
    return not CertificateFiles(appliance.folder).any_exists() and appliance.store.audit.has_action(
        *_CERTIFICATE_ACTIONS
    )


def rotate_certificate(appliance: Appliance, actor: Actor) -> None:
    """Replace the HTTPS certificate with a new self-signed one. Raises CertificateUnusable."""
    pair = generate_certificate(own_names(appliance.settings), appliance.clock.now())
    with _record_change(appliance, actor, "certificate.rotate") as recorded:
        CertificateFiles(appliance.folder).replace(*pair, recorded)


def import_certificate(appliance: Appliance, actor: Actor, certificate: bytes, key: bytes) -> tuple[str, ...]:
    """Replace the HTTPS certificate with one that the operator provides. Returns warnings about problems for clients.

    Raises Invalid for a certificate or key that cannot be used, and CertificateUnusable if the files cannot be written.
    """
    found = validate_certificate(certificate, key, appliance.clock.now())
    with _record_change(appliance, actor, "certificate.import") as recorded:
        CertificateFiles(appliance.folder).replace(found.certificate, found.key, recorded)
    return found.warnings


@contextmanager
def _record_change(appliance: Appliance, actor: Actor, action: str) -> Iterator[Recorded]:
    """Yield a function that records a certificate before it is used. A CertificateUnusable is recorded too."""
    written: list[str] = []
    record = partial(appliance.store.audit.record, actor, action)

    def recorded(certificate: bytes) -> None:
        target = fingerprint(certificate)
        with appliance.store.database.transaction(durable=True):
            record(("certificate", target))
        written.append(target)

    try:
        yield recorded
    except CertificateUnusable:
        for target in written:
            with appliance.store.database.transaction(durable=True):
                record(("certificate", target), "failure")
        raise


# --- Settings that can change while running ---


StoredValues = Mapping[str, object]

RUNTIME_OPTIONS = tuple(option for option in OPTIONS if option.runtime)
#: Fields beside the settings in the stored table.
_NOT_SETTINGS = frozenset({LICENCE})
_JSON_TYPES = {bool: "boolean", int: "integer", str: "string", tuple: "array"}


def _schema(option: Option) -> dict[str, Any]:
    kind = _JSON_TYPES[type(option.default)]
    bounds = {"minimum": option.minimum, "maximum": option.maximum} if kind == "integer" else {}
    choices = {"enum": [*option.choices, None]} if option.choices else {}
    items = {"items": {"type": "string"}} if kind == "array" else {}
    return {
        "type": [kind, "null"],
        "description": f"{option.help} null: use the value in config.toml.",
        "x-help": option.help,
        **bounds,
        **choices,
        **items,
    }


def _field(option: Option) -> tuple[str, Any, Any]:
    # Any: the table of settings defines what is valid, here as at the start.
    annotation = Annotated[Any, Meta(extra_json_schema=_schema(option))]
    return option.name.replace(".", "_"), annotation, msgspec.field(default=UNSET, name=option.name)


def _unknown_setting_text(name: str) -> str | None:
    """Return None if no setting has this name."""
    if (option := BY_NAME.get(name)) is None:
        return None
    table, _, key = name.partition(".")
    return (
        f"{name} cannot be changed while the appliance runs: set `{key}` below [{table}] in config.toml, or"
        f" {option.environment}, and restart the appliance."
    )


if TYPE_CHECKING:
    UpdateSettingsRequest = Input
else:
    UpdateSettingsRequest = msgspec.defstruct(
        "UpdateSettingsRequest",
        [_field(option) for option in RUNTIME_OPTIONS],
        bases=(Input,),
        namespace={"about_stray": staticmethod(_unknown_setting_text)},
        frozen=True,
        kw_only=True,
    )
    UpdateSettingsRequest.__doc__ = (
        "New values of settings, by name. Omitted settings stay unchanged; null removes a change."
    )


@operation(access=Access.SESSION, role="admin", https=True)
def get_settings(appliance: Appliance, caller: Caller) -> dict[str, Any]:  # noqa: ARG001 - rights were checked
    """Get runtime settings.

    Returns the settings that can change while the appliance runs, by name, with the values in force. Also includes
    stored settings that this release does not know; they are kept for a release that does.
    """
    stored = appliance.store.stored_settings.get_all()
    unknown = {name: value for name, value in stored.items() if name not in BY_NAME.keys() | _NOT_SETTINGS}
    return unknown | {option.name: appliance.settings.values[option.name] for option in RUNTIME_OPTIONS}


@operation(access=Access.SESSION, role="admin", https=True)
def update_settings(
    appliance: Appliance, caller: Caller, request: UpdateSettingsRequest
) -> OperationResult[dict[str, Any]]:
    """Change runtime settings.

    Applies all changes or none. `null` removes a change, so that the value in config.toml applies again. Omitted
    settings stay unchanged. If the change ends your own remote access over HTTPS, a warning explains how to undo it.

    409 `conflict`: the setting is set in the environment or on the command line, and must be changed there.
    """
    changes = dict(_read_changes(request))
    require_valid_values(changes)
    warnings = change_settings(appliance, caller, changes)
    return OperationResult(get_settings(appliance, caller), warnings)


def change_settings(appliance: Appliance, caller: Caller, changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Store new values of settings and apply them. None removes a stored value. Returns warnings.

    `changes`: valid values by name. Raises Conflict if the environment or command line overrides one, and
    HttpsNotOffered if HTTPS cannot run with them. Then nothing is changed.
    """
    with appliance.settings_lock:
        _require_not_overridden(appliance, changes)
        let_in = is_https_public(appliance.settings)
        if changes.get("server.https"):
            _require_certificate(appliance, caller)
        before = _save_changes(appliance, caller, changes)
        try:
            appliance.apply_stored_settings()
        except BaseException:
            _restore_values(appliance, caller, before)
            raise
        is_shut_out = let_in and not caller.origin.is_local and not is_https_public(appliance.settings)
    return tuple(_shut_out_warnings(appliance)) if is_shut_out else ()


def _shut_out_warnings(appliance: Appliance) -> Iterator[str]:
    is_on = appliance.settings.flag("server.https")
    what = "HTTPS now listens only on this computer" if is_on else "HTTPS is off"
    how = "`mailbox-appliance https enable --host ''`" if is_on else "`mailbox-appliance https enable`"
    yield f"{what}. If you signed in over the appliance's own HTTPS, only {how} on its computer lets you sign in again."


def _require_certificate(appliance: Appliance, caller: Caller) -> None:
    """Create a missing certificate before HTTPS is enabled, so that the audit log names the caller."""
    try:
        ensure_certificate(appliance, caller.actor)
    except CertificateUnusable as problem:
        raise HttpsNotOffered(reason=problem.message) from problem


def _save_changes(appliance: Appliance, caller: Caller, changes: Mapping[str, Any]) -> StoredValues:
    """Store the settings that differ, with an audit entry for each. Return their previous values."""
    store = appliance.store
    with store.database.transaction(durable=True):
        stored = store.stored_settings.get_all()
        now = {name: list(value) if isinstance(value, tuple) else value for name, value in changes.items()}
        now = {name: value for name, value in now.items() if not _is_same(stored.get(name), value)}
        for name, value in now.items():
            _put_value(appliance, name, value)
            store.audit.record(caller.actor, "settings.update", ("setting", name))
    return {name: stored.get(name) for name in now}


def _restore_values(appliance: Appliance, caller: Caller, before: StoredValues) -> None:
    """Store the previous values again. If that fails too, it is logged, and the new values stay stored."""
    store = appliance.store
    try:
        with store.database.transaction(durable=True):
            for name, value in before.items():
                _put_value(appliance, name, value)
                store.audit.record(caller.actor, "settings.update", ("setting", name), "failure")
        with suppress(HttpsNotOffered):  # it was off before as well
            appliance.apply_stored_settings()
    except Exception:
        log.exception("settings_rollback_failed", extra={"settings": [*before]})


def _put_value(appliance: Appliance, name: str, value: object) -> None:
    if value is None:
        appliance.store.stored_settings.remove(name)
    else:
        appliance.store.stored_settings.put(name, value)


def _is_same(one: object, other: object) -> bool:
    """JSON's 1 and true are different."""
    return one == other and type(one) is type(other)


def _read_changes(request: UpdateSettingsRequest) -> Iterator[tuple[str, Any]]:
    for option in RUNTIME_OPTIONS:
        value = getattr(request, option.name.replace(".", "_"))
        if value is not UNSET:
            yield option.name, tuple(value) if isinstance(value, list) else value


def require_valid_values(changes: Mapping[str, Any], places: Mapping[str, str] | None = None) -> None:
    """Raise Invalid if a setting has an invalid value. `places`: the name of each setting's field in the request, if it
    differs from its name.
    """
    faults = [
        Detail(f"/{(places or {}).get(name, name)}", f"{name} {wrong}.")
        for name, value in changes.items()
        if value is not None and (wrong := why_invalid(BY_NAME[name], value)) is not None
    ]
    if faults:
        raise Invalid(details=tuple(faults), reason=faults[0].message)


def _require_not_overridden(appliance: Appliance, changes: Mapping[str, Any]) -> None:
    for name in changes:
        if (ruler := appliance.settings.overridden_by(name)) is not None:
            raise Conflict(reason=f"{name} is set by {ruler}, which takes precedence; change it there.")
