"""Sends one message through Microsoft Graph: creates a draft from its MIME, then sends that draft by its ID.

The steps by phase of the delivery. From `envelope` on, each is on the disk before it begins, since a draft is left if
the appliance stops:

    connecting ... an access token is requested
    envelope ..... drafts that an earlier attempt left are removed, then the draft is created
    data ......... the draft's ID is recorded; then files that exceed the size of one request are attached
    dot .......... the draft is sent by its ID, once

Graph takes sender and recipients from the header fields, so a message is refused if these differ from its envelope.
Only this MIME contains Bcc; Exchange removes it from what it sends.
"""

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Literal, NoReturn

from mailbox_appliance.errors import NotFound
from mailbox_appliance.mail.address import same_mailbox, to_envelope_address
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.mail.large import SplitAttachment, split_attachments
from mailbox_appliance.mail.parse import parse_message
from mailbox_appliance.model.base import own_text
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.deliveries import DeliveryWork, Phase
from mailbox_appliance.model.messages import Envelope
from mailbox_appliance.remote import graph as remote_graph
from mailbox_appliance.remote.errors import RemoteFault, Reply, account_error_of, fault_name_of_reply
from mailbox_appliance.remote.graph import (
    LARGEST_MESSAGE,
    LEAST_UPLOADED,
    DraftState,
    Graph,
    GraphResponse,
    fault_of_response,
)
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.outcome import OperationClosed, Progress, Recorder
from mailbox_appliance.sending.verdict import (
    Accepted,
    Cause,
    Continue,
    FailureCode,
    Refused,
    TemporaryFailure,
    Uncertain,
    Verdict,
    temporary_failure,
)
from mailbox_appliance.store.deliveries import SentCopy

if TYPE_CHECKING:
    from mailbox_appliance.oauth.logins import Logins

# --- Verdicts: the meaning of a response or a fault of Graph at each step. Pure ---
#
#               2xx        400, 403, 413        401, 429    404, 408, 409, 412, 3xx...    5xx         lost, silent, odd
#     draft     continue   refused, or login    nobody      nobody                        nobody      nobody
#     attach    201 cont.  refused              nobody      nobody                        nobody      nobody
#     session   201 cont.  refused              nobody      nobody                        nobody      nobody
#     upload    201 cont.  nobody; 413 refused  nobody      nobody                        nobody      nobody
#     send      accepted   refused, or login    nobody      uncertain                     uncertain   uncertain; nobody
#                                                                                                     where there was
#                                                                                                     no connection
#
# Nobody can receive a draft, so until its sending is requested nobody has received the message. From then on a response
# decides only if Graph rejected the request before acting: it is not valid, or not allowed. A draft that is missing or
# has changed may just have been sent, for example if a proxy repeated the appliance's request.
#
# If a draft was just created, the login works, so a refusal of a file is about that file. An upload address has a token
# of its own, which expires, so a refusal there is not about the login, and about the file only if a code states it.


Step = Literal["draft", "attach", "session", "upload", "send"]

#: Error codes of responses (learn.microsoft.com/graph/errors; those of Exchange Web Services, ResponseCode), in lower
#: case.
_SAYS: dict[str, FailureCode] = {
    "errorsendasdenied": "sender_rejected",
    "errorinvalidsendas": "sender_rejected",
    "errorinvalidrecipients": "recipient_rejected",
    "errorinvalidrecipientsubfilter": "recipient_rejected",
    "errormessagesizeexceeded": "message_too_large",
    "errorcontentlengthtoolarge": "message_too_large",
    "errorattachmentsizelimitexceeded": "message_too_large",
    "requestentitytoolarge": "message_too_large",
}
#: Codes with status 400, 403 or 507 that are not about the message: too many messages, or a full mailbox.
_FOR_NOW: dict[str, Cause] = {
    "errorexceededmessagelimit": "throttled",
    "submissionquotaexceeded": "throttled",
    "errorquotaexceeded": "unavailable",
}
_TAKEN_BACK = RemoteFault(
    "graph",
    "refused",
    "Microsoft Graph rejected an access token that it had just accepted. The token is renewed for the next attempt.",
)
_BROKEN_OFF = RemoteFault(
    "graph",
    "refused",
    "Microsoft Graph ended the upload of an attachment early. The next attempt starts it again.",
)
_TOO_LARGE = own_text(
    "The message with its attachments exceeds the size limit of this Exchange mailbox (35 MB unless an"
    " administrator has changed it)."
)
_NOT_SHARED = own_text(
    "Microsoft Graph rejected an attachment of 3 MB or more for this mailbox. It accepts none that large for a"
    " shared mailbox: send it from your own mailbox or as smaller files."
)


