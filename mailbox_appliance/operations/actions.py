"""Bulk actions: one action on many messages, applied at their mail server first, then in the store; and their undo."""

from itertools import chain
from typing import Annotated, cast, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import Detail, Invalid, PolicyDenied, UndoUsed, Unsupported
from mailbox_appliance.mailbox import actions, undo
from mailbox_appliance.mailbox.bulk import Action, MessageAction
from mailbox_appliance.mailbox.connections import problem_of
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.base import Input
from mailbox_appliance.model.deliveries import UndoableResult
from mailbox_appliance.model.members import Capability
from mailbox_appliance.model.messages import MessageActionResult
from mailbox_appliance.model.sync import MirroredFolder
from mailbox_appliance.operations.operation import Caller, operation
from mailbox_appliance.permissions import require_capability
from mailbox_appliance.policies import read_policies
from mailbox_appliance.remote.errors import RemoteFault

MAX_MESSAGES, MAX_LABELS = 100, 100

_CAPABILITY_OF_ACTION: dict[Action, Capability] = dict.fromkeys(get_args(Action), Capability.MAIL_ORGANIZE) | {
    "trash": Capability.MAIL_TRASH,
    "untrash": Capability.MAIL_TRASH,
    "delete": Capability.MAIL_DELETE,
}
_LABEL_ACTIONS: frozenset[Action] = frozenset({"addLabels", "removeLabels"})
_MOVES: frozenset[Action] = frozenset({"archive", "trash", "untrash", "move"})
_ROLES_WITH_ACTION = ("archive", "trash")
_Id = Annotated[str, Meta(min_length=1)]


class MessageActionRequest(Input, frozen=True, kw_only=True):
    """One action on messages of a mailbox.

    - action: The action to apply.
    """

    message_ids: Annotated[
        tuple[_Id, ...],
        Meta(min_length=1, description=f"IDs of the messages: at most {MAX_MESSAGES}; duplicates count once."),
    ]
    action: Action
    folder: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="Target of `move`: ID, role, path or name of a folder. Ignored by other actions.",
            ),
        ]
        | UnsetType
    ) = UNSET
    labels: (
        Annotated[
            tuple[Annotated[str, Meta(min_length=1)], ...],
            Meta(
                max_length=MAX_LABELS,
                description="Labels for `addLabels` and `removeLabels`. Ignored by other actions.",
            ),
        ]
        | UnsetType
    ) = UNSET


def _needed_capability(body: object) -> Capability | None:
    action = body.get("action") if isinstance(body, dict) else None
    return next((capability for known, capability in _CAPABILITY_OF_ACTION.items() if known == action), None)


@operation(
    needs=(Capability.MAIL_ORGANIZE, Capability.MAIL_TRASH, Capability.MAIL_DELETE),
    needs_of=_needed_capability,
    asks_servers=True,
)
def perform(
    appliance: Appliance,
    caller: Caller,
    account: Account,
    request: MessageActionRequest,
) -> UndoableResult[MessageActionResult]:
    """Apply an action to messages.

    Returns a result for each message. A message that is already in the requested state counts as succeeded. Each
    message is compared with the server's version before it is changed. `uncertainIds`: the connection ended before the
    server confirmed; check these messages before you try again.

    - `trash` and `untrash` require `mail.trash`, `delete` requires `mail.delete`, all others `mail.organize`.
    - `archive` and `trash` create their folder if needed.
    - `untrash` moves messages to the inbox, or to the drafts if the server marks them as drafts.
    - `delete` is permanent.
    - If a sending policy asks for an approval of new recipients, only a session of the owner can move messages out of
      spam, or to Sent.
    - Labels are IMAP keywords (RFC 9051 2.3.2). With Gmail labels, `archive` removes a message from the inbox, and
      `move` to a label also adds that label.
    - `undo`, beside `data`, has a token that undoes the action, for 24 hours. It is absent if the action changed no
      message, and for `delete`. Messages in `uncertainIds` are not part of it.
    """
    distinct = tuple(dict.fromkeys(request.message_ids))
    if len(distinct) > MAX_MESSAGES:
        raise Invalid.at("/messageIds", f"A request can name at most {MAX_MESSAGES} messages.")
    wanted = MessageAction(
        request.action, distinct, _find_target_folder(appliance, account, request), _read_labels(account, request)
    )
    _require_recipients_stay_new(appliance, caller, account, wanted)
    try:
        outcomes = actions.perform(appliance.connections, appliance.store, appliance.events, account.id, wanted)
    except RemoteFault as fault:
        raise problem_of(fault) from fault
    changes = outcomes.changes()
    offer = appliance.store.undo.add(account.id, caller.member.id, request.action, changes) if changes else None
    return UndoableResult(outcomes.result(), undo=offer)


