"""Operations: functions that every interface offers. Their signature defines input and result; checks come before them.

    HTTPS (403) -> caller (401) -> session (403) -> mailbox (404) -> rights (403) -> input (400) -> the function

The first parameters of the function are `appliance` and `caller`. The others come from the request: a mailbox
(`Account`, named by `accountId`), a body (a struct, or one of several), and single values (path, query, header, flag or
tool argument). Operations share single values as `**keys` of a TypedDict.
"""

import hashlib
import hmac
import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Generic, Literal, ParamSpec, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from mailbox_appliance import permissions
from mailbox_appliance.appliance import Appliance
from mailbox_appliance.errors import (
    Detail,
    HttpsRequired,
    Invalid,
    LocalOnly,
    MemberSuspended,
    Problem,
    SessionRequired,
    TooBusy,
    TooLarge,
    Unauthenticated,
    WrongMedia,
)
from mailbox_appliance.events import LargeWorkEnded
from mailbox_appliance.model.accounts import Account
from mailbox_appliance.model.content import Content
from mailbox_appliance.model.deliveries import OperationResult
from mailbox_appliance.model.members import MAIL_CAPABILITIES, Capability, Member, Role
from mailbox_appliance.operations.decoding import (
    Parameter,
    body_types,
    canonical_json,
    convert_body,
    convert_value,
    decode_json,
    value_pointer,
    wire_name,
)
from mailbox_appliance.permissions import effective_capabilities, require_account, require_capability, require_owner
from mailbox_appliance.security import tokens
from mailbox_appliance.store.audit import Actor
from mailbox_appliance.store.credentials import FoundCredential
from mailbox_appliance.store.store import Store

# --- The caller: identified once, for every interface, from a bearer token and the origin of the request ---


# Longer than any token of ours; those of earlier releases are shorter.
_MAX_TOKEN_LENGTH = 200


class Origin(msgspec.Struct, frozen=True):
    """The origin of a request: the client's address, whether it is this computer, and whether the request came over
    HTTPS.
    """

    client_address: str | None
    is_local: bool
    is_secure: bool

    @property
    def is_private(self) -> bool:
        """Whether nobody else can read the connection: it is local or uses HTTPS."""
        return self.is_local or self.is_secure


LOCAL = Origin(None, is_local=True, is_secure=True)


class Caller(msgspec.Struct, frozen=True):
    """The caller of an operation. `credential` is None for an anonymous caller, and for the operator of this computer
    (`is_operator`), who is not a member.
    """

    origin: Origin
    credential: FoundCredential | None = None
    capabilities: frozenset[Capability] = frozenset()
    is_operator: bool = False

    @property
    def member(self) -> Member:
        """The member that the credential belongs to. Raises Unauthenticated if there is no credential."""
        return self.required_credential.member

    @property
    def required_credential(self) -> FoundCredential:
        """The credential of the request. Raises Unauthenticated if there is none."""
        if self.credential is None:
            raise Unauthenticated
        return self.credential

    @property
    def kind(self) -> Literal["anonymous", "session", "api_key"]:
        """The kind of credential of the request; `anonymous` if there is none."""
        return "anonymous" if self.credential is None else self.credential.kind

    @property
    def actor(self) -> Actor:
        """The caller as recorded in the audit log."""
        address = self.origin.client_address
        if self.credential is None:
            return Actor("local" if self.origin.is_local else "system", client_address=address)
        return Actor(self.credential.kind, self.credential.id, self.credential.member.id, address)


def is_operator(secret: str | None, token: str | None, origin: Origin) -> bool:
    """Whether the bearer token proves that the caller operates this computer.

    `secret`: the value in the file `run.json`, new at each start. Only people who can read that file know it.
    """
    if secret is None or not token or not origin.is_local:
        return False
    return hmac.compare_digest(secret.encode(), token.encode("utf-8", "surrogatepass"))


