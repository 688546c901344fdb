"""What can go wrong. The docstring is the message, the family is the meaning, the code is what clients switch on.

    Problem
    |- Invalid ............ the request is wrong as it stands          (REST 400, exit 2)
    |- Unauthenticated .... who is asking is not known                 (REST 401, exit 4)
    |- Denied ............. known, but not allowed                     (REST 403, exit 4)
    |- NotFound ........... not there, or not within reach             (REST 404, exit 2)
    |- Conflict ........... at odds with what is stored                (REST 409, exit 2)
    |- TooLarge ........... the body is over its bound                 (REST 413, exit 2)
    |- WrongMedia ......... the body is of another type                (REST 415, exit 2)
    |- Unsupported ........ this mailbox or server cannot do it        (REST 422, exit 2)
    |- Throttled .......... too often; Retry-After tells when          (REST 429, exit 5)
    |- Unverified ......... a licence could not be confirmed           (REST 502, exit 5)
    |- Unavailable ........ another server did not play its part       (REST 503, exit 5)
    `- StoreUnusable ...... the data directory cannot be opened        (no REST,  exit 1; its key: exit 4)

A BackupUnusable is an Invalid; where a passphrase is wrong or missing the exit code is 4.

Each interface turns a family into a status, an exit code or a tool error, and knows no single error by name.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Detail:
    """Where the fault lies: a JSON pointer (`/to/0/email`), or `query:NAME`, `header:NAME`, `path:NAME`."""

    path: str
    message: str


class Problem(Exception):
    """Something went wrong."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, *, details: tuple[Detail, ...] = (), retry_after: int | None = None, **values: object) -> None:
        self.details = details
        self.retry_after = retry_after
        self._text = " ".join((type(self).__doc__ or "").format(**values).split())
        super().__init__(self._text)

    @property
    def message(self) -> str:
        """One helpful sentence for a person; clients switch on `code`."""
        return self._text


class Invalid(Problem):
    """The request is not valid: {reason}"""

    code = "invalid_request"

    @classmethod
    def at(cls, path: str, message: str) -> "Invalid":
        """One fault at one place."""
        return cls(details=(Detail(path, message),), reason=message)

    @property
    def message(self) -> str:
        place = self.details[0].path if len(self.details) == 1 else ""
        return f"{super().message.removesuffix('.')} ({place})." if place else super().message


class InvalidJson(Invalid):
    """The body is not valid JSON: {reason}"""

    code = "invalid_json"


class MessageTooLarge(Invalid):
    """{what} is larger than the limit of {limit}."""

    code = "message_too_large"


class AccessRefused(Invalid):
    """{reason}"""  # by a provider, or by a mailbox's servers; what to do is said

    code = "invalid_request"

    @property
    def message(self) -> str:
        return self._text


class InvalidToken(Invalid):
    """This {what} is unknown, already used or expired."""

    code = "invalid_token"


class BackupUnusable(Invalid):
    """This backup cannot be used: {reason}"""

    code = "backup_altered"

    @property
    def message(self) -> str:
        return self._text


class NotABackup(BackupUnusable):
    """{file} is no backup of a mailbox-appliance."""

    code = "not_a_backup"


class BackupNewer(BackupUnusable):
    """{file} was made by a newer release ({what}), which this one does not understand. Install a newer release."""

    code = "backup_newer_format"


class BackupTruncated(BackupUnusable):
    """{file} is cut off: it has {size} bytes where it should have {expected}. Use an intact copy, or another backup."""

    code = "backup_truncated"


class BackupAltered(BackupUnusable):
    """{file} is not as it was written: {reason}. Use an intact copy, or another backup."""

    code = "backup_altered"


class BackupWrongPassphrase(BackupUnusable):
    """{file} does not open: {reason}"""  # the passphrase is wrong, or it is missing

    code = "backup_wrong_passphrase"


class Unauthenticated(Problem):
    """Send a valid session token or API key as `Authorization: Bearer TOKEN`; log in again if yours has ended."""

    code = "unauthenticated"


class InvalidCredentials(Unauthenticated):
    """The email or the password is wrong."""

    code = "invalid_credentials"


class WrongPassword(InvalidCredentials):
    """The current password is wrong."""

    code = "invalid_credentials"


class Denied(Problem):
    """You are not allowed to do this: {reason}"""

    code = "permission_denied"


class SessionRequired(Denied):
    """This needs a member's session; an API key cannot do it."""

    code = "session_required"


class HttpsRequired(Denied):
    """From another computer this needs HTTPS. Ask the operator to run `mailbox-appliance https enable`."""

    code = "https_required"


class HostNotAllowed(Denied):
    """The HTTP listener does not answer to this {header}. Use a loopback address, or set `server.allowed_hosts`."""

    code = "host_not_allowed"


class LocalOnly(Denied):
    """This is only possible on the computer that the appliance runs on."""

    code = "permission_denied"


