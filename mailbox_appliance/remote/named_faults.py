"""The faults that we know by name: what each means for us, and a sentence with its fix, for a person.

A sentence names its server with `{server}`, and what this computer takes for today with `{today}`.
"""

import errno
import socket
from dataclasses import dataclass
from datetime import UTC, datetime

from mailbox_appliance.remote.faults import SERVER_NAMES, FaultKind, RemoteFault, Reply, ServerName, disconnected


@dataclass(frozen=True)
class NamedFault:
    """What a fault means for us, and what a person may do about it."""

    kind: FaultKind
    reason: str


FAULTS: dict[str, NamedFault] = {
    # --- who one is ---
    "wrong_password": NamedFault(
        "login_refused",
        "The {server} server refused user name or password. Check both; the user name is mostly the whole address."
        " Some providers want an app password.",
    ),
    "app_password_required": NamedFault(
        "login_refused",
        "The provider wants an app password here instead of one's own. Make one on its web site, under security, and"
        " use that; or, at Google, connect the mailbox by signing in with Google.",
    ),
    "web_login_required": NamedFault(
        "login_refused",
        "The provider distrusts this login. Sign in on its web site, confirm that it was you, and try again.",
    ),
    "basic_auth_disabled": NamedFault(
        "login_refused",
        "The provider takes no passwords from programs any more. Connect the mailbox by the provider's sign-in.",
    ),
    "smtp_auth_disabled": NamedFault(
        "login_refused",
        "The provider has turned off sending by SMTP (SMTP AUTH) for this mailbox. Connect it by the sign-in of"
        " Outlook, which sends in another way, or have an administrator turn SMTP AUTH on.",
    ),
    "imap_access_off": NamedFault(
        "login_refused",
        "IMAP is off for this mailbox, or the password is wrong. Turn IMAP on in the settings on the provider's web"
        " site, and try again.",
    ),
    "imap_disabled": NamedFault(
        "login_refused", "The provider's plan or administrator has IMAP off for this mailbox. Ask them to turn it on."
    ),
    "account_locked": NamedFault(
        "login_refused",
        "The provider has locked or suspended this account. Sign in on its web site to see why, or ask its support.",
    ),
    "password_expired": NamedFault(
        "login_refused", "The password has expired. Set a new one at the provider, and use that."
    ),
    "blocked_by_policy": NamedFault(
        "login_refused",
        "A policy of the organisation forbids this login, by place, device or program. Ask its administrator.",
    ),
    "token_refused": NamedFault(
        "login_refused", "The {server} server no longer takes the access that was given. Sign in again."
    ),
    # --- what one has agreed to ---
    "access_revoked": NamedFault(
        "login_refused",
        "The access was taken back: by its owner, an administrator, or by a new password. Sign in again.",
    ),
    "access_expired": NamedFault("login_refused", "The access has expired. Sign in again."),
    "sign_in_again": NamedFault("login_refused", "The provider wants to see its user again. Sign in again."),
    "consent_required": NamedFault(
        "login_refused",
        "The access does not include what is needed. Sign in again, and tick every box that asks for mail.",
    ),
    "consent_declined": NamedFault("login_refused", "The access was declined. Sign in again, and agree to it."),
    "admin_consent_required": NamedFault(
        "login_refused",
        "The organisation lets only its administrator agree to this access. Ask them to approve the application, then"
        " sign in again.",
    ),
    "oauth_app_refused": NamedFault(
        "refused",
        "The provider refuses the OAuth application of this appliance. Its administrator must check client id, client"
        " secret (whether it has one, and whether that has expired) and redirect address.",
    ),
    # --- the way there ---
    "certificate_name": NamedFault(
        "tls",
        "The certificate of the {server} server is for another name. Use the host name that the certificate has.",
    ),
    "certificate_untrusted": NamedFault(
        "tls",
        "The certificate of the {server} server is not from a trusted authority. If it is from your own, name its file"
        " in the setting remote.ca_file.",
    ),
    "certificate_expired": NamedFault(
        "tls",
        "The certificate of the {server} server has expired. Its operator must renew it, unless this computer's clock"
        " is wrong, which takes today for {today}.",
    ),
    "certificate_not_yet_valid": NamedFault(
        "tls",
        "The certificate of the {server} server is not valid yet. Check this computer's clock, which takes today for"
        " {today}.",
    ),
    "clock_skew": NamedFault(
        "tls", "The clock of this computer is wrong: it takes today for {today}. Set it, and try again."
    ),
    "tls_too_old": NamedFault(
        "tls", "The {server} server offers no TLS of version 1.2 or newer. Its operator must update it."
    ),
    "tls_required": NamedFault(
        "login_refused", "The {server} server wants TLS for this. Use security `tls` or `starttls`."
    ),
    "wrong_port": NamedFault(
        "tls", "No TLS with the {server} server. Check the port, and whether it wants `tls` or `starttls`."
    ),
    "connection_refused": NamedFault(
        "unreachable", "The {server} server does not accept connections on this port. Check host and port."
    ),
    "port_blocked": NamedFault(
        "timeout",
        "The {server} server did not answer in time: nothing came back from this port. A firewall or the provider of"
        " this network may block it. Check host and port; some networks let only 465, 587 and 993 through.",
    ),
    "firewall": NamedFault(
        "unreachable", "A firewall forbids this connection to the {server} server. Ask whoever runs this network."
    ),
    "network_down": NamedFault(
        "unreachable", "There is no way from this computer to the {server} server. Check its network."
    ),
    "host_unknown": NamedFault("unreachable", "The {server} server could not be found. Check the host name."),
    "dns_down": NamedFault(
        "unreachable",
        "The {server} server could not be found: this computer's DNS gives no answer. Check its network.",
    ),
    # --- what it may do ---
    "sender_not_allowed": NamedFault(
        "refused",
        "The provider does not let this mailbox send as this address. Use its own, or have the other one added there.",
    ),
    "sending_blocked": NamedFault(
        "refused", "The provider has blocked this mailbox from sending. See its web site, or ask its support."
    ),
    "sending_limit": NamedFault(
        "refused", "The provider's limit of messages or recipients in a time is reached. Wait, a day at most."
    ),
    "quota_exceeded": NamedFault("refused", "The mailbox is full. Delete mail, or get more room from the provider."),
    "mailbox_missing": NamedFault(
        "refused",
        "The login was taken, but there is no mailbox behind it that may be reached so. Check the address, that the"
        " mailbox has a licence and IMAP turned on, and who may open it where it is shared.",
    ),
    "all_mail_hidden": NamedFault(
        "refused",
        "The folder All Mail is hidden from IMAP. Turn on `Show in IMAP` for it in Gmail's settings, under Labels.",
    ),
    # --- for now ---
    "too_many_connections": NamedFault(
        "throttled",
        "Too many programs are connected to this mailbox. Close some, or wait a few minutes.",
    ),
    "too_many_logins": NamedFault("throttled", "The {server} server takes no logins now, after too many. Try later."),
    "rate_limited": NamedFault(
        "throttled", "The provider limits how much this mailbox may be asked, for a while. Try again later."
    ),
    "server_down": NamedFault("refused", "Something behind the {server} server is down. Try again later."),
}


def fault(name: str, server: ServerName, reply: Reply | None = None) -> RemoteFault:
    """The fault of this name at that server."""
    known = FAULTS[name]
    reason = known.reason.format(server=SERVER_NAMES[server], today=f"{datetime.now(UTC):%Y-%m-%d}")
    made = RemoteFault(server, known.kind, reason, reply)
    made.name = name
    return made


_NO_WAY = frozenset({errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


def socket_fault(server: ServerName, error: OSError) -> RemoteFault:
    """What it means that no connection was to be had."""
    if isinstance(error, TimeoutError):
        return fault("port_blocked", server)
    if isinstance(error, ConnectionResetError):  # accepted, then thrown out: it depends on the moment where that shows
        return disconnected(server)
    if error.errno in _NO_WAY:
        return fault("network_down", server)
    return fault("firewall" if error.errno in _FORBIDDEN else "connection_refused", server)


def lookup_fault(server: ServerName, error: Exception) -> RemoteFault:
    """What it means that a name has no address."""
    is_silent = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
    return fault("dns_down" if is_silent else "host_unknown", server)