def identify(store: Store, token: str | None, origin: Origin) -> Caller:
    """Return the caller that a bearer token belongs to.

    Raises Unauthenticated if there is no valid token, and MemberSuspended if it belongs to a suspended member.
    """
    if not token or len(token) > _MAX_TOKEN_LENGTH:
        raise Unauthenticated
    # The checksum reveals a mistyped or truncated token without reading the store.
    if token[:4] in tokens.KINDS and not tokens.is_well_formed(token):
        raise Unauthenticated
    found = store.credentials.find(tokens.hash_token(token))
    if found is None:
        raise Unauthenticated
    if found.member.status == "suspended":
        raise MemberSuspended
    return Caller(origin, found, effective_capabilities(found))


_MAX_KEY_ID = 200
KeyId = Annotated[str, msgspec.Meta(min_length=1, max_length=_MAX_KEY_ID)]


def require_key_exists(appliance: Appliance, caller: Caller, values: Mapping[str, str]) -> None:  # noqa: ARG001
    """Raise NotFound if no API key has the ID in the path: the `check_request` of operations on any member's key."""
    key_id = values.get("keyId", "")
    if len(key_id) <= _MAX_KEY_ID:  # a longer one is an invalid request
        appliance.store.api_keys.get(key_id)


def recheck_caller(store: Store, caller: Caller, *needed: Capability) -> FoundCredential:
    """Check the caller's rights again and return their credential as it is now. Call inside the transaction that saves.

    Rights may change while a request waits. Raises Unauthenticated if the session or key has ended, MemberSuspended,
    and Denied if the caller now has none of the `needed` capabilities.
    """
    found = store.credentials.find_live(caller.required_credential.kind, caller.required_credential.id)
    if found is None:
        raise Unauthenticated
    if found.member.status == "suspended":
        raise MemberSuspended
    require_capability(effective_capabilities(found), needed)
    return found


def recheck_owner(store: Store, caller: Caller, account_id: str) -> None:
    """Check again that the caller's credential is valid and that they own the mailbox. Call inside the transaction that
    saves.

    Raises Unauthenticated, MemberSuspended, NotFound if they have no access to the mailbox, and Denied if they do not
    own it.
    """
    found = recheck_caller(store, caller)
    require_owner(require_account(store, found, account_id), found.member.id)


# --- Rights: the requirements on a caller, declared once for each operation and checked in one order ---


#: Raises NotFound or Denied if the caller must not do this to the objects that a request names, in a mailbox ...
AccountCheck = Callable[[Appliance, Caller, Account, Mapping[str, str]], None]
#: ... and elsewhere, such as to a member.
RequestCheck = Callable[[Appliance, Caller, Mapping[str, str]], None]


class Access(Enum):
    """The kind of caller that an operation accepts: anybody, callers on this computer, any credential, or only a
    session.
    """

    ANYBODY = "anybody"
    LOCAL = "local"
    CREDENTIAL = "credential"
    SESSION = "session"


