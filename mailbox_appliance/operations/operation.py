"""What an operation is: a function whose signature is the contract, and the checks around it.

    HTTPS (403) -> who asks (401) -> session (403) -> reach (404) -> rights (403) -> input (400) -> the function

The parameters after `appliance` and `caller` are what the caller gives: a mailbox (`Account`, named by `accountId`), a
body (a struct, or a choice of structs), and single values (path, query, header, flag or tool argument).
"""

import hashlib
import hmac
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from mailbox_appliance.model.members import Capability, Member, Role
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

# --- Who asks: found out once, under every door, from a bearer token and where the request came from ---


# Tokens of earlier releases are shorter; nothing of ours is longer than this.
_MAX_TOKEN_LENGTH = 200


@dataclass(frozen=True)
class Origin:
    """Where a request came from: the peer's address, whether that is this computer, and whether nobody could listen."""

    client_address: str | None
    is_local: bool
    is_secure: bool

    @property
    def is_private(self) -> bool:
        """Whether nobody in between reads along."""
        return self.is_local or self.is_secure


LOCAL = Origin(None, is_local=True, is_secure=True)


@dataclass(frozen=True)
class Caller:
    """Who asks. Without a credential it may be anybody, or the operator of this computer, who is no member."""

    origin: Origin
    credential: FoundCredential | None = None
    capabilities: frozenset[Capability] = frozenset()
    is_operator: bool = False

    @property
    def member(self) -> Member:
        """The member behind the credential. Raises Unauthenticated where there is none."""
        return self.required_credential.member

    @property
    def required_credential(self) -> FoundCredential:
        """The credential. Raises Unauthenticated where there is none."""
        if self.credential is None:
            raise Unauthenticated
        return self.credential

    @property
    def kind(self) -> Literal["anonymous", "session", "api_key"]:
        """What the request was made with."""
        return "anonymous" if self.credential is None else self.credential.kind

    @property
    def actor(self) -> Actor:
        """The caller as the audit log names it."""
        address = self.origin.client_address
        if self.credential is None:
            return Actor("local" if self.origin.is_local else "system", client_address=address)
        return Actor(self.credential.kind, self.credential.id, self.credential.member.id, address)


def is_operator(secret: str | None, token: str | None, origin: Origin) -> bool:
    """Whether a bearer token is the secret of this run, shown on this computer: whoever may read `run.json` has it."""
    if secret is None or not token or not origin.is_local:
        return False
    return hmac.compare_digest(secret.encode(), token.encode("utf-8", "surrogatepass"))


def identify(store: Store, token: str | None, origin: Origin) -> Caller:
    """The caller that a bearer token stands for.

    Raises Unauthenticated without a token or for one that is no longer good, MemberSuspended for a suspended member's.
    """
    if not token or len(token) > _MAX_TOKEN_LENGTH:
        raise Unauthenticated
    # A mistyped or cut token is told by its checksum, without asking the store.
    if token[:4] in tokens.KINDS and not tokens.is_well_formed(token):
        raise Unauthenticated
    found = store.credentials.find(tokens.hash_token(token))
    if found is None:
        raise Unauthenticated
    if found.member.status == "suspended":
        raise MemberSuspended
    return Caller(origin, found, effective_capabilities(found))


def recheck_caller(store: Store, caller: Caller, *needed: Capability) -> FoundCredential:
    """Ask again, inside the transaction that saves, whether the caller may: much can happen while a request waits.

    Answers the credential as it is now. Raises Unauthenticated where the session or key has ended since it was looked
    at, MemberSuspended, and Denied where none of the capabilities is held any more.
    """
    found = store.credentials.find_current(caller.required_credential)
    if found is None:
        raise Unauthenticated
    if found.member.status == "suspended":
        raise MemberSuspended
    require_capability(effective_capabilities(found), needed)
    return found


def recheck_owner(store: Store, caller: Caller, account_id: str) -> None:
    """The same, and whether the mailbox is the caller's own. Raises NotFound where it is not reached any more, too."""
    found = recheck_caller(store, caller)
    require_owner(require_account(store, found, account_id), found.member.id)


