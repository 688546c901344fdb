"""Hands one message over by Microsoft Graph: a draft from its MIME, then the sending of that known draft.

    connecting ... an access token
    envelope ..... the draft is made; what an earlier attempt left is removed before
    data ......... its id is on the disk; then the files are added to it that its MIME has no room for
    dot .......... on the disk; then, once, the draft is sent by its id

Graph takes sender and recipients from the fields of the message: they are those of the envelope, or it does not go.
Bcc stands in this MIME alone; Exchange takes it out of what it sends.
"""

import logging
from functools import partial
from typing import NoReturn

from mailbox_appliance.mail.address import same_mailbox, to_envelope_address
from mailbox_appliance.mail.compose import with_bcc
from mailbox_appliance.mail.divided import LeftOut, divided
from mailbox_appliance.mail.parse import parse
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.records import DeliveryWork, Envelope, Phase
from mailbox_appliance.remote import graph_files
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.graph import LARGEST, Graph, Said
from mailbox_appliance.remote.graph_files import LEAST_UPLOADED
from mailbox_appliance.sending.context import SendingContext
from mailbox_appliance.sending.outcome import Recorder
from mailbox_appliance.sending.progress import OperationClosed, Progress
from mailbox_appliance.sending.verdict import Continue, Refused, TemporaryFailure, Verdict
from mailbox_appliance.sending.verdict_graph import judge, judge_sending
from mailbox_appliance.store.deliveries import SentCopy

log = logging.getLogger(__name__)

#: Said of a file that is smaller than it was taken for: its owner counts in another way than we.
_TOO_SMALL = "errorattachmentsizeshouldnotbelessthanminimumsize"
_TOO_MUCH_IN_ONE = (
    "What cannot be added to it as a file of its own (its texts, and whatever is signed or encrypted as a whole) is"
    " larger than the 3 MB that Microsoft Graph takes in one piece."
)


class GraphDelivery:
    """One attempt; when it is recorded, `remove_draft`. `copy`: as it will lie in Sent."""

    def __init__(self, context: SendingContext, recorder: Recorder, progress: Progress, work: DeliveryWork) -> None:
        self._store, self._logins, self._settings = context.store, context.logins, context.settings
        self._recorder, self._progress, self._work = recorder, progress, work
        self._token: str | None = None
        self._draft: str | None = None
        self.refused: list[str] = []
        self.copy: SentCopy | None = None

    def attempt(self) -> Verdict:
        """Try to deliver the message. Raises RemoteFault, OperationClosed, and NotFound where the mailbox is gone."""
        work = self._work
        parts = divided(work.wire.read(), LARGEST - len(work.bcc_header))
        mime = with_bcc(Content(parts.mime), work.bcc_header).read()
        if (verdict := judge_message(mime, work.envelope)) is not None:
            return verdict
        if self._progress.phase is not Phase.CONNECTING:  # a try by SMTP came as far
            self._progress.enter(Phase.CONNECTING)
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
        """Remove a draft that was surely not sent. Never raises: what is left lies among the drafts, for a person."""
        if self._draft is None or self._token is None or not isinstance(verdict, Refused | TemporaryFailure):
            return
        try:
            self._logins.get_graph(self._work.account_id).delete_draft(self._token, self._draft)
        except Exception as error:  # noqa: BLE001 - it is said out of courtesy
            log.warning("a draft was left", extra={"operation": self._work.operation_id, "error": type(error).__name__})

    def _create_draft(self, graph: Graph, token: str, mime: bytes) -> Verdict:
        """Keep the draft, and know it by its id; Continue where it may be sent."""
        self._remove_earlier(graph, token)
        if self._progress.phase is not Phase.ENVELOPE:
            self._progress.enter(Phase.ENVELOPE)
        made = graph.create_draft(token, mime)
        if isinstance(made, Said):
            verdict = judge("draft", made)
            return TemporaryFailure("unavailable") if isinstance(verdict, Continue) else verdict
        self._token, self._draft = token, made
        self.copy = self._recorder.make_copy(self._work)
        if not self._store.deliveries.enter_phases(self._work.operation_id, Phase.DATA, provider_draft_id=made):
            self._give_up()
        self._progress.begin(Phase.DATA)
        return Continue()

    def _attach(self, graph: Graph, file: LeftOut, token: str) -> Verdict:
        """Add a file to the draft; Continue where it is there."""
        assert self._draft is not None  # noqa: S101 - it has just been made
        self._token = token
        if file.size >= LEAST_UPLOADED:
            begun = graph_files.begin(graph, token, self._draft, file)
            if not isinstance(begun, Said):
                return judge("upload", begun.upload(file))
            if begun.code.lower() != _TOO_SMALL:
                return judge("session", begun)
        return judge("attach", graph_files.attach(graph, token, self._draft, file))

    def _remove_earlier(self, graph: Graph, token: str) -> None:
        """What an attempt left that ended before it was sent: it is changed by nobody else then, and sent by nobody.

        Out of courtesy, too: the message goes all the same. Raises RemoteFault for a token that is refused.
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
        log.warning("a draft of an earlier attempt may be left", extra=facts)

    def _send_draft(self, graph: Graph) -> Verdict:
        assert self._draft is not None  # noqa: S101 - it has just been made
        account_id, timeout = self._work.account_id, self._settings.number("sending.dot_timeout")
        self._token = token = self._logins.use_token(account_id, "graph", str)  # a large draft may take longer than one
        try:
            # From here on the message may be sent: this must be on the disk before it is asked for.
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
        """The operation is over, and its draft was not sent. Raises OperationClosed."""
        self.remove_draft(TemporaryFailure("unavailable"))
        raise OperationClosed


def judge_message(mime: bytes, envelope: Envelope) -> Verdict | None:
    """Why a message cannot go by Graph; None where it can."""
    if envelope.smtputf8:
        return TemporaryFailure("smtputf8")
    if len(mime) > LARGEST:
        return Refused("message_too_large", None, _TOO_MUCH_IN_ONE)
    return None if _matches_envelope(mime, envelope) else Refused("message_rejected", None)


def _matches_envelope(mime: bytes, envelope: Envelope) -> bool:
    """Whether the fields of a message name the sender and the recipients of its envelope, and nobody else."""
    read = parse(mime)
    named = {_to_comparable(each.email) for each in (*read.to, *read.cc, *read.bcc)}
    if read.sender is None or not same_mailbox(read.sender.email, envelope.sender):
        return False
    return named == {_to_comparable(each) for each in envelope.recipients}


def _to_comparable(email: str) -> str:
    try:
        return to_envelope_address(email)
    except ValueError:
        return email
