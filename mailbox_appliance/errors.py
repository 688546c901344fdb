"""Every error that an operation can return to its caller.

The docstring of an exception is the text of its message, with placeholders in braces. Its family (base class) decides
the HTTP status and the exit code. Programs distinguish errors by their `code`.

    Problem
    |- Invalid ............ the request is not valid                   (REST 400, exit 2)
    |- Unauthenticated .... the credential is missing or not valid     (REST 401, exit 4)
    |- Denied ............. the caller lacks a permission              (REST 403, exit 4)
    |- NotFound ........... it does not exist, or there is no access   (REST 404, exit 2)
    |- Conflict ........... it conflicts with the current state        (REST 409, exit 2)
    |- TooLarge ........... the body exceeds its limit                 (REST 413, exit 2)
    |- WrongMedia ......... the body has another content type          (REST 415, exit 2)
    |- Unsupported ........ this mailbox or server lacks the feature   (REST 422, exit 2)
    |- Throttled .......... too many attempts; see Retry-After         (REST 429, exit 5)
    |- Unverified ......... a license could not be confirmed           (REST 502, exit 5)
    |- Unavailable ........ an upstream server is unavailable          (REST 503, exit 5)
    `- StoreUnusable ...... the data directory cannot be opened        (no REST,  exit 1; its key: exit 4)

A BackupUnusable is an Invalid; if its passphrase is wrong or missing, the exit code is 4.

Each interface maps a family to a status, an exit code or a tool error, and does not know single errors by name.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Detail:
    """One invalid part of a request, and what is wrong with it.

    `path`: a JSON pointer into the body (`/to/0/email`), or `query:NAME`, `header:NAME` or `path:NAME`.
    """

    path: str
    message: str


_NOTHING_CHANGED = "Nothing was changed."


class Problem(Exception):
    """An internal error occurred."""

    code: ClassVar[str] = "internal_error"
    #: Whether the failed request or command left everything as it was; the message then ends with that.
    changed_nothing: ClassVar[bool] = False

    def __init__(self, *, details: tuple[Detail, ...] = (), retry_after: int | None = None, **values: object) -> None:
        self.details = details
        self.retry_after = retry_after
        #: The message without the sentence that nothing was changed.
        self.explanation = " ".join((type(self).__doc__ or "").format(**values).split())
        self._text = f"{self.explanation} {_NOTHING_CHANGED}" if self.changed_nothing else self.explanation
        super().__init__(self._text)

    @property
    def message(self) -> str:
        """The text for people. Programs distinguish errors by `code`."""
        return self._text


class Invalid(Problem):
    """The request is not valid: {reason}"""

    code = "invalid_request"

    @classmethod
    def at(cls, path: str, message: str) -> "Invalid":
        """Return an error about one part of the request. `path`: see `Detail`."""
        return cls(details=(Detail(path, message),), reason=message)

    @property
    def message(self) -> str:
        if type(self) is not Invalid or not self.details or not self.details[0].path:
            return super().message
        count, first = len(self.details), self.details[0]
        what = "is not valid:" if count == 1 else f"has {count} errors. The first is at"
        return f"The request {what} {first.path}: {first.message}"


class InvalidJson(Invalid):
    """The body is not valid JSON: {reason}"""

    code = "invalid_json"


class MessageTooLarge(Invalid):
    """{what} is larger than the limit of {limit}."""

    code = "message_too_large"


class AccessRefused(Invalid):
    """{reason}"""  # from a provider or a mailbox's servers; it names the next step


class InvalidToken(Invalid):
    """This {what} is unknown, already used or expired."""

    code = "invalid_token"


class BackupUnusable(Invalid):
    """This backup cannot be used: {reason}"""

    code = "backup_altered"


class NotABackup(BackupUnusable):
    """{file} is not a mailbox-appliance backup."""

    code = "not_a_backup"


class BackupNewer(BackupUnusable):
    """{file} was made by a newer release ({what}), which this release cannot read. Install a newer release."""

    code = "backup_newer_format"


class BackupTruncated(BackupUnusable):
    """{file} is incomplete: it has {size} of {expected} bytes. Use an intact copy or another backup."""

    code = "backup_truncated"


class BackupAltered(BackupUnusable):
    """{file} is damaged or was altered: {reason}. Use an intact copy or another backup."""


class BackupWrongPassphrase(BackupUnusable):
    """{file} cannot be opened: {reason}"""

    code = "backup_wrong_passphrase"


class Unauthenticated(Problem):
    """A valid session token or API key is required, as `Authorization: Bearer TOKEN`. If your session has ended, sign
    in again.
    """

    code = "unauthenticated"


class InvalidCredentials(Unauthenticated):
    """The email or the password is wrong."""

    code = "invalid_credentials"


class WrongPassword(InvalidCredentials):
    """The current password is wrong."""


class Denied(Problem):
    """You are not allowed to do this: {reason}"""

    code = "permission_denied"


class SessionRequired(Denied):
    """This requires a member's session. An API key cannot do it."""

    code = "session_required"