class MemberSuspended(Denied):
    """This member is suspended. An administrator can make the member active again."""

    code = "member_suspended"


class PlanDenied(Denied):
    """The licence of this appliance does not cover it: {reason}"""

    code = "plan_denied"


class NotMarkedAsDraft(Denied):
    """This message lies among the drafts but is not marked as one (`\\Draft`): to replace or delete it all the same
    needs mail.delete.
    """

    code = "permission_denied"


class NotFound(Problem):
    """There is no {what} with this id, or it is out of your reach."""

    code = "not_found"


class NothingToRemove(NotFound):
    """There is no {what} to remove."""

    code = "not_found"


class LinkOver(NotFound):
    """This download link is not good, or not any more: a link is good for 5 minutes. Ask for a new one."""

    code = "not_found"


class Conflict(Problem):
    """{reason}"""

    code = "conflict"


class IdempotencyConflict(Conflict):
    """A message was accepted under this idempotency key before, and this request is not the same{operation}. Look what
    became of that (`get_delivery_operation`, `emails delivery-status`) before you send anything under a new key.
    """

    code = "idempotency_conflict"


class DraftInUse(Conflict):
    """This draft is being sent already, by the delivery operation {operation}. Wait for it, cancel it where it is
    scheduled, or decide it where it is uncertain.
    """

    code = "conflict"


class DraftSent(Conflict):
    """This draft was sent, by the delivery operation {operation}, and is about to be removed. Do not send it again."""

    code = "conflict"


class BeingDecided(Conflict):
    """Another request is deciding about this draft, or under this idempotency key, at this moment. Repeat the request
    in a few seconds.
    """

    code = "conflict"


class NotWaiting(Conflict):
    """This scheduled send does not wait any more: it is {status}. It cannot be canceled."""

    code = "conflict"


class NotUncertain(Conflict):
    """Only an uncertain delivery can be decided by a person; this one is {status}."""

    code = "conflict"


class AccountExists(Conflict):
    """This mailbox is already connected."""

    code = "account_exists"


class EmailTaken(Conflict):
    """Another member has this email already."""

    code = "email_taken"


class NotEnoughRoom(Conflict):
    """This needs {needed} of room on the disk that holds {folder}, and {free} are free. Make room there, and repeat it;
    nothing was changed.
    """

    code = "conflict"


class BackupNotMade(Conflict):
    """No backup was made: {reason} Nothing is left of it."""

    code = "conflict"


class StoreAtWork(Conflict):
    """{what} is under way, and one such thing is done at a time. Wait until it is over; GET /status shows how far it
    is.
    """

    code = "conflict"


class BrokenOff(Conflict):
    """{what} was broken off, since the appliance is being stopped. Repeat it once the appliance runs again."""

    code = "conflict"


class ReplacedUnopened(Conflict):
    """{file} is as it was written, and keeps the files that a restore replaced. But the database in it {what}
    ({reason}), so it is no store to verify or to go on with. `mailbox-appliance backup restore FILE --to DIR` gives
    the files back as they were.
    """

    code = "conflict"


class BackupNotSealed(Conflict):
    """Whoever has this backup can open it, since the store's key lies in it in plain: it leaves this computer only by
    the hands of the operator. Make one with a passphrase, or run `mailbox-appliance key add-passphrase` first.
    """

    code = "conflict"


class HttpsNotOffered(Conflict):
    """HTTPS cannot be offered so: {reason}"""

    code = "conflict"


class LastAdmin(Conflict):
    """This is the last administrator who can get in. Make another member an administrator first. One without a
    password counts while an invitation or password reset is open, for an hour at least, that no API key was shown; but
    not where this one is to be removed: suspend them until the other has a password.
    """

    code = "last_admin"


class LetInByKey(Conflict):
    """The password of this member was set with a link that an API key was shown, or may have been before an upgrade, so
    somebody else may know it. Issue a password reset from a session and let them use it; then make them an
    administrator.
    """

    code = "conflict"


class SyncRequired(Conflict):
    """The message is not where it was on the mail server. The mailbox is being looked at again: repeat the request in a
    few seconds.
    """

    code = "sync_required"


class TooLarge(Problem):
    """{what} is larger than the limit of {limit} for this endpoint."""

    code = "body_too_large"

    def __init__(
        self, *, what: str, limit: str, details: tuple[Detail, ...] = (), retry_after: int | None = None
    ) -> None:
        super().__init__(details=details, retry_after=retry_after, what=what, limit=limit)
        self.what, self.limit = what, limit


class WrongMedia(Problem):
    """The body must be `application/json`."""

    code = "unsupported_media_type"


class Unsupported(Problem):
    """This mailbox cannot do that: {reason}"""

    code = "unsupported_capability"


class AllMailHidden(Unsupported):
    """Its folder of all mail is hidden: in Gmail's settings, Labels, tick “Show in IMAP” beside “All Mail”."""

    code = "unsupported_capability"


class Throttled(Problem):
    """Too many attempts. Try again later."""

    code = "too_many_attempts"