def judge(step: Step, said: GraphResponse) -> Verdict:
    """Return the verdict for Graph's response `said` to the request of this step."""
    if 200 <= said.status < 300:
        return _judge_success(step, said)
    if said.status == 429:
        return _judge_temporary("throttled", said)
    if step == "upload" and said.status != 413 and said.code.lower() not in _SAYS:
        return TemporaryFailure("unavailable", account_error_of(_BROKEN_OFF), "graph", said.retry_after)
    if said.status in (400, 403, 413):
        return _judge_refusal(step, said)
    if said.status == 401 and step == "send":  # the same token had just created the draft
        return TemporaryFailure("unavailable", account_error_of(_TAKEN_BACK), "graph")
    if said.status == 401 or step != "send":
        return _judge_temporary("unavailable", said)
    return Uncertain()


def _judge_success(step: Step, said: GraphResponse) -> Verdict:
    if step == "send":
        return Accepted(Reply(said.status))
    if step == "draft" or said.status == 201:
        return Continue()
    # Nobody checks a draft before it is sent, so a file counts as attached only after an explicit confirmation.
    return TemporaryFailure("unavailable", account_error_of(_BROKEN_OFF), "graph", said.retry_after)


def judge_sending(fault: RemoteFault) -> Verdict:
    """Return the verdict if the request to send the draft got no response."""
    if fault.in_doubt:
        return Uncertain()
    return temporary_failure(fault)


def _judge_temporary(cause: Cause, said: GraphResponse) -> TemporaryFailure:
    return TemporaryFailure(cause, account_error_of(fault_of_response(said)), "graph", said.retry_after)


def _judge_refusal(step: Step, said: GraphResponse) -> Verdict:
    code = said.code.lower()
    if code in _SAYS or said.status == 413:
        says = _SAYS.get(code, "message_too_large")
        return Refused(says, _reply(said), _TOO_LARGE if says == "message_too_large" else None)
    if code in _FOR_NOW:
        return _judge_temporary(_FOR_NOW[code], said)
    if said.status == 403:
        fault = fault_of_response(said)
        if step == "session" and fault.name == "consent_required":
            # Documented under known issues, "attaching large files to messages with delegated permissions".
            return Refused("message_too_large", None, _NOT_SHARED)
        if fault.kind == "login_refused":
            if step in ("draft", "send"):
                return _judge_temporary("login", said)
            return Refused("message_rejected", _reply(said))
        if fault.name == "sending_blocked":
            return Refused("sender_rejected", _reply(said))
        return TemporaryFailure("unavailable")
    return Refused("message_rejected", _reply(said))


def _reply(said: GraphResponse) -> Reply:
    return Reply(said.status, name=fault_name_of_reply("graph", said.text))


# --- One attempt ---


log = logging.getLogger(__name__)

#: Graph's code for a file that is too small for an upload session: Exchange computes the size differently.
_TOO_SMALL = "errorattachmentsizeshouldnotbelessthanminimumsize"
_TOO_MUCH_IN_ONE = own_text(
    "The part of this message that cannot be uploaded as a separate file (its texts, and content that is signed"
    " or encrypted as a whole) exceeds Microsoft Graph's limit of 3 MB for one request."
)