class HttpsRequired(Denied):
    """From another computer, this requires HTTPS. Ask the operator to run `mailbox-appliance https enable`."""

    code = "https_required"


class HostNotAllowed(Denied):
    """The HTTP listener does not accept this {header}. Use a loopback address, or add the name to
    `server.allowed_hosts`.
    """

    code = "host_not_allowed"


class LocalOnly(Denied):
    """This is possible only on the computer that runs the appliance."""


class MemberSuspended(Denied):
    """This member is suspended. An administrator can reactivate the member."""

    code = "member_suspended"


class PlanDenied(Denied):
    """The license of this appliance does not allow this: {reason}"""

    code = "plan_denied"


class PolicyDenied(Denied):
    """A sending policy does not allow this: {reason} Nothing was sent. The owner of the mailbox or of the API key can
    change the policy.
    """

    code = "policy_denied"


class NotMarkedAsDraft(Denied):
    """This message is in the drafts folder but is not marked as a draft (`\\Draft`). Replacing or deleting it requires
    mail.delete.
    """


class NotFound(Problem):
    """No {what} with this ID exists, or you do not have access to it."""

    code = "not_found"


class UnknownFolder(NotFound):
    """No folder has this ID, role or name. List the folders of the mailbox to see which exist."""


class UploadLinkOver(NotFound):
    """This upload link is not valid, was used, or has expired. A link takes one file within 10 minutes: request a new
    one.
    """


class NothingToRemove(NotFound):
    """There is no {what} to remove."""


class UndoUnknown(NotFound):
    """This undo token is not valid for this mailbox and member, or it has expired. A token is valid for 24 hours."""

    changed_nothing = True


class LinkOver(NotFound):
    """This download link is not valid or has expired. A link is valid for 5 minutes: request a new one."""


class Conflict(Problem):
    """{reason}"""

    code = "conflict"


class IdempotencyConflict(Conflict):
    """This idempotency key was already used for a different request{operation}. Check that delivery
    (`get_delivery_operation`, `emails delivery-status`) before you send with a new key.
    """

    code = "idempotency_conflict"


class KeyOfRemovedMailbox(IdempotencyConflict):
    """This idempotency key was already used for a message of a mailbox that was removed since. That message may have
    been sent. Use a new key only for a new message.
    """


class DraftInUse(Conflict):
    """This draft is already being sent by the delivery operation {operation}. Wait for it to finish, cancel it if it is
    scheduled, or resolve it if it is uncertain.
    """


class DraftSent(Conflict):
    """This draft was already sent by the delivery operation {operation} and is about to be removed. Do not send it
    again.
    """


class BeingDecided(Conflict):
    """Another request is using this draft or this idempotency key right now. Try again in a few seconds."""


