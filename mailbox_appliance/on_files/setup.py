"""The first administrator, and whether the audit log is whole, where nothing is serving."""

import os
from pathlib import Path
from typing import Any

from mailbox_appliance import settings
from mailbox_appliance.appliance import SETUP_CODE, Appliance
from mailbox_appliance.on_files.opening import enveloped, existing_store, told_of
from mailbox_appliance.operations.audit import verdict_of
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.set_up import SetUp, add_first_admin
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.files import failures_as_unusable
from mailbox_appliance.store.key import find_key_file, load_passphrase


def setup_on_files(data_dir: Path, *, name: str, email: str, password: str, device_name: str) -> dict[str, Any]:
    """Make the first administrator; whoever may write the files needs no code. A store is made where there is none.

    Answers token, session and member, as the API does. Raises StoreUnusable, Conflict where it is set up already,
    Invalid for what cannot be taken.
    """
    given = {"setupCode": "-", "name": name, "email": email, "password": password, "deviceName": device_name}
    options, key_file = settings.load(data_dir / "config.toml"), find_key_file(data_dir, os.environ)
    with failures_as_unusable(data_dir):
        appliance = Appliance(data_dir, options, key_file=key_file, passphrase=load_passphrase(os.environ))
        try:
            answer = add_first_admin(appliance, convert_body(given, SetUp), Actor("local"))
            (data_dir / SETUP_CODE).unlink(missing_ok=True)
        finally:
            appliance.store.close()
    return enveloped(answer, told_of(appliance.store.upgraded))


def verify_audit_on_files(data_dir: Path, passphrase: str | None = None) -> dict[str, Any]:
    """Look through the audit log; answers what the API does. Raises StoreUnusable."""
    with existing_store(data_dir, passphrase) as store:
        return enveloped(verdict_of(store), told_of(store.upgraded))
