"""The folders of a mailbox (RFC 9051 6.3.9)."""

from collections.abc import Collection

from mailbox_appliance.records import ListedFolder
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap_values import MAX_FOLDERS, listed_folder, wire_path
from mailbox_appliance.remote.imap_wire import Pieces, Wire

_NO_MAILBOX = frozenset({"\\noselect", "\\nonexistent"})  # RFC 9051 7.3.1: only a step on the way to others


def list_folders(wire: Wire, words: Collection[str]) -> tuple[ListedFolder, ...]:
    """The folders that mail can lie in, each once, MAX_FOLDERS at most."""
    found: dict[str, ListedFolder] = {}

    def hear(pieces: Pieces) -> bool:
        folder = listed_folder(pieces)
        if folder and len(found) < MAX_FOLDERS:
            found[folder.path] = folder
        return folder is not None

    # A plain LIST need not tell special uses.
    extended = " RETURN (SPECIAL-USE CHILDREN)" if {"SPECIAL-USE", "LIST-EXTENDED"} <= set(words) else ""
    wire.ask(f'LIST "" "*"{extended}', hear)
    return tuple(folder for folder in found.values() if not folder.attributes & _NO_MAILBOX)


def create(wire: Wire, path: str) -> None:
    """Make a folder and subscribe to it; one that is there already is fine."""
    try:
        wire.ask(f"CREATE {wire_path(path)}")
    except RemoteFault as fault:
        if fault.code != "ALREADYEXISTS":  # RFC 5530
            raise
    wire.ask(f"SUBSCRIBE {wire_path(path)}")