class LogInsBusy(Throttled):
    """Too many log-ins at once; nothing was looked at or counted. Try again in a second."""

    code = "too_many_attempts"


class WorkersBusy(Throttled):
    """Too many requests take long already, and reading is not to be held up by them. Try again in a few seconds."""

    code = "too_many_attempts"


class LogBeingChecked(Throttled):
    """The audit log is being checked already, which is done once at a time. Try again in a few seconds."""

    code = "too_many_attempts"


class QuotaReached(Throttled):
    """{who} may hand in {most} messages in {window}, and has. Try again later, or have the operator raise {setting}."""

    code = "too_many_attempts"


class ProviderThrottled(Throttled):
    """The mail provider limits how often it may be asked. Try again later."""

    code = "provider_rate_limited"


class Unverified(Problem):
    """The licence could not be confirmed: {reason}"""

    code = "license_unverified"


class Unavailable(Problem):
    """The mail provider could not do its part: {reason}"""

    code = "provider_unavailable"


class ServersBusy(Unavailable):
    """Too many requests wait for other servers already. Try again in a few seconds."""

    code = "provider_unavailable"


class TooBusy(Unavailable):
    """Too many large requests are in progress already. Try again in a few seconds."""

    code = "provider_unavailable"


class Restarting(Unavailable):
    """The appliance starts again on a restored store. Repeat the request in a few seconds."""

    code = "provider_unavailable"


class Stopping(Unavailable):
    """The appliance is being stopped, and nothing was done. Repeat the request once it runs again."""

    code = "provider_unavailable"


class JournalFailed(Unavailable):
    """The appliance could not write down what it was about to do, so nobody got the message. Is the disk full?"""

    code = "provider_unavailable"


class StoreUnusable(Problem):
    """The data directory cannot be used: {reason}"""

    code = "store_unusable"


class CertificateUnusable(StoreUnusable):
    """The certificate in {folder} cannot be used: {reason}"""

    code = "certificate_unusable"

    #: A place outside the data directory that it is about, for the log: members are told the message.
    where = ""


class CertificateNotWritten(CertificateUnusable):
    """No certificate was written to {folder}, and nothing was changed: {reason}."""

    code = "certificate_unusable"


class StoreInUse(StoreUnusable):
    """Another process{holder} uses the data directory {folder}. Stop it, or choose another --data-dir."""

    code = "store_in_use"


class StoreForeign(StoreUnusable):
    """{file} is no mailbox-appliance store. Nothing was changed; move the file away or choose another --data-dir."""

    code = "store_foreign"


class StoreDamaged(StoreUnusable):
    """{file} is damaged: {reason}. Nothing was changed; restore a backup with `mailbox-appliance backup restore`."""

    code = "store_damaged"


class StoreNewer(StoreUnusable):
    """{file} has format {format}, which is newer than this release understands ({known}). Install a newer release."""

    code = "store_newer_format"


class StoreOlder(StoreUnusable):
    """{file} has format {format}, of an older release. `mailbox-appliance store migrate` upgrades it, as `serve` does;
    so far nothing was changed.
    """

    code = "store_older_format"


class KeyUnusable(StoreUnusable):
    """The key of the store cannot be used: {reason}"""

    code = "key_unusable"


class KeyMissing(KeyUnusable):
    """{store} is there but its key {file} is missing. Put the key file back; without it nobody can open the store."""

    code = "key_missing"


class KeyElsewhere(KeyUnusable):
    """The key of {store} was last read from {place}, and {file} is missing. Bring it back, or name it in
    MAILBOX_APPLIANCE_KEY_FILE. To do without this store, move mailbox.db and key-place away; nothing was changed.
    """

    code = "key_missing"


class KeyDamaged(KeyUnusable):
    """The key file {file} is damaged: {reason}. Put back an intact copy; nothing was changed."""

    code = "key_damaged"


class KeyWrong(KeyUnusable):
    """The key in {file} does not open {store}: it belongs to another store. Nothing was changed."""

    code = "key_wrong"


class PassphraseNeeded(KeyUnusable):
    """The key in {file} is locked by a passphrase. Give it with --passphrase-stdin, in MAILBOX_APPLIANCE_PASSPHRASE, or
    as the systemd credential `passphrase`.
    """

    code = "passphrase_needed"


class PassphraseWrong(KeyUnusable):
    """The passphrase does not open {file}. Nothing was changed."""

    code = "passphrase_wrong"


class KeychainLocked(KeyUnusable):
    """The keychain of this computer does not give the key of {file}: {reason}. Unlock it and try again, or use the
    recovery passphrase; nothing was changed.
    """

    code = "keychain_locked"


class KeychainUnusable(KeychainLocked):
    """The key of {file} cannot be given to the keychain of this computer: {reason}. Where there is one, unlock it and
    try again; else `mailbox-appliance key add-passphrase --only` locks the key by a passphrase. Nothing was changed.
    """

    code = "keychain_locked"
