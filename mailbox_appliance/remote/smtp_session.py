"""From a connected socket to a logged-in SMTP dialogue: TLS, greeting, STARTTLS, login."""

import base64
import ssl
from collections.abc import Callable
from typing import Any

from mailbox_appliance.model.records import Endpoint
from mailbox_appliance.remote import replies
from mailbox_appliance.remote.bearer import Bearer
from mailbox_appliance.remote.dialogue import Dialogue, reply_of
from mailbox_appliance.remote.faults import RemoteFault, malformed
from mailbox_appliance.remote.named_faults import fault
from mailbox_appliance.remote.tls import tls_fault

_LONGEST_COMMAND = 500  # RFC 4954 4: what does not fit into a line of 512 bytes is said once it is asked for


def log_in(dialogue: Dialogue, endpoint: Endpoint, context: ssl.SSLContext | None) -> None:
    """Secure the connection as the endpoint says, read the greeting, log in unless the user name is empty.

    Raises RemoteFault, and what the dialogue raises.
    """
    if endpoint.security == "tls" and context is not None:
        _secure(lambda: dialogue.secure(context))
    _expect(dialogue.getreply(), 220, "turns connections away")
    _expect(dialogue.ehlo(), 250, "does not greet us back (EHLO)")
    dialogue.channel.contact.has_greeted = True
    if endpoint.security == "starttls" and context is not None:
        if not dialogue.has_extn("starttls"):  # RFC 8314: no fallback, it may be an attacker who took the word away
            raise RemoteFault("smtp", "tls", "The SMTP server offers no STARTTLS on this port. Try security `tls`.")
        _expect(dialogue.docmd("STARTTLS"), 220, "cannot start TLS now")
        _secure(lambda: dialogue.secure(context))
        _expect(dialogue.ehlo(), 250, "does not greet us back (EHLO)")
    if endpoint.username:
        _log_in(dialogue, endpoint)


def _secure(handshake: Callable[[], Any]) -> None:
    try:
        handshake()
    except ssl.SSLError as error:
        raise tls_fault("smtp", error) from error


def _expect(answer: tuple[int, bytes], code: int, what: str) -> None:
    reply = reply_of(*answer)
    if reply.code == code:
        return
    # By its code alone 421 says no more than that the server is closing (RFC 5321 3.8).
    known = fault(reply.name, "smtp", reply) if reply.is_temporary and reply.name else None
    if known is not None and known.kind == "throttled":
        raise known
    when = "now. Try again later." if reply.is_temporary else "from here. Ask its operator."
    raise RemoteFault("smtp", "refused", f"The SMTP server {what} {when}", reply)


def _log_in(dialogue: Dialogue, endpoint: Endpoint) -> None:
    """AUTH (RFC 4954): with a token where there is one; else PLAIN (RFC 4616) before LOGIN."""
    offered = dialogue.esmtp_features.get("auth", "").upper().split()
    if endpoint.token is not None:
        _show_token(dialogue, endpoint, offered)
        return
    if "PLAIN" in offered:
        secret = f"\0{endpoint.username}\0{endpoint.password}"
        answer = dialogue.docmd("AUTH", f"PLAIN {_base64(secret.encode())}")
    elif "LOGIN" in offered:
        answer = dialogue.docmd("AUTH", "LOGIN")
        for secret in (endpoint.username, endpoint.password):
            if answer[0] == 334:
                answer = dialogue.docmd(_base64(secret.encode()))
    else:
        reason = "The SMTP server offers no login with a password here (AUTH PLAIN or LOGIN). Check port and security."
        raise RemoteFault("smtp", "login_refused", reason)
    if answer[0] != 235:
        raise _login_fault(answer, endpoint.host)


def _show_token(dialogue: Dialogue, endpoint: Endpoint, offered: list[str]) -> None:
    """Never a password beside it, whatever the server offers."""
    bearer = Bearer(endpoint, offered, "smtp")
    token = _base64(bearer.next_response() or b"")
    command = f"{bearer.mechanism} {token}"
    if len(command) <= _LONGEST_COMMAND:
        answer = dialogue.docmd("AUTH", command)
    else:
        answer = dialogue.docmd("AUTH", bearer.mechanism)
        if answer[0] == 334:
            answer = dialogue.docmd(token)
    while answer[0] == 334:
        said = bearer.next_response(_unbase64(answer[1]))
        answer = dialogue.docmd("*" if said is None else _base64(said))
    if answer[0] != 235:
        is_final = answer[0] >= 500
        raise (
            bearer.fault_of_refusal(_text_of(answer), reply_of(*answer))
            if is_final
            else _login_fault(answer, endpoint.host)
        )


def _login_fault(answer: tuple[int, bytes], host: str) -> RemoteFault:
    reply = reply_of(*answer)
    if reply.code < 400:
        return malformed("smtp")
    known = replies.fault_of("smtp", _text_of(answer), host=host, reply=reply)
    is_for_now = reply.is_temporary and reply.code != 432  # RFC 4954 4.7.12: it takes no more than another password
    if known is not None and not (is_for_now and known.kind == "login_refused"):
        return known
    if reply.is_temporary:  # 454 4.7.0 is no more than that (RFC 4954 6); who logs in too often is told so in words
        return RemoteFault("smtp", "refused", "The SMTP server cannot check logins now. Try again later.", reply)
    return fault("wrong_password", "smtp", reply)


def _text_of(answer: tuple[int, bytes]) -> str:
    return f"{answer[0]} {answer[1].decode('utf-8', 'replace')}"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _unbase64(text: bytes) -> bytes:
    """What a challenge says; nothing where it is none."""
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""
