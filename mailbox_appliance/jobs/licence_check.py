"""Confirms the license with its issuer every day. If that fails, it tries again after an hour.

The result is stored with the license, so it survives a restart. The result is dropped if the license was replaced
during the request. If the issuer denies the license, or does not answer, the license stays valid for a grace period of
7 days.
"""

import logging

import msgspec

from mailbox_appliance.clock import Clock
from mailbox_appliance.jobs.periodic import PeriodicTask
from mailbox_appliance.remote import licence_issuer
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.security import licence
from mailbox_appliance.security.licence import InstalledLicence
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.store import Store

log = logging.getLogger(__name__)

_EVERY = 60.0  # seconds between two checks of the clock


class LicenceCheck(PeriodicTask):
    """Confirms the license with its issuer, on a thread of its own. The thread runs only if licenses are confirmed
    online.
    """

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self._store, self._settings, self._clock = store, settings, clock
        super().__init__("licence", self.run_once, _EVERY)

    def start(self) -> None:
        """Start the thread, if the setting `license.verify_url` is set."""
        if licence.verify_url(self._settings):
            super().start()

    def run_once(self) -> None:
        """Confirm the license with its issuer if that is due, and store the result."""
        found = licence.load_installed(self._store.stored_settings.find(licence.STORED_AS))
        if found is None or not self._is_due(found):
            return
        url, settings = licence.verify_url(self._settings), self._settings
        ca_file, timeout = settings.text("remote.ca_file"), float(settings.number("remote.timeout"))
        try:
            is_good = licence_issuer.is_licence_valid(url, found.token, ca_file=ca_file, timeout=timeout)
            reason = "" if is_good else "refused"
        except RemoteFault as fault:
            is_good, reason = False, fault.kind
        now = self._clock.now()
        self._save_result(found, found.with_confirmation(now) if is_good else found.with_failed_confirmation(now))
        if not is_good:
            log.warning("license_not_confirmed", extra={"reason": reason})

    def _is_due(self, found: InstalledLicence) -> bool:
        now = self._clock.now()
        key = licence.issuer_key(self._settings)
        terms = None if key is None else licence.terms_of(found, key)
        return terms is not None and not terms.has_expired(now) and found.needs_confirmation(now)

    def _save_result(self, asked: InstalledLicence, now: InstalledLicence) -> None:
        stored = self._store.stored_settings
        with self._store.database.transaction(durable=True):
            if licence.load_installed(stored.find(licence.STORED_AS)) == asked:
                stored.put(licence.STORED_AS, msgspec.to_builtins(now))
