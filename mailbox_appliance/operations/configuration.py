"""The configuration, read with everything that refuses what cannot be used: at the start, and before a restore."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from mailbox_appliance import settings
from mailbox_appliance.errors import Conflict
from mailbox_appliance.remote import providers
from mailbox_appliance.remote.net.connect import require_ca_file
from mailbox_appliance.security import licence
from mailbox_appliance.settings import BadSetting, Settings, Value


def load(file: Path, flags: Mapping[str, Value] | None = None) -> Settings:
    """The settings of a configuration file, the environment and the flags. Raises BadSetting."""
    options = settings.load(file, flags=flags)
    require_ca_file(options.text("remote.ca_file"))
    providers.load_providers(options.text("remote.providers_file"))
    licence.issuer_key(options), licence.verify_url(options)  # which refuse what cannot be used
    _require_address(options.text("server.public_url"))
    return options


def _require_address(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise BadSetting(f"server.public_url is no address: {error}.") from error
    if url and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise BadSetting("server.public_url is no address of the web: write it as https://mail.example.org.")


def require_usable(file: Path) -> None:
    """Raises Conflict where a configuration that is to be restored cannot be used here."""
    try:
        load(file)
    except BadSetting as error:
        said = str(error).replace(str(file), file.name).removesuffix(".")
        reason = f"The configuration in the backup cannot be used: {said}."
        raise Conflict(reason=reason) from error