class GraphDelivery:
    """One attempt to send a message through Graph. Call `remove_draft` when its result is recorded.

    - refused: always empty, since Graph names no rejected recipients.
    - copy: the message for the local mirror of the folder Sent; None until the draft was created.
    """

    def __init__(self, context: SendingContext, recorder: Recorder, progress: Progress, work: DeliveryWork) -> None:
        self._store, self._logins, self._settings = context.store, context.logins, context.settings
        self._recorder, self._progress, self._work = recorder, progress, work
        self._token: str | None = None
        self._draft: str | None = None
        self.refused: list[str] = []
        self.copy: SentCopy | None = None

    def attempt(self) -> Verdict:
        """Try to send the message, and return the verdict.

        Raises RemoteFault, OperationClosed (the operation has ended) and NotFound (the mailbox was removed).
        """
        work = self._work
        parts = split_attachments(work.wire.read(), LARGEST_MESSAGE - len(work.bcc_header))
        mime = with_bcc(Content(parts.mime), work.bcc_header).read()
        if (verdict := judge_message(mime, work.envelope)) is not None:
            return verdict
        if self._progress.phase is not Phase.CONNECTING:  # an attempt by SMTP has entered this phase already
            self._progress.begin(Phase.CONNECTING)
        graph = self._logins.get_graph(work.account_id)
        drafted = self._logins.use_token(work.account_id, "graph", lambda token: self._create_draft(graph, token, mime))
        if not isinstance(drafted, Continue):
            return drafted
        self._store.accounts.clear_refused_sending(work.account_id)
        for file in parts.files:
            added = self._logins.use_token(work.account_id, "graph", partial(self._attach, graph, file))
            if not isinstance(added, Continue):
                return added
        return self._send_draft(graph)

    def remove_draft(self, verdict: Verdict) -> None:
        """Delete the draft if it was certainly not sent by this verdict. Never raises: the user can delete it."""
        if self._draft is None or self._token is None or not isinstance(verdict, Refused | TemporaryFailure):
            return
        try:
            self._logins.get_graph(self._work.account_id).delete_draft(self._token, self._draft)
        except Exception as error:  # noqa: BLE001 - it is said out of courtesy
            log.warning(
                "graph_draft_not_deleted", extra={"operation": self._work.operation_id, "error": type(error).__name__}
            )

    def _create_draft(self, graph: Graph, token: str, mime: bytes) -> Verdict:
        """Create the draft and record its ID. Returns Continue if it exists, otherwise the reason as a verdict."""
        self._remove_earlier(graph, token)
        if self._progress.phase is not Phase.ENVELOPE:
            self._progress.enter(Phase.ENVELOPE)
        made = graph.create_draft(token, mime)
        if isinstance(made, GraphResponse):
            verdict = judge("draft", made)
            return TemporaryFailure("unavailable") if isinstance(verdict, Continue) else verdict
        self._token, self._draft = token, made
        self.copy = self._recorder.make_copy(self._work)
        try:
            self._progress.enter(Phase.DATA, provider_draft_id=made)
        except OperationClosed:
            self._give_up()
        return Continue()

    def _attach(self, graph: Graph, file: SplitAttachment, token: str) -> Verdict:
        """Attach a file to the draft. Returns Continue if the file is complete, otherwise the reason as a verdict."""
        assert self._draft is not None  # noqa: S101 - it has just been made
        self._token = token
        if file.size >= LEAST_UPLOADED:
            begun = remote_graph.start_upload(graph, token, self._draft, file)
            if not isinstance(begun, GraphResponse):
                return judge("upload", begun.upload(file))
            if begun.code.lower() != _TOO_SMALL:
                return judge("session", begun)
        return judge("attach", remote_graph.attach_file(graph, token, self._draft, file))

    def _remove_earlier(self, graph: Graph, token: str) -> None:
        """Delete drafts that earlier attempts created but did not send.

        If that fails, this attempt continues. Only a refused access token raises RemoteFault.
        """
        work = self._work
        if work.attempts == 0 and work.provider_draft_id is None:
            return
        left = {work.provider_draft_id} if work.provider_draft_id else set[str]()
        try:
            left |= set(graph.find_drafts(token, work.message_id))
        except RemoteFault as fault:
            self._note_left_draft(fault)
        for draft_id in left:
            try:
                graph.delete_draft(token, draft_id)
            except RemoteFault as fault:
                self._note_left_draft(fault)

    def _note_left_draft(self, fault: RemoteFault) -> None:
        if fault.name == "token_refused":
            raise fault
        facts = {"operation": self._work.operation_id, "fault": fault.kind, "named": fault.name}
        log.warning("graph_earlier_draft_left", extra=facts)

    def _send_draft(self, graph: Graph) -> Verdict:
        assert self._draft is not None  # noqa: S101 - it has just been made
        account_id, timeout = self._work.account_id, self._settings.number("sending.dot_timeout")
        # attaching large files can outlast a token
        self._token = token = self._logins.use_token(account_id, "graph", str)
        try:
            # From here on the message may be sent, so this must be on the disk before the request.
            self._progress.commit(Phase.DOT)
        except OperationClosed:
            self._give_up()
        self._progress.publish(Phase.DOT)
        self._progress.phase = Phase.DOT
        try:
            said = graph.send_draft(token, self._draft, timeout)
            if said.status == 401:
                self._logins.refuse_token(account_id, "graph", token)
            return judge("send", said)
        except RemoteFault as fault:
            return judge_sending(fault)

    def _give_up(self) -> NoReturn:
        """Delete the unsent draft of an operation that has ended in the meantime, then raise OperationClosed."""
        self.remove_draft(TemporaryFailure("unavailable"))
        raise OperationClosed