@dataclass(frozen=True)
class Rights:
    """The requirements for callers of an operation, declared once.

    - needs: The caller must have one of these capabilities.
    - needs_of: Function of the decoded body. Returns the capability that the body requires instead of `needs`, or None.
    - https: HTTPS is required from other computers.
    - https_of: Function of the decoded body. Returns whether the body requires HTTPS from other computers.
    - role: Only members with this role.
    - owner: Only the owner of the mailbox.
    - any_mailbox_with: A capability that gives access to every mailbox. The operation must not show any mail.
    - check_account, check_request: Further checks, which depend on the values of the request.
    - operator: The operator of this computer may call it too, without any other requirement (see `is_operator`).
    """

    access: Access = Access.CREDENTIAL
    needs: tuple[Capability, ...] = ()
    needs_of: Callable[[object], Capability | None] | None = None
    https_of: Callable[[object], bool] | None = None
    role: Role | None = None
    owner: bool = False
    any_mailbox_with: Capability | None = None
    check_account: AccountCheck | None = None
    check_request: RequestCheck | None = None
    https: bool = False
    operator: bool = False

    def identify(self, appliance: Appliance, origin: Origin, token: str | None) -> Caller:
        """Return the caller of a request, if this kind of caller is accepted.

        Raises HttpsRequired, LocalOnly, Unauthenticated, MemberSuspended, or SessionRequired.
        """
        if self.https and not origin.is_private:
            raise HttpsRequired
        if self.access is Access.LOCAL and not origin.is_local:
            raise LocalOnly(details=(Detail("role", "operator on this computer"),))
        if self.access in (Access.ANYBODY, Access.LOCAL):
            return Caller(origin)
        if self.operator and is_operator(appliance.operator_secret, token, origin):
            return Caller(origin, is_operator=True)
        caller = identify(appliance.store, token, origin)
        if self.access is Access.SESSION and caller.required_credential.kind != "session":
            raise SessionRequired
        return caller

    def get_account(self, appliance: Appliance, caller: Caller, account_id: str) -> Account:
        """Return the mailbox that a request names. Raises NotFound if the caller has no access to it."""
        everywhere = self.any_mailbox_with is not None and self.any_mailbox_with in caller.capabilities
        return permissions.require_account(
            appliance.store, caller.required_credential, account_id, everywhere=everywhere
        )

    def check(
        self,
        appliance: Appliance,
        caller: Caller,
        account: Account | None,
        values: Mapping[str, str],
        body: Callable[[], object],
    ) -> None:
        """Raise Denied, HttpsRequired or NotFound if the caller does not meet the requirements.

        `account`: the mailbox that the request names, if any. `values`: the single values of the request. `body`:
        returns the decoded body, or None if it is not valid.
        """
        if caller.is_operator:
            return
        if self.https_of is not None and not caller.origin.is_private and self.https_of(body()):
            raise HttpsRequired
        self.require_capability(caller, body)
        if self.role is not None:
            permissions.require_role(caller.member, self.role)
        if self.check_request is not None:
            self.check_request(appliance, caller, values)
        if account is not None:
            self._check_account(appliance, caller, account, values)

    def require_capability(self, caller: Caller, body: Callable[[], object]) -> None:
        """Raise Denied, naming the missing capability, unless the caller has one that the operation or the body
        requires.

        `body`: returns the decoded body, or None if it is not valid.
        """
        asked = None if self.needs_of is None else self.needs_of(body())
        permissions.require_capability(caller.capabilities, self.needs if asked is None else (asked,))

    def _check_account(self, appliance: Appliance, caller: Caller, account: Account, values: Mapping[str, str]) -> None:
        if self.owner:
            permissions.require_owner(account, caller.member.id)
        if self.check_account is not None:
            self.check_account(appliance, caller, account, values)


# --- Operations: a function, its parameters, and the checks before it ---


P = ParamSpec("P")
R = TypeVar("R")

MIB = 1024 * 1024
JSON_LIMIT = MIB
MAIL_LIMIT = 36 * MIB
_RETRY_AFTER = 5


class RequestHash(str):
    """A hash of a request. Only retries of the same request have the same hash (see `Operation.fingerprint`)."""

    __slots__ = ()


class Request(msgspec.Struct, frozen=True):
    """The input of an operation, as an interface received it.

    - values: Single values, as text, by name.
    - places: The part of the request that each value comes from: `path`, `query` or `header`.
    - body: The body, as bytes or decoded; None if there is none.
    - media_type: The declared type of the body; None if the interface has only one type.
    - is_body_discarded: The body was over the limit, so it was not kept.
    - postponed_bytes: The size of a body that was not kept because no memory was free; otherwise 0.
    - faults: Errors that the interface found itself. They are reported with other input errors, after the checks of
      caller and mailbox.
    """

    values: Mapping[str, str] = msgspec.field(default_factory=dict)
    places: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes | Content | Mapping[str, Any] | None = None
    media_type: str | None = None
    is_body_discarded: bool = False
    postponed_bytes: int = 0
    faults: tuple[Detail, ...] = ()