# --- Who may ask for an operation: one declaration, checked in one order under every door ---
#
# host and HTTPS (403) -> who asks (401) -> session (403) -> reach (404) -> capability, role, owner (403)


#: Raises NotFound or Denied where the caller may not do this to what a request's single values name: in a mailbox...
AccountCheck = Callable[[Appliance, Caller, Account, Mapping[str, str]], None]
#: ... and elsewhere, such as to a member.
RequestCheck = Callable[[Appliance, Caller, Mapping[str, str]], None]


class Access(Enum):
    """What a caller must come with."""

    ANYBODY = "anybody"
    LOCAL = "local"
    CREDENTIAL = "credential"
    SESSION = "session"


@dataclass(frozen=True)
class Rights:
    """What is asked of a caller.

    `needs`: one of these capabilities. `needs_of`: which of them a decoded body asks for. `role`: only members of this
    role. `owner`: only the mailbox's owner. `anywhere`: who holds this reaches every mailbox here, which must then not
    show any mail. `allows`, `permits`: where it depends on what the request names. `https`: remotely only by HTTPS.
    `https_of`: whether a decoded body asks for what is so guarded. `operator`: whoever holds the secret of this run may
    as well, on this computer; nothing else is asked of them.
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
        """The caller. Raises HttpsRequired, LocalOnly, Unauthenticated, MemberSuspended, SessionRequired."""
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
        """The mailbox that a request names. Raises NotFound."""
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
        """Raises Denied, HttpsRequired or NotFound unless the caller may; `body`: what can be read of it, else None."""
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
        """Raises Denied, naming the capability that is missing: the one that the body asks for, where it tells."""
        asked = None if self.needs_of is None else self.needs_of(body())
        permissions.require_capability(caller.capabilities, self.needs if asked is None else (asked,))

    def _check_account(self, appliance: Appliance, caller: Caller, account: Account, values: Mapping[str, str]) -> None:
        if self.owner:
            permissions.require_owner(account, caller.member.id)
        if self.check_account is not None:
            self.check_account(appliance, caller, account, values)


# ---
# What an operation is: a function whose signature is the contract, and the checks that every door gets with it.
#
# reach (401, 403 session, 404) -> rights (403) -> input (400) -> the function
#
# The parameters after `appliance` and `caller` are what the caller gives: a mailbox (`Account`, named by
# `accountId`), a body (a struct, or a choice of structs), and single values (path, query, header, flag or tool
# argument, as the door likes).


P = ParamSpec("P")
R = TypeVar("R")

MIB = 1024 * 1024
JSON_LIMIT = MIB
MAIL_LIMIT = 36 * MIB
_RETRY_AFTER = 5


class RequestHash(str):
    """The fingerprint of a request, by which a retry is told from another request (see `Operation.fingerprint`)."""

    __slots__ = ()


@dataclass(frozen=True)
class Request:
    """What a door hands over: single values as text, where each stood, and the body as it came (or already decoded).

    `media_type` is what the body is said to be; None where the door has no other kind. `faults` is what the door found
    wrong by itself: told with the other faults of the request, after who asks and what may be reached.
    `is_body_discarded`: the body was over the door's bound. `postponed_bytes`: its size, where the door had no memory
    left for it.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Content | Mapping[str, Any] | None = None
    media_type: str | None = None
    is_body_discarded: bool = False
    postponed_bytes: int = 0
    faults: tuple[Detail, ...] = ()


