"""Operations that assign roles to a mailbox's folders, and that list the addresses that it may send as."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Conflict, Detail, Invalid, NotFound, Unsupported
from mailbox_appliance.mailbox.connections import problem_of
from mailbox_appliance.model.accounts import Account, FolderRole, FolderRoles, SenderAddress
from mailbox_appliance.model.base import Input
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.sync import MirroredFolder
from mailbox_appliance.operations.operation import Access, Caller, operation, recheck_owner
from mailbox_appliance.remote.errors import RemoteFault

_FolderPath = Annotated[str, Meta(min_length=1, max_length=1024)] | UnsetType | None
_PROVIDER_DECIDES = "its provider assigns the roles of folders."


class MapFoldersRequest(Input, frozen=True, kw_only=True):
    """Folders by path or ID. Omitted roles stay unchanged; null returns a role to the server's choice.

    - sent: Folder for sent messages.
    - drafts: Folder for drafts.
    - trash: Folder for deleted messages.
    - archive: Folder for archived messages.
    - spam: Folder for spam.
    """

    sent: _FolderPath = UNSET
    drafts: _FolderPath = UNSET
    trash: _FolderPath = UNSET
    archive: _FolderPath = UNSET
    spam: _FolderPath = UNSET


@operation(access=Access.SESSION, owner=True, asks_servers=True)
def map_folders(
    appliance: Appliance, caller: Caller, account: Account, mapping: MapFoldersRequest
) -> OperationResult[FolderRoles]:
    """Assign roles to folders.

    Sets the folders for sent mail, drafts, trash, archive and spam, and returns all five. Takes effect at once, and
    takes precedence over what the server reports and over well-known names. The folder list is read from the server
    first, so a new folder can be named immediately.

    A folder has at most one role: 409 `conflict` if another role is assigned to it; a warning if it loses a role that
    came from the server or from its name. The inbox keeps its own role.
    """
    if account.provider != "imap":
        raise Unsupported(reason=_PROVIDER_DECIDES)
    store = appliance.store
    try:
        with appliance.connections.borrow(account.id) as mailbox:
            listed = mailbox.list_folders()
    except RemoteFault as fault:
        raise problem_of(fault) from fault
    store.folders.add_listed(account.id, listed)
    if any(folder.label is not None for folder in listed):
        raise Unsupported(reason=_PROVIDER_DECIDES)
    wanted = _read_mapping(mapping, store.folders.list(account.id))
    _refuse_doubles(wanted, store.folders.get_user_mapping(account.id))
    before = store.accounts.get(account.id).folders
    with store.database.transaction(durable=True):
        recheck_owner(store, caller, account.id)  # the server may have taken long to answer
        store.folders.set_user_mapping(account.id, wanted)
        store.folders.add_listed(account.id, listed)
        store.audit.record(caller.actor, "account.folders", ("account", account.id))
    appliance.sync.wake(account.id, None)
    after = store.accounts.get(account.id).folders
    return OperationResult(after, tuple(_lost_role_warnings(before, after)))


def _lost_role_warnings(before: FolderRoles, after: FolderRoles) -> Iterator[str]:
    players = {getattr(after, role): role for role in after.__struct_fields__}
    for role in before.__struct_fields__:
        path = getattr(before, role)
        if path is not None and getattr(after, role) is None:
            why = f": {path} is for {players[path]} now" if path in players else ""
            yield f"No folder has the role {role} any longer{why}. Assign one."


def _read_mapping(mapping: MapFoldersRequest, folders: Sequence[MirroredFolder]) -> dict[FolderRole, str | None]:
    """Return the path for each given role; None returns the role to the server's choice. Raises NotFound."""
    known = {_normalize_path(folder.path): folder for folder in folders} | {folder.id: folder for folder in folders}
    wanted: dict[FolderRole, str | None] = {}
    for role, given in _given_roles(mapping).items():
        folder = None if given is None else known.get(_normalize_path(given))
        if given is not None and folder is None:
            raise NotFound(what="folder", details=(Detail(f"/{role}", "No folder has this path or ID."),))
        if folder is not None and folder.path.upper() == "INBOX":
            raise Invalid.at(f"/{role}", "The inbox keeps its own role; choose another folder.")
        wanted[role] = None if folder is None else folder.path
    return wanted


def _given_roles(mapping: MapFoldersRequest) -> dict[FolderRole, str | None]:
    everything: dict[FolderRole, str | UnsetType | None] = {
        "sent": mapping.sent,
        "drafts": mapping.drafts,
        "trash": mapping.trash,
        "archive": mapping.archive,
        "spam": mapping.spam,
    }
    return {role: given for role, given in everything.items() if given is not UNSET}


def _refuse_doubles(wanted: Mapping[FolderRole, str | None], mapped: Mapping[FolderRole, str]) -> None:
    """Raise Invalid if one folder gets two roles, and Conflict if it has another role already."""
    players: dict[str, FolderRole] = {}
    for role, path in wanted.items():
        if path is not None and players.setdefault(path, role) != role:
            raise Invalid.at(f"/{role}", f"This folder also gets the role {players[path]}; a folder has only one role.")
    for role, path in mapped.items():
        other = players.get(path)
        if role not in wanted and other is not None:
            raise Conflict(reason=f"That folder already has the role {role}. Set {role} to null or to another folder.")


def _normalize_path(path: str) -> str:
    return unicodedata.normalize("NFC", path)


# --- Sender addresses ---


@operation(needs=Capability.MAIL_READ)
def list_sender_addresses(
    appliance: Appliance,
    caller: Caller,  # noqa: ARG001
    account: Account,
) -> tuple[SenderAddress, ...]:
    """List sender addresses.

    Returns the addresses that messages from this mailbox may use as `from`. The mailbox's own address comes first and
    is the default. Google and Microsoft are asked for further addresses when the mailbox is connected, and daily.
    """
    return appliance.store.sender_addresses.list_of(account)