def _require_recipients_stay_new(appliance: Appliance, caller: Caller, account: Account, wanted: MessageAction) -> None:
    """Raise PolicyDenied if an action would let somebody send without the approval that a policy asks for.

    The addresses in a message become known to the mailbox when it leaves spam or lies in Sent.
    """
    store, credential = appliance.store, caller.required_credential
    is_owner = credential.kind == "session" and account.owner_member_id == caller.member.id
    if wanted.action not in _MOVES or is_owner:
        return
    policies = read_policies(store, account.id, credential.id)
    if "newRecipients" not in {policies.mailbox.approval, policies.key and policies.key.approval}:
        return
    if wanted.target is not None and wanted.target.role == "sent":
        reason = "messages cannot be moved to Sent, since that makes their recipients known."
        raise PolicyDenied(reason=reason, details=(Detail("/folder", reason),))
    for message_id, located in store.mailbox_writer.locate(account.id, wanted.message_ids).items():
        if located.folder.role == "spam":
            reason = "messages cannot be moved out of spam, since that makes their senders known."
            place = f"/messageIds/{wanted.message_ids.index(message_id)}"
            raise PolicyDenied(reason=reason, details=(Detail(place, reason),))


def _find_target_folder(appliance: Appliance, account: Account, request: MessageActionRequest) -> MirroredFolder | None:
    if request.action != "move":
        return None
    if request.folder is UNSET:
        raise Invalid.at("/folder", "This action requires a target folder.")
    found = appliance.store.folders.find(account.id, request.folder)
    role = request.folder.lower() if found is None else found.role
    if role in _ROLES_WITH_ACTION:
        raise Invalid.at("/folder", f"Use the action `{role}` instead of moving to this folder.")
    return found


def _read_labels(account: Account, request: MessageActionRequest) -> tuple[str, ...]:
    if request.action not in _LABEL_ACTIONS:
        return ()
    if not request.labels:
        raise Invalid.at("/labels", "This action requires at least one label.")
    if not account.capabilities.labels:
        raise Unsupported(reason="its server does not support keywords, so there are no labels.")
    return tuple({label.lower(): label for label in request.labels}.values())


# --- Undo ---


class UndoRequest(Input, frozen=True, kw_only=True):
    """The action to undo.

    - token: The token that the action returned in `undo`.
    """

    token: Annotated[str, Meta(min_length=1, max_length=200)]


@operation(needs=(Capability.MAIL_ORGANIZE, Capability.MAIL_TRASH), asks_servers=True)
def undo_action(appliance: Appliance, caller: Caller, account: Account, request: UndoRequest) -> MessageActionResult:
    """Undo an action on messages.

    Restores the flags, labels and folder of each message that the action changed and that is still as the action left
    it. Returns a result for each of these messages, with the action `undo`.

    - A message that was changed since, by any client, stays as it is and fails with the code `changed`.
    - A token is valid once, for 24 hours, in its mailbox and for the member who requested the action. It stays valid if
      the mail server is unavailable and nothing was restored.
    - Requires what the action requires: `mail.trash` for `trash` and `untrash`, otherwise `mail.organize`.
    """
    found = appliance.store.undo.get(request.token, account.id, caller.member.id)
    action = cast("Action", found.action)
    require_capability(caller.capabilities, (_CAPABILITY_OF_ACTION[action],))
    if found.is_used:
        raise UndoUsed
    wanted = MessageAction(action, tuple(chain.from_iterable(change.message_ids for change in found.changes)))
    _require_recipients_stay_new(appliance, caller, account, wanted)
    appliance.store.undo.use(found)
    try:
        outcomes = undo.undo(
            appliance.connections, appliance.store, appliance.events, account.id, wanted, found.changes
        )
    except RemoteFault as fault:
        appliance.store.undo.give_back(found)
        raise problem_of(fault) from fault
    result = outcomes.result()
    if not (result.succeeded_ids or result.uncertain_ids) and any(
        failed.code == "provider_unavailable" for failed in result.failed
    ):
        appliance.store.undo.give_back(found)
    return msgspec.structs.replace(result, action="undo")