class Operation(Generic[P, R]):
    """A function that may be asked for through any door."""

    def __init__(
        self,
        function: Callable[P, R],
        rights: Rights,
        *,
        asks_servers: bool,
        body_limit: int,
        stands_for: str | None,
        tag: str | None,
    ) -> None:
        self.function, self.rights = function, rights
        self.asks_servers, self.body_limit, self.fingerprint_route = asks_servers, body_limit, stands_for
        self.name = f"{tag or function.__module__.rsplit('.', 1)[-1]}.{function.__name__}"
        self.help = inspect.cleandoc(function.__doc__ or "")
        hints = get_type_hints(function, include_extras=True)
        self.result = _result_type(hints.pop("return"))
        self.account: str | None = None
        self.body: Parameter | None = None
        self.request_hash: str | None = None
        self.parameters: dict[str, Parameter] = {}
        for name, given in list(inspect.signature(function).parameters.items())[2:]:
            self._add_parameter(name, hints[name], given.default)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function itself, for callers inside the house, without the checks of `call`."""
        return self.function(*args, **kwargs)

    def call(self, appliance: Appliance, origin: Origin, token: str | None, request: Request) -> OperationResult[Any]:
        """Check everything, in the order that every door keeps, then do it."""
        caller = self.rights.identify(appliance, origin, token)
        given: dict[str, Any] = {}
        account = None
        if self.account is not None:
            account = self.rights.get_account(appliance, caller, request.values.get("accountId", ""))
            given[self.account] = account
        self.rights.check(appliance, caller, account, request.values, lambda: self._body_or_none(request))
        try:
            self._read_values(request, given)
            return self._run(appliance, caller, given)
        except Invalid as problem:
            _locate_details(problem, request.places)
            raise
        finally:
            if isinstance(request.body, Content):
                appliance.events.publish(LargeWorkEnded())

    def fingerprint(self, values: Mapping[str, str], body: object) -> RequestHash:
        """SHA-256 (hex) of method, path and canonical body of the REST call that this operation stands for."""
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
        """The decoded body, as far as it can be read; what is wrong with it is told later."""
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
                raise Invalid.at(wire, "There is no such parameter here.")
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
            raise Invalid.at("", "This takes no body.")
        return raw

    def _run(self, appliance: Appliance, caller: Caller, given: dict[str, Any]) -> OperationResult[Any]:
        function: Callable[..., Any] = self.function
        if self.asks_servers:
            with appliance.require_io_slot():
                answer = function(appliance, caller, **given)
        else:
            answer = function(appliance, caller, **given)
        return answer if isinstance(answer, OperationResult) else OperationResult(answer)


def operation(
    *,
    access: Access = Access.CREDENTIAL,
    needs: Capability | tuple[Capability, ...] = (),
    needs_of: Callable[[object], Capability | None] | None = None,
    https_of: Callable[[object], bool] | None = None,
    role: Role | None = None,
    owner: bool = False,
    anywhere: Capability | None = None,
    allows: AccountCheck | None = None,
    permits: RequestCheck | None = None,
    https: bool = False,
    operator: bool = False,
    asks_servers: bool = False,
    body_limit: int = JSON_LIMIT,
    stands_for: str | None = None,
    tag: str | None = None,
) -> Callable[[Callable[P, R]], Operation[P, R]]:
    """Make a function an operation. Who may ask for it: see `Rights`.

    `asks_servers`: it waits for other people's servers, so few may run at once. `stands_for`: the REST call by whose
    fingerprint its retries are told. `tag`: the first word of its name in the OpenAPI document, where that is not the
    module's: clients generate code from these names, so they stay when a function moves.
    """
    needed = (needs,) if isinstance(needs, Capability) else needs
    rights = Rights(access, needed, needs_of, https_of, role, owner, anywhere, allows, permits, https, operator)
    return lambda function: Operation(
        function, rights, asks_servers=asks_servers, body_limit=body_limit, stands_for=stands_for, tag=tag
    )


def _result_type(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is OperationResult else annotation


def _locate_details(problem: Invalid, places: Mapping[str, str]) -> None:
    """Say of single values where they stood: `cursor` -> `query:cursor`. Pointers into the body stay as they are."""
    problem.details = tuple(
        Detail(value_pointer(places[d.path], d.path), d.message) if d.path in places else d for d in problem.details
    )


IdempotencyKey = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]*$(?!\n)",
        description="Names this request among those of this credential: it is handed over at most once, for good.",
        extra={"expected": "This must be 1 to 255 printable ASCII characters without spaces."},
    ),
]
Limit = Annotated[int, msgspec.Meta(ge=1, le=100, description="How many items a page holds at most.")]
Cursor = Annotated[
    str, msgspec.Meta(max_length=200, description="Where to go on: `nextCursor` of the page before, of the same list.")
]