def judge_message(mime: bytes, envelope: Envelope) -> Verdict | None:
    """Return the verdict for a message that Graph cannot send, or None if it can."""
    if envelope.smtputf8:
        return TemporaryFailure("smtputf8")
    if len(mime) > LARGEST_MESSAGE:
        return Refused("message_too_large", None, _TOO_MUCH_IN_ONE)
    return None if _matches_envelope(mime, envelope) else Refused("message_rejected", None)


def _matches_envelope(mime: bytes, envelope: Envelope) -> bool:
    """Whether the header fields name the sender of the envelope and exactly its recipients, in any order."""
    read = parse_message(mime)
    named = {_to_comparable(each.email) for each in (*read.to, *read.cc, *read.bcc)}
    if read.sender is None or not same_mailbox(read.sender.email, envelope.sender):
        return False
    return named == {_to_comparable(each) for each in envelope.recipients}


def _to_comparable(email: str) -> str:
    try:
        return to_envelope_address(email)
    except ValueError:
        return email


# --- Drafts at Graph: their state, and the removal of abandoned ones ---


class GraphDrafts:
    """Queries and deletes the drafts of sends at Microsoft Graph. May be used from any thread."""

    def __init__(self, logins: "Logins") -> None:
        self._logins = logins

    def state(self, account_id: str, draft_id: str) -> DraftState:
        """Return whether a message is still a draft, was sent, or is gone. Raises RemoteFault and NotFound."""
        graph = self._logins.get_graph(account_id)
        return self._logins.use_token(account_id, "graph", lambda token: graph.get_draft_state(token, draft_id))

    def remove_later(self, account_id: str, message_id: str) -> None:
        """Delete, in the background, the drafts of an operation that was withdrawn.

        `message_id`: the Message-ID of its message. No other operation has it, so none of these is about to be sent.
        """
        try:
            if self._logins.get_login(account_id).sends_via != "graph":
                return
            name = f"abandoned drafts {account_id}"
            threading.Thread(target=self._clear, args=(account_id, message_id), name=name, daemon=True).start()
        except (NotFound, RuntimeError):  # the mailbox uses passwords or was removed; or no thread can be started
            return

    def _clear(self, account_id: str, message_id: str) -> None:
        def clear(graph: Graph, token: str) -> None:
            for draft_id in graph.find_drafts(token, message_id):
                graph.delete_draft(token, draft_id)

        try:
            graph = self._logins.get_graph(account_id)
            self._logins.use_token(account_id, "graph", lambda token: clear(graph, token))
        except (NotFound, RemoteFault) as error:
            log.warning("graph_draft_left", extra={"account": account_id, "error": type(error).__name__})
        except Exception:  # a draft that remains is visible to the user
            log.exception("graph_draft_left", extra={"account": account_id})
