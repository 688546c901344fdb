"""Fetch the addresses that a mailbox may send as, from its provider.

Gmail ....... its own address, and those that its owner has confirmed: users.settings.sendAs
              (developers.google.com/workspace/gmail/api/guides/alias_and_signature_settings)
Microsoft ... proxyAddresses of the user: `SMTP:` is the main one, `smtp:` another, others are not mail addresses;
              personal accounts list none (learn.microsoft.com/graph/api/resources/user)
"""

from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from mailbox_appliance.mail.address import has_forbidden_characters, is_writable, same_mailbox
from mailbox_appliance.model.accounts import SenderAddress
from mailbox_appliance.remote.errors import RemoteFault, fault_of_reply, named_fault
from mailbox_appliance.remote.net import https
from mailbox_appliance.remote.providers import KnownProvider, Resource

#: Largest number of addresses of a mailbox, and of characters in a name.
MOST_ADDRESSES, _LONGEST_NAME = 100, 200
#: The purpose of the token with which each provider is asked.
TOKEN_RESOURCES: dict[str, Resource] = {"google": "mail", "outlook": "graph"}
_GMAIL = "gmail/v1/users/me/settings/sendAs"
_GRAPH = "v1.0/me?$select=mail,proxyAddresses"


class _SendAs(msgspec.Struct, frozen=True, rename="camel"):
    send_as_email: str = ""
    display_name: str = ""
    is_primary: bool = False
    verification_status: str = ""


class _SendAsList(msgspec.Struct, frozen=True, rename="camel"):
    send_as: tuple[_SendAs, ...] = ()


class _User(msgspec.Struct, frozen=True, rename="camel"):
    mail: str | None = None
    proxy_addresses: tuple[str, ...] | None = None


def fetch_sender_addresses(
    provider: KnownProvider, token: str, *, ca_file: str, timeout: float
) -> tuple[SenderAddress, ...]:
    """Return the addresses that a mailbox may send as, without duplicates, at most 100.

    `token`: an access token for the resource that TOKEN_RESOURCES names for the provider. Raises RemoteFault.
    """
    is_public = not provider.is_named_by_operator(provider.api_url)
    options = https.HttpsOptions("oauth", ca_file, timeout, only_public=is_public, limit=1 << 20)
    path = _GMAIL if provider.provider == "google" else _GRAPH
    answer = https.get(f"{provider.api_url.rstrip('/')}/{path}", options, {"Authorization": f"Bearer {token}"})
    if answer.status == 401:
        raise named_fault("token_refused", "oauth")
    if answer.status != 200:
        refused = RemoteFault(
            "oauth", "refused", ("The provider did not list the addresses this mailbox can send from.")
        )
        raise fault_of_reply("graph", str(answer.status)) or refused
    return _without_doubles(_read_gmail(answer) if provider.provider == "google" else _read_graph(answer))


def _read_gmail(answer: https.HttpsResponse) -> Iterator[SenderAddress]:
    for each in answer.decode(_SendAsList, "oauth").send_as:
        if each.is_primary or each.verification_status == "accepted":
            name = each.display_name.strip()[:_LONGEST_NAME]
            yield SenderAddress(
                email=each.send_as_email, name=UNSET if not name or has_forbidden_characters(name) else name
            )


def _read_graph(answer: https.HttpsResponse) -> Iterator[SenderAddress]:
    user = answer.decode(_User, "oauth")
    if user.mail is not None:
        yield SenderAddress(email=user.mail)
    for each in user.proxy_addresses or ():
        kind, _, email = each.partition(":")
        if kind.lower() == "smtp":
            yield SenderAddress(email=email)


def _without_doubles(found: Iterator[SenderAddress]) -> tuple[SenderAddress, ...]:
    kept: list[SenderAddress] = []
    for each in found:
        if len(kept) == MOST_ADDRESSES:
            break
        if is_writable(each.email) and not any(same_mailbox(each.email, other.email) for other in kept):
            kept.append(each)
    return tuple(kept)
