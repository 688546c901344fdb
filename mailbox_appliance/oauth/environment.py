"""Read OAuth applications from environment variables. They override those that administrators save.

The variables are `MAILBOX_APPLIANCE_GOOGLE_CLIENT_ID`, `..._GOOGLE_CLIENT_SECRET`, `..._GOOGLE_PUBLIC_CLIENT`, the same
with `OUTLOOK`, and `..._OUTLOOK_TENANT_ID`.

With the suffix `_FILE`, a variable names a file whose first line is the value, as for container secrets. If both forms
are set, the file has priority. If `..._CLIENT_ID_FILE` is set, the plain variables for secret and tenant are ignored,
since they may belong to another application.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mailbox_appliance.model.accounts import OAuthApp, OAuthProvider
from mailbox_appliance.settings import ENVIRONMENT_PREFIX, BadSetting, parse_flag

#: The longest value of each variable in characters (specification, "Limits").
LONGEST = {"CLIENT_ID": 2048, "CLIENT_SECRET": 16384, "TENANT_ID": 2048, "PUBLIC_CLIENT": 5}
#: The characters of a tenant ID, which becomes part of a URL path. A leading dot would change the path.
TENANT = r"^[A-Za-z0-9][A-Za-z0-9._-]*$(?!\n)"
_VARIABLES: Mapping[OAuthProvider, tuple[str, ...]] = {
    "google": ("CLIENT_ID", "CLIENT_SECRET", "PUBLIC_CLIENT"),
    "outlook": ("CLIENT_ID", "CLIENT_SECRET", "TENANT_ID", "PUBLIC_CLIENT"),
}
#: The values that belong to one client ID and to no other.
_BELONGS_TO_ID = ("CLIENT_SECRET", "TENANT_ID")
# In UTF-8 a character has at most four bytes; no more of a file is read.
_MOST_READ = 4 * max(LONGEST.values()) + 2


@dataclass(frozen=True)
class EnvironmentApp:
    """An OAuth application from environment variables. `source`: `environment-file` if any of its values comes from a
    file, otherwise `environment`.
    """

    app: OAuthApp
    source: Literal["environment", "environment-file"]


EnvironmentApps = Mapping[OAuthProvider, EnvironmentApp]


def read_apps(environment: Mapping[str, str]) -> EnvironmentApps:
    """Return the OAuth applications from environment variables, by provider; those that are not set are missing.

    Raises BadSetting, whose text never contains a value, because it may be a secret.
    """
    found = {provider: _read_app(provider, environment) for provider in _VARIABLES}
    return {provider: given for provider, given in found.items() if given is not None}


def _read_app(provider: OAuthProvider, environment: Mapping[str, str]) -> EnvironmentApp | None:
    values, is_from_file = {}, False
    prefix = f"{ENVIRONMENT_PREFIX}{provider.upper()}_"
    has_id_file = bool(environment.get(f"{prefix}CLIENT_ID_FILE"))
    for name in _VARIABLES[provider]:
        variable = prefix + name
        # Empty means not set: files for containers often list variables without values.
        if file := environment.get(f"{variable}_FILE"):
            values[name], is_from_file = (
                _require_valid(f"{variable}_FILE", name, _first_line(f"{variable}_FILE", file)),
                True,
            )
        elif has_id_file and name in _BELONGS_TO_ID:
            continue
        elif text := environment.get(variable, "").strip():
            values[name] = _require_valid(variable, name, text)
    if not values:
        return None
    return EnvironmentApp(_build_app(provider, values), "environment-file" if is_from_file else "environment")


def _build_app(provider: OAuthProvider, values: Mapping[str, str]) -> OAuthApp:
    prefix = f"{ENVIRONMENT_PREFIX}{provider.upper()}_"
    client_id, secret = values.get("CLIENT_ID"), values.get("CLIENT_SECRET")
    is_public = _parse_flag(prefix + "PUBLIC_CLIENT", values.get("PUBLIC_CLIENT", "false"))
    if client_id is None:
        raise BadSetting(f"{prefix}CLIENT_ID must be set if another {prefix}... variable is set")
    if is_public and secret is not None and provider == "outlook":  # Google's desktop applications have one
        raise BadSetting(
            f"{prefix}CLIENT_SECRET must not be set for a public client: remove it or {prefix}PUBLIC_CLIENT"
        )
    return OAuthApp(provider, client_id, secret, values.get("TENANT_ID"), is_public)


def _first_line(variable: str, name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            text = file.read(_MOST_READ).decode("utf-8-sig")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadSetting(f"{variable}: the file cannot be read: {reason}") from error
    lines = text.strip().splitlines()
    if not lines:
        raise BadSetting(f"{variable}: the file is empty")
    return lines[0].strip()


def _require_valid(variable: str, name: str, text: str) -> str:
    if len(text) > LONGEST[name]:
        raise BadSetting(f"{variable} must have at most {LONGEST[name]} characters (got {len(text)})")
    if not text.isprintable():
        raise BadSetting(f"{variable} must not contain control characters")
    if name == "TENANT_ID" and not re.search(TENANT, text):
        raise BadSetting(f"{variable} must be a tenant ID of letters, digits, `.`, `-` and `_`")
    return text


def _parse_flag(variable: str, text: str) -> bool:
    if (found := parse_flag(text)) is None:
        raise BadSetting(f"{variable} must be true or false")
    return found