class UndoUsed(Conflict):
    """This undo token was already used. An action can be undone once."""

    changed_nothing = True


class UploadsFull(Conflict):
    """Your uploads would exceed their limit of {limit}. Delete uploads that you do not need, use them in a message, or
    wait until they expire.
    """

    changed_nothing = True


class PreviewChanged(Conflict):
    """The message is not the one that was previewed: its sender, recipients, subject, text or files differ. Nothing was
    sent. Preview it again, check it, then send it with the new digest.
    """


class NotWaiting(Conflict):
    """This scheduled message can no longer be canceled: its status is {status}."""


class NotUncertain(Conflict):
    """Only an uncertain delivery can be resolved. The status of this one is {status}."""


class AccountExists(Conflict):
    """This mailbox is already connected."""

    code = "account_exists"


class EmailTaken(Conflict):
    """Another member already has this email address."""

    code = "email_taken"


class NotEnoughRoom(Conflict):
    """The disk that holds {folder} does not have enough space: {needed} needed, {free} free. Free some space, then try
    again.
    """

    changed_nothing = True


class BackupNotMade(Conflict):
    """The backup was not made: {reason} No partial file was left behind."""


class StoreAtWork(Conflict):
    """{what} is already running; only one maintenance task runs at a time. Wait for it to finish (progress: GET
    /status).
    """


class BrokenOff(Conflict):
    """{what} was interrupted because the appliance is stopping. Repeat it when the appliance runs again."""


class ReplacedUnopened(Conflict):
    """{file} is intact and keeps the files that a restore replaced. Its database {what} ({reason}), so it cannot be
    verified or restored as a store. `mailbox-appliance backup restore FILE --to DIR` unpacks the files as they were.
    """


class BackupNotSealed(Conflict):
    """This backup contains the unencrypted store key, so it cannot be downloaded. Create one with a passphrase, or run
    `mailbox-appliance key add-passphrase` first.
    """


class HttpsNotOffered(Conflict):
    """HTTPS cannot be enabled: {reason}"""


class LastAdmin(Conflict):
    """This is the last administrator who can sign in. Make another member an administrator first. A member without a
    password counts if their invitation or password reset is valid for at least one more hour and no API key was shown
    it. That is not enough for removing this administrator: suspend them until the other has a password.
    """

    code = "last_admin"


class LetInByKey(Conflict):
    """Someone else may know this member's password: an API key was shown the link that set it, or may have been before
    an upgrade. Issue a password reset from a session. Once the member has used it, make them an administrator.
    """


