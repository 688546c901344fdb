"""The operator's file over the table of providers (the setting remote.providers_file), in TOML:

    [outlook]
    authorization_url = "https://login.microsoftonline.us/{tenant}/oauth2/v2.0/authorize"
    token_url = "https://login.microsoftonline.us/{tenant}/oauth2/v2.0/token"
    api_url = "https://graph.microsoft.us"
    mail_scopes = ["offline_access", "https://outlook.office365.us/IMAP.AccessAsUser.All"]
    imap = {host = "outlook.office365.us", port = 993, security = "tls"}

and the scopes of Graph, for one's own and for shared mailboxes. What it leaves out stays as it is. Addresses are https://.
`upload_hosts`, each a host or host:port, are besides those of the table.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.model.decoding import convert
from mailbox_appliance.model.records import OAuthProvider, Security
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.providers import BUILT_IN, KnownProvider, MailServer
from mailbox_appliance.settings import BadSetting, Settings

_LARGEST = 1 << 16
_Scopes = tuple[Annotated[str, Meta(min_length=1, pattern=r"^[\x21\x23-\x5b\x5d-\x7e]+$")], ...]  # RFC 6749 3.3
_Url = Annotated[str, Meta(pattern=r"^https://[^\s\"<>\\^`{}/@]+(/[^\s\"<>\\^`]*)?$")]

_Host = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]{0,252}[a-z0-9])?(:[1-9][0-9]{0,4})?$")]


class _Server(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    host: Annotated[str, Meta(min_length=1, max_length=255)]
    port: Annotated[int, Meta(ge=1, le=65535)]
    security: Security


class _Provider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    authorization_url: _Url | UnsetType = UNSET
    token_url: _Url | UnsetType = UNSET
    device_url: _Url | UnsetType = UNSET
    userinfo_url: _Url | UnsetType = UNSET
    api_url: _Url | UnsetType = UNSET
    imap: _Server | UnsetType = UNSET
    smtp: _Server | UnsetType = UNSET
    mail_scopes: _Scopes | UnsetType = UNSET
    graph_scopes: _Scopes | UnsetType = UNSET
    shared_scopes: _Scopes | UnsetType = UNSET
    upload_hosts: tuple[_Host, ...] | UnsetType = UNSET


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    google: _Provider = _Provider()
    outlook: _Provider = _Provider()


def known(settings: Settings, provider: OAuthProvider) -> KnownProvider:
    """A provider, as the operator has it. Raises RemoteFault where the file has become of no use."""
    try:
        return table(settings.text("remote.providers_file"))[provider]
    except BadSetting as error:
        raise RemoteFault("oauth", "unreachable", str(error)) from error


def table(file: str) -> Mapping[OAuthProvider, KnownProvider]:
    """All providers; `file` is laid over them, where one is named. Raises BadSetting, naming the file."""
    if not file:
        return BUILT_IN
    try:
        return _laid_over(file, Path(file).stat().st_mtime_ns)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path, no UTF-8, no TOML
        what = "cannot be read" if isinstance(error, OSError) else f"does not fit: {_in_words(error)}"
        raise BadSetting(f"{Path(file).absolute()}, the file of the setting remote.providers_file, {what}") from error


def _in_words(error: Exception) -> str:
    """No person reads the pattern of an address."""
    return re.sub(r"`str` matching regex '\^https://.*'(?= - |$)", "an address that begins with https://", str(error))


@lru_cache(maxsize=4)
def _laid_over(file: str, changed: int) -> Mapping[OAuthProvider, KnownProvider]:  # noqa: ARG001 - part of the key
    with Path(file).open("rb") as opened:
        text = opened.read(_LARGEST).decode()
    said = convert(tomllib.loads(text), _File)  # its ValidationError is a ValueError
    return {"google": _merged(BUILT_IN["google"], said.google), "outlook": _merged(BUILT_IN["outlook"], said.outlook)}


def _merged(before: KnownProvider, said: _Provider) -> KnownProvider:
    given: dict[str, Any] = {
        name: MailServer(value.host, value.port, value.security) if isinstance(value, _Server) else value
        for name in said.__struct_fields__
        if (value := getattr(said, name)) is not UNSET
    }
    uploads = given.pop("upload_hosts", ())
    hosts = {urlsplit(url).hostname for name, url in given.items() if name.endswith("_url")}
    hosts |= {host.partition(":")[0] for host in uploads}
    return replace(
        before,
        **given,
        upload_hosts=(*before.upload_hosts, *uploads),
        named_by_operator=frozenset(filter(None, hosts)),
    )