class Operation(Generic[P, R]):
    """A function that every interface can offer, with the requirements for its callers and a description of its
    input.
    """

    def __init__(
        self,
        function: Callable[P, R],
        rights: Rights,
        *,
        asks_servers: bool,
        body_limit: int,
        stands_for: str | None,
    ) -> None:
        self.function, self.rights = function, rights
        self.asks_servers, self.body_limit, self.fingerprint_route = asks_servers, body_limit, stands_for
        self.help = inspect.cleandoc(function.__doc__ or "")
        #: Whether the function may read the mirror, which must then show what was sent before.
        self.reads_mail = rights.needs_of is not None or any(
            each in MAIL_CAPABILITIES and each is not Capability.MAIL_SEND for each in rights.needs
        )
        hints = get_type_hints(function, include_extras=True)
        self.result = _result_type(hints.pop("return"))
        self.account: str | None = None
        self.body: Parameter | None = None
        self.request_hash: str | None = None
        self.parameters: dict[str, Parameter] = {}
        for name, given in list(inspect.signature(function).parameters.items())[2:]:
            if given.kind is inspect.Parameter.VAR_KEYWORD:
                # `**filters: Unpack[Filters]`: each key of the TypedDict is an optional parameter.
                (keys,) = get_args(hints[name])
                for key, annotation in get_type_hints(keys, include_extras=True).items():
                    self._add_parameter(key, annotation, None)
            else:
                self._add_parameter(name, hints[name], given.default)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function directly, for code inside the appliance. The checks of `call` are skipped."""
        return self.function(*args, **kwargs)

    def call(self, appliance: Appliance, origin: Origin, token: str | None, request: Request) -> OperationResult[Any]:
        """Check HTTPS, caller, mailbox, rights and input, in this order, then run the function and return its result.

        Raises Problem.
        """
        caller = self.rights.identify(appliance, origin, token)
        given: dict[str, Any] = {}
        account = None
        if self.account is not None:
            account = self.rights.get_account(appliance, caller, request.values.get("accountId", ""))
            given[self.account] = account
        self.rights.check(appliance, caller, account, request.values, lambda: self._body_or_none(request))
        try:
            self._read_values(request, given)
            return self.run(appliance, caller, given)
        except Invalid as problem:
            _locate_details(problem, request.places)
            raise
        finally:
            if isinstance(request.body, Content):
                appliance.events.publish(LargeWorkEnded())

    def run(self, appliance: Appliance, caller: Caller, given: Mapping[str, Any]) -> OperationResult[Any]:
        """Run the function with its arguments by their Python names, and return its result. Nothing is checked."""
        function: Callable[..., Any] = self.function
        if self.reads_mail and appliance.sender.unshown.left:
            appliance.sender.unshown.show()
        with appliance.require_io_slot() if self.asks_servers else nullcontext():
            answer = function(appliance, caller, **given)
        return answer if isinstance(answer, OperationResult) else OperationResult(answer)

    def fingerprint(self, values: Mapping[str, str], body: object) -> RequestHash:
        """Return the SHA-256 (hex) of a request: method, path and canonical body of the corresponding REST call."""
        method, _, template = (self.fingerprint_route or "").partition(" ")
        path = template.format(**values)
        digest = hashlib.sha256(f"{method}\n{path}\n".encode("utf-8", "surrogatepass"))
        for piece in canonical_json(body):
            digest.update(piece)
        return RequestHash(digest.hexdigest())

    def _add_parameter(self, name: str, annotation: Any, default: Any) -> None:
        if annotation is Account:
            self.account = name
        elif annotation is RequestHash:
            self.request_hash = name
        elif body_types(annotation):
            self.body = Parameter("", name, annotation, default)
        else:
            parameter = Parameter(wire_name(name), name, annotation, default)
            self.parameters[parameter.wire] = parameter

    def _body_or_none(self, request: Request) -> object:
        """Errors of the body are reported later, after the checks of the caller."""
        try:
            return self._decode_body(request)
        except Problem:
            return None

    def _read_values(self, request: Request, given: dict[str, Any]) -> None:
        if request.faults:
            raise Invalid(details=request.faults, reason=request.faults[0].message)
        for wire, text in request.values.items():
            parameter = self.parameters.get(wire)
            if parameter is not None:
                given[parameter.name] = convert_value(text, parameter.type, wire)
            elif wire != "accountId" or self.account is None:
                raise Invalid.at(wire, "Unknown parameter.")
        for parameter in self.parameters.values():
            if parameter.name not in given and parameter.is_required:
                raise Invalid.at(parameter.pointer, "This is required.")
        raw = self._decode_body(request)
        if self.body is not None:
            given[self.body.name] = convert_body(raw, self.body.type)
        if self.request_hash is not None:
            given[self.request_hash] = self.fingerprint(request.values, raw)

    def _decode_body(self, request: Request) -> object:
        size = len(request.body) if isinstance(request.body, bytes | Content) else 0
        if request.is_body_discarded or max(size, request.postponed_bytes) > self.body_limit:
            what = "The message" if self.body_limit > JSON_LIMIT else "The body"
            raise TooLarge(what=what, limit=f"{self.body_limit // MIB} MiB")
        if request.postponed_bytes:
            raise TooBusy(retry_after=_RETRY_AFTER)
        if not request.body and (self.body is None or not self.body.is_required):
            return None if self.body is None else {}
        if request.media_type not in (None, "", "application/json"):
            raise WrongMedia
        raw = decode_json(request.body) if isinstance(request.body, bytes | Content) else (request.body or {})
        if self.body is None and raw != {}:
            raise Invalid.at("", "This request has no body.")
        return raw


def operation(
    *,
    access: Access = Access.CREDENTIAL,
    needs: Capability | tuple[Capability, ...] = (),
    needs_of: Callable[[object], Capability | None] | None = None,
    https_of: Callable[[object], bool] | None = None,
    role: Role | None = None,
    owner: bool = False,
    any_mailbox_with: Capability | None = None,
    check_account: AccountCheck | None = None,
    check_request: RequestCheck | None = None,
    https: bool = False,
    operator: bool = False,
    asks_servers: bool = False,
    body_limit: int = JSON_LIMIT,
    stands_for: str | None = None,
) -> Callable[[Callable[P, R]], Operation[P, R]]:
    """Return a decorator that makes a function an operation. `Rights` describes the requirements for callers.

    `asks_servers`: the function waits for remote servers, so only a few of its calls run at once. `body_limit`: the
    maximum size of a body, in bytes. `stands_for`: the REST call, such as `POST /accounts/{accountId}/send`, that is
    hashed to recognize retries.
    """
    needed = (needs,) if isinstance(needs, Capability) else needs
    rights = Rights(
        access, needed, needs_of, https_of, role, owner, any_mailbox_with, check_account, check_request, https, operator
    )
    return lambda function: Operation(
        function, rights, asks_servers=asks_servers, body_limit=body_limit, stands_for=stands_for
    )


def _result_type(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is OperationResult else annotation


def _locate_details(problem: Invalid, places: Mapping[str, str]) -> None:
    """Name the place of single values: `cursor` becomes `query:cursor`."""
    problem.details = tuple(
        Detail(value_pointer(places[d.path], d.path), d.message) if d.path in places else d for d in problem.details
    )


IdempotencyKey = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]*$(?!\n)",
        description="Identifies this request of the credential. A key sends at most one message, permanently.",
        extra={"expected": "This must be 1 to 255 printable ASCII characters without spaces."},
    ),
]
Limit = Annotated[int, msgspec.Meta(ge=1, le=100, description="Maximum number of items on the page.")]
Cursor = Annotated[
    str,
    msgspec.Meta(max_length=200, description="Cursor: `nextCursor` of the previous page of the same list, unchanged."),
]
