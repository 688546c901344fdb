"""The key file that a restore finds in its place: one with the same key keeps its slots, any other is kept beside.

Another key may open a store that was moved away, and be the only copy there is.
"""

import os
from datetime import datetime, timedelta
from pathlib import Path

from mailbox_appliance.errors import KeyDamaged
from mailbox_appliance.store.files import copy_private
from mailbox_appliance.store.key_slots import Slot, wrap_file
from mailbox_appliance.store.keyfile import StoreKey, read_file, read_key


def slots_there(place: Path, key: StoreKey) -> tuple[str, tuple[Slot, ...]] | None:
    """The id of the store and the slots in a key file, where it holds this master key; None for any other."""
    try:
        there = read_file(place)
        if there is not None:
            return None if there.find_key(key.master) is None else (there.store_id, there.slots)
        return (key.store_id, (wrap_file(key.master),)) if read_key(place).master == key.master else None
    except (KeyDamaged, OSError):
        return None


def keep_beside(place: Path, key: StoreKey, now: datetime) -> Path | None:
    """Keep a key file that is to be replaced as `encryption.key.20260131T020000Z.old` beside it; answers where.

    None: it holds this key, or there is none. Raises OSError.
    """
    file = place.resolve()
    if not file.is_file() or slots_there(file, key) is not None:
        return None
    while os.path.lexists(target := file.with_name(f"{file.name}.{now:%Y%m%dT%H%M%SZ}.old")):
        now += timedelta(seconds=1)
    copy_private(file, target)
    return target