class SyncRequired(Conflict):
    """The message is no longer where it was on the mail server. The mailbox is being synced: try again in a few
    seconds.
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
    """Gmail's All Mail folder is hidden from IMAP. In Gmail's settings, open Labels and select “Show in IMAP” beside
    “All Mail”.
    """


class Throttled(Problem):
    """Too many attempts. Try again later."""

    code = "too_many_attempts"


class LogInsBusy(Throttled):
    """Too many simultaneous sign-ins. This attempt was not checked or counted. Try again in one second."""


class WorkersBusy(Throttled):
    """Too many slow requests are already running, and the remaining capacity is kept for reading. Try again in a few
    seconds.
    """


class ReadersBusy(Throttled):
    """Too many requests and streams already wait for events. Close some of yours, or try again in a few seconds."""


class LogBeingChecked(Throttled):
    """The audit log is already being verified, and only one check runs at a time. Try again in a few seconds."""


class QuotaReached(Throttled):
    """{who} has reached its limit of {most} messages in {window}. Try again later, or ask the operator to raise
    {setting}.
    """


class ProviderThrottled(Throttled):
    """The mail provider is limiting requests. Try again later."""

    code = "provider_rate_limited"


class Unverified(Problem):
    """The license could not be confirmed: {reason}"""

    code = "license_unverified"


class Unavailable(Problem):
    """A mail server or provider could not do this: {reason}"""

    code = "provider_unavailable"


class ServersBusy(Unavailable):
    """Too many requests are already waiting for other servers. Try again in a few seconds."""


class TooBusy(Unavailable):
    """Too many large requests are already in progress. Try again in a few seconds."""


class Restarting(Unavailable):
    """The appliance is restarting on a restored store. Try again in a few seconds."""


class Stopping(Unavailable):
    """The appliance is stopping, and nothing was done. Repeat the request when it runs again."""


class JournalFailed(Unavailable):
    """The message was not sent: the journal could not be written. Check free disk space, then try again."""


class StoreUnusable(Problem):
    """The data directory cannot be used: {reason}"""

    code = "store_unusable"


class CertificateUnusable(StoreUnusable):
    """The certificate in {folder} cannot be used: {reason}"""

    code = "certificate_unusable"

    #: A path outside the data directory, for the log only: members can read the message.
    where = ""


class CertificateNotWritten(CertificateUnusable):
    """The certificate could not be written to {folder}: {reason}."""

    changed_nothing = True


class StoreInUse(StoreUnusable):
    """Another process{holder} is using the data directory {folder}. Stop it, or choose another --data-dir."""

    code = "store_in_use"


class StoreForeign(StoreUnusable):
    """{file} is not a mailbox-appliance store. Move the file away or choose another --data-dir."""

    code = "store_foreign"
    changed_nothing = True


class StoreDamaged(StoreUnusable):
    """{file} is damaged: {reason}. Restore a backup with `mailbox-appliance backup restore`."""

    code = "store_damaged"
    changed_nothing = True


class StoreNewer(StoreUnusable):
    """{file} has format {format}, which is newer than this release supports ({known}). Install a newer release."""

    code = "store_newer_format"


class StoreOlder(StoreUnusable):
    """{file} has format {format}, which an older release wrote. `mailbox-appliance store migrate` upgrades it, and so
    does `serve`.
    """

    code = "store_older_format"
    changed_nothing = True


class KeyUnusable(StoreUnusable):
    """The store's key cannot be used: {reason}"""

    code = "key_unusable"


class KeyMissing(KeyUnusable):
    """{store} exists, but its key file {file} is missing. Put it back: the store cannot be opened without it."""

    code = "key_missing"


class KeyElsewhere(KeyUnusable):
    """The key of {store} was last read from {place}, and {file} is missing. Put the key file back, or set
    MAILBOX_APPLIANCE_KEY_FILE to its path. To start without this store, move mailbox.db and key-place away.
    """

    code = "key_missing"
    changed_nothing = True


class KeyDamaged(KeyUnusable):
    """The key file {file} is damaged: {reason}. Put back an intact copy."""

    code = "key_damaged"
    changed_nothing = True


class KeyWrong(KeyUnusable):
    """The key in {file} does not open {store}: it belongs to another store. Put back the key file of this store."""

    code = "key_wrong"
    changed_nothing = True


class PassphraseNeeded(KeyUnusable):
    """The key in {file} is protected by a passphrase. Provide it with --passphrase-stdin, in
    MAILBOX_APPLIANCE_PASSPHRASE, or as the systemd credential `passphrase`.
    """

    code = "passphrase_needed"


class PassphraseWrong(KeyUnusable):
    """The passphrase for {file} is wrong."""

    code = "passphrase_wrong"
    changed_nothing = True


class KeychainLocked(KeyUnusable):
    """The keychain of this computer did not return the key of {file}: {reason}. Unlock it and try again, or use the
    recovery passphrase.
    """

    code = "keychain_locked"
    changed_nothing = True


class KeychainUnusable(KeychainLocked):
    """The key of {file} cannot be stored in the keychain of this computer: {reason}. If there is a keychain, unlock it
    and try again. Otherwise, `mailbox-appliance key add-passphrase --only` protects the key with a passphrase.
    """

    changed_nothing = True
