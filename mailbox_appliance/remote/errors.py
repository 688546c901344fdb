"""Errors of external servers: the exception RemoteFault, a table of known causes (FAULTS), and the rules that find the
cause in a server's reply.

For a server in a private network the exact cause can be hidden, so that members cannot scan that network. It is hidden
if no mail server has answered; `Contact` records whether one has.
"""

import errno
import logging
import math
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, cast

from msgspec import UNSET

from mailbox_appliance.model.accounts import AccountError

ServerName = Literal["imap", "smtp", "license", "oauth", "graph", "autoconfig", "dns", "webhook"]
FaultKind = Literal[
    "unreachable",
    "tls",
    "timeout",
    "disconnected",
    "login_refused",
    "refused",
    "throttled",
    "forbidden_address",
    "malformed",
    "unsupported",
]


@dataclass(frozen=True)
class Reply:
    """An SMTP reply (RFC 5321 4.2): its code and its enhanced status code (RFC 3463). Its free text is not kept.

    `name`: the name of the fault that the text stands for, such as `rate_limited`; None if unknown
    (`fault_name_of_reply`).
    """

    code: int
    enhanced: str | None = None
    name: str | None = field(default=None, compare=False)

    @property
    def is_temporary(self) -> bool:
        """Whether the same command may succeed later (codes 400 to 499)."""
        return 400 <= self.code < 500


class RemoteFault(Exception):
    """An external server failed, refused or could not be contacted.

    - server, kind: which server, and what kind of failure.
    - reason: a sentence for people, with the fix if one is known. It contains no text of the server.
    - reply: the reply, if it was an SMTP server that replied.
    - name: the exact fault, such as `app_password_required`; None if unknown.
    - code: the response code of an IMAP server (RFC 5530), in upper case.
    - in_doubt: the request may have been carried out, completely or partly.
    - retry_after: the seconds to wait, if the server reports them.
    - is_unproven: the address is on this computer or in a private network, and no mail server has answered there.
    """

    def __init__(self, server: ServerName, kind: FaultKind, reason: str, reply: Reply | None = None) -> None:
        super().__init__(f"{server}: {kind}")  # The facts that a log may contain: no host, no address, no server text.
        self.server = server
        self.kind = kind
        self.reason = reason
        self.reply = reply
        self.in_doubt = False
        self.name: str | None = None
        self.code: str | None = None
        self.retry_after: float | None = None
        self.is_unproven = False

    def copy(self) -> "RemoteFault":
        """Return an equal fault, so that another thread can raise it and change its fields."""
        made = RemoteFault(self.server, self.kind, self.reason, self.reply)
        made.__dict__.update(self.__dict__)
        return made


class Unmovable(RemoteFault):
    """A message cannot be removed from its folder without also removing others.

    The server offers neither MOVE (RFC 6851) nor UIDPLUS (RFC 4315), and a client has marked other messages in the
    folder as deleted. A plain EXPUNGE would remove these as well.
    """

    def __init__(self) -> None:
        reason = (
            "The IMAP server cannot remove single messages, and other messages in the folder are marked as"
            " deleted. Expunge them in the mail client that marked them, then try again."
        )
        super().__init__("imap", "unsupported", reason)


SERVER_NAMES: dict[ServerName, str] = {
    "imap": "IMAP",
    "smtp": "SMTP",
    "license": "licence",
    "oauth": "sign-in",
    "graph": "Microsoft Graph",
    "autoconfig": "autoconfig",
    "dns": "DNS",
    "webhook": "webhook's",
}


def timeout_fault(server: ServerName) -> RemoteFault:
    """Return the fault for a server that was silent or too slow."""
    return RemoteFault(server, "timeout", f"The {SERVER_NAMES[server]} server did not answer in time.")


def disconnected_fault(server: ServerName) -> RemoteFault:
    """Return the fault for a connection that ended before the response was complete."""
    return RemoteFault(server, "disconnected", f"The {SERVER_NAMES[server]} server closed the connection.")


def stopping_fault(server: ServerName) -> RemoteFault:
    """Return the fault for a call that was abandoned because the appliance is stopping."""
    reason = f"The appliance is being stopped, so the {SERVER_NAMES[server]} server was not waited for. Repeat it soon."
    return RemoteFault(server, "disconnected", reason)


def malformed_fault(server: ServerName) -> RemoteFault:
    """Return the fault for a response that breaks the protocol or is longer than allowed."""
    if server in ("oauth", "graph"):  # no user has entered this host
        return RemoteFault(server, "malformed", "The provider returned an invalid response. Try again later.")
    name = SERVER_NAMES[server]
    return RemoteFault(server, "malformed", f"The response does not follow {name}. Check that host and port are right.")


# --- Named faults: the meaning of each, and a sentence with its fix for people ---
#
# A sentence names its server as `{server}`, and today's date on this computer as `{today}`.


@dataclass(frozen=True)
class NamedFault:
    """The kind of a fault in FAULTS, and a sentence for people with its cause and the fix."""

    kind: FaultKind
    reason: str


FAULTS: dict[str, NamedFault] = {
    # --- credentials ---
    "wrong_password": NamedFault(
        "login_refused",
        "The {server} server refused the user name or password. Check both; the user name is usually the full"
        " address. Some providers require an app password.",
    ),
    "app_password_required": NamedFault(
        "login_refused",
        "The provider requires an app password instead of your own. Create one on its website, under security."
        " For Google, you can connect the mailbox by signing in with Google instead.",
    ),
    "web_login_required": NamedFault(
        "login_refused",
        "The provider blocked this sign-in as suspicious. Sign in on its website, confirm that it was you, then"
        " try again.",
    ),
    "basic_auth_disabled": NamedFault(
        "login_refused",
        "The provider no longer accepts passwords from mail clients. Connect the mailbox with the provider's sign-in.",
    ),
    "smtp_auth_disabled": NamedFault(
        "login_refused",
        "The provider has turned off sending over SMTP (SMTP AUTH) for this mailbox. Connect it with the Outlook"
        " sign-in, which sends in another way, or ask an administrator to turn SMTP AUTH on.",
    ),
    "imap_access_off": NamedFault(
        "login_refused",
        "IMAP is off for this mailbox, or the password is wrong. Turn IMAP on in the settings on the provider's"
        " website, then try again.",
    ),
    "imap_disabled": NamedFault(
        "login_refused",
        ("The provider's plan or administrator has turned IMAP off for this mailbox. Ask them to turn it on."),
    ),
    "account_locked": NamedFault(
        "login_refused",
        "The provider has locked or suspended this account. Sign in on its website to see why, or contact its support.",
    ),
    "password_expired": NamedFault(
        "login_refused", "The password has expired. Set a new one at the provider and use it here."
    ),
    "blocked_by_policy": NamedFault(
        "login_refused",
        "A policy of the organization forbids this sign-in because of its location, device or program. Ask its"
        " administrator.",
    ),
    "token_refused": NamedFault(
        "login_refused", "The {server} server no longer accepts the access you granted. Sign in again."
    ),
    # --- consent ---
    "access_revoked": NamedFault(
        "login_refused",
        "The access was revoked by its owner, by an administrator or by a new password. Sign in again.",
    ),
    "access_expired": NamedFault("login_refused", "The access has expired. Sign in again."),
    "sign_in_again": NamedFault("login_refused", "The provider requires a new sign-in. Sign in again."),
    "consent_required": NamedFault(
        "login_refused",
        "The granted access does not include mail. Sign in again and select every box about mail.",
    ),
    "consent_declined": NamedFault("login_refused", "The access was declined. Sign in again and allow it."),
    "admin_consent_required": NamedFault(
        "login_refused",
        "Only an administrator of the organization can grant this access. Ask them to approve the application,"
        " then sign in again.",
    ),
    "oauth_app_refused": NamedFault(
        "refused",
        "The provider refused the OAuth app of this appliance. An administrator of the appliance must check its"
        " client ID, its client secret (which may be missing or expired) and its redirect URL.",
    ),
    # --- connection ---
    "certificate_name": NamedFault(
        "tls",
        "The certificate of the {server} server is for another name. Use the host name in the certificate.",
    ),
    "certificate_untrusted": NamedFault(
        "tls",
        "The certificate of the {server} server is not from a trusted CA. For a private CA, name its file in the"
        " setting remote.ca_file.",
    ),
    "certificate_expired": NamedFault(
        "tls",
        "The certificate of the {server} server has expired. Its operator must renew it, unless this computer's"
        " clock is wrong (it shows {today}).",
    ),
    "certificate_not_yet_valid": NamedFault(
        "tls",
        "The certificate of the {server} server is not valid yet. Check this computer's clock (it shows {today}).",
    ),
    "clock_skew": NamedFault("tls", "This computer's clock is wrong (it shows {today}). Set it, then try again."),
    "tls_too_old": NamedFault(
        "tls", "The {server} server does not support TLS 1.2 or newer. Its operator must update it."
    ),
    "tls_required": NamedFault("login_refused", "The {server} server requires TLS. Use security `tls` or `starttls`."),
    "wrong_port": NamedFault(
        "tls", "TLS with the {server} server failed. Check the port, and whether it uses `tls` or `starttls`."
    ),
    "connection_refused": NamedFault(
        "unreachable", "The {server} server does not accept connections on this port. Check host and port."
    ),
    "port_blocked": NamedFault(
        "timeout",
        "The {server} server did not answer in time on this port. A firewall or the network provider may block"
        " it. Check host and port; some networks allow only 465, 587 and 993.",
    ),
    "firewall": NamedFault(
        "unreachable",
        ("A firewall blocks this connection to the {server} server. Ask the administrator of this network."),
    ),
    "network_down": NamedFault("unreachable", "This computer has no route to the {server} server. Check its network."),
    "host_unknown": NamedFault("unreachable", "The {server} server could not be found. Check the host name."),
    "dns_down": NamedFault(
        "unreachable",
        "The {server} server could not be found: DNS on this computer does not answer. Check its network.",
    ),
    # --- permissions ---
    "sender_not_allowed": NamedFault(
        "refused",
        "The provider does not allow this mailbox to send from this address. Use the mailbox's own address, or"
        " add the other one at the provider.",
    ),
    "sending_blocked": NamedFault(
        "refused", "The provider has blocked this mailbox from sending. Check its website or contact its support."
    ),
    "sending_limit": NamedFault(
        "refused",
        ("The provider's limit for messages or recipients per period is reached. Wait; this takes a day at most."),
    ),
    "quota_exceeded": NamedFault(
        "refused", ("The mailbox is full. Delete mail, or get more storage from the provider.")
    ),
    "mailbox_missing": NamedFault(
        "refused",
        "Sign-in succeeded, but this account has no mailbox available over IMAP. Check the address, that the"
        " mailbox has a license and IMAP is on, and for a shared mailbox who has access.",
    ),
    "all_mail_hidden": NamedFault(
        "refused",
        "The folder All Mail is hidden from IMAP. Turn on `Show in IMAP` for it in Gmail's settings, under Labels.",
    ),
    # --- temporary ---
    "too_many_connections": NamedFault(
        "throttled",
        "Too many mail clients are connected to this mailbox. Close some, or wait a few minutes.",
    ),
    "too_many_logins": NamedFault(
        "throttled", ("The {server} server accepts no sign-ins for now, after too many attempts. Try again later.")
    ),
    "rate_limited": NamedFault(
        "throttled", "The provider limits the requests for this mailbox for now. Try again later."
    ),
    "server_down": NamedFault("refused", "A system behind the {server} server is down. Try again later."),
}


def named_fault(name: str, server: ServerName, reply: Reply | None = None) -> RemoteFault:
    """Return a new fault from the table FAULTS, for this server."""
    known = FAULTS[name]
    reason = known.reason.format(server=SERVER_NAMES[server], today=f"{datetime.now(UTC):%Y-%m-%d}")
    made = RemoteFault(server, known.kind, reason, reply)
    made.name = name
    return made


_NO_ROUTE_ERRNOS = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
)
_FORBIDDEN_ERRNOS = frozenset({errno.EACCES, errno.EPERM})


def socket_fault(server: ServerName, error: OSError) -> RemoteFault:
    """Return the fault for a connection that could not be opened."""
    if isinstance(error, TimeoutError):
        return named_fault("port_blocked", server)
    if isinstance(error, ConnectionResetError):  # Signed in, then disconnected: when this shows depends on timing.
        return disconnected_fault(server)
    if error.errno in _NO_ROUTE_ERRNOS:
        return named_fault("network_down", server)
    return named_fault("firewall" if error.errno in _FORBIDDEN_ERRNOS else "connection_refused", server)


def lookup_fault(server: ServerName, error: Exception) -> RemoteFault:
    """Return the fault for a host name for which no IP address was found."""
    is_silent = isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN
    return named_fault("dns_down" if is_silent else "host_unknown", server)


# --- Replies of real servers: which refusal is which fault. One table, read from the top; the first row counts ---
#
# The free text of a reply is matched here, where the fault is created, and is never kept, logged or quoted. A reply
# without a matching row keeps the meaning of its code.
#
# Where the texts are from:
#     Google ....... support.google.com/mail/answer/7126229, support.google.com/a/answer/3726730 (SMTP errors),
#                    developers.google.com/identity/protocols/oauth2 (refresh token expiration)
#     Microsoft .... learn.microsoft.com/exchange (authenticated-client-smtp-submission,
#                    deprecation-of-basic-authentication-exchange-online), learn.microsoft.com/graph/errors,
#                    learn.microsoft.com/entra/identity-platform/reference-error-codes (AADSTS...)
#     Dovecot ...... src/login-common, src/imap-login, src/lib-imap; Postfix: smtpd_sasl_glue.c, access(5)
#     others ....... as their users report them; `tests/remote/replies.txt` has each whole, with its source


#: Characters of a reply that are matched.
_MOST_REPLY_CHARACTERS = 2000
#: Providers that require an app password, and only report that a password is wrong.
_APP_PASSWORD_HOSTS = (
    "gmail.com",
    "googlemail.com",
    "yahoo.com",
    "aol.com",
    "me.com",
    "fastmail.com",
    "messagingengine.com",
)
#: Providers that accept no passwords over IMAP, and only report that the sign-in failed.
_MICROSOFT_HOSTS = ("office365.com", "outlook.com")

ReplySource = Literal["imap", "smtp", "oauth", "graph"]


#: AADSTS numbers of Microsoft's sign-in: the text beside them changes and is translated.
_SIGN_IN_CODES: dict[str, tuple[int, ...]] = {
    "access_expired": (70008, 70019, 70020, 70043, 700081, 700082, 700084),
    "access_revoked": (50132, 50133, 50173, 54005, 70000),
    "account_locked": (50053, 50057),
    "admin_consent_required": (90093, 90094, 90095, 900941, 650052),
    "blocked_by_policy": (50097, 50105, 53000, 53001, 53002, 53003, 53004, 53011, 500121, 530003, 530034),
    "clock_skew": (500133, 700024),
    "consent_declined": (65004,),
    "consent_required": (65001, 70011),
    "oauth_app_refused": (
        *(50011, 50194, 65005, 70001, 70002, 70003, 90002, 500011, 500113, 650053, 700011, 700016, 700025),
        *(7000112, 7000215, 7000218, 7000222, 9002325, 9002326, 9002327),
    ),
    "password_expired": (50055, 50144),
    "server_down": (50000, 70012, 90006, 90012, 90024, 90033),
    "rate_limited": (50196,),
    "sign_in_again": (16000, 50058, 50072, 50074, 50076, 50078, 50079, 50158, 9002341),
}
_BY_NUMBER = {number: name for name, numbers in _SIGN_IN_CODES.items() for number in numbers}
_SIGN_IN_NUMBER = re.compile(r"\baadsts(\d{4,8})\b")


@dataclass(frozen=True)
class _ReplyRule:
    """A rule that finds the fault for a reply by its text in lower case.

    - name: the fault.
    - later: the rule also applies to replies after the sign-in.
    - hosts: if not empty, the rule applies only to servers below these domains.
    """

    name: str
    servers: tuple[ReplySource, ...]
    texts: re.Pattern[str]
    later: bool = False
    hosts: tuple[str, ...] = ()


def _rule(name: str, servers: str, *texts: str, later: bool = False, hosts: tuple[str, ...] = ()) -> _ReplyRule:
    """Return a rule for replies. `servers`: names, with spaces. `texts`: regular expressions, one must match.

    `later`: the rule also applies after the sign-in. `hosts`: only servers below these domains.
    """
    return _ReplyRule(
        name, cast("tuple[ReplySource, ...]", tuple(servers.split())), re.compile("|".join(texts)), later, hosts
    )


_REPLY_RULES = (
    # --- names of RFC 6749 4.1.2.1 and 5.2, and Google's own ---
    _rule("sign_in_again", "oauth", r"invalid_rapt|rapt_required", r"\b(login|interaction)_required\b"),
    _rule("admin_consent_required", "oauth", r"admin_policy_enforced|org_internal"),
    _rule("clock_skew", "oauth", r"must be a short-lived token"),
    _rule("oauth_app_refused", "oauth", r"\b(invalid|unauthorized|deleted|disabled)_client\b",
         r"\bredirect_uri_mismatch\b", r"\bunsupported_(grant|response)_type\b",
         r"\bclient_secret is missing\b"),
    _rule("consent_required", "oauth", r"\b(invalid|insufficient)_scope\b", r"\bconsent_required\b"),
    _rule("consent_declined", "oauth", r"\baccess_denied\b|\bauthorization_declined\b"),
    _rule("rate_limited", "oauth", r"\brate_?limit_?exceeded\b", r"\bslow_down\b"),
    _rule("server_down", "oauth", r"\btemporarily_unavailable\b", r"\bserver_error\b", r"\binternal_failure\b"),
    _rule("account_locked", "oauth",
         r"invalid_grant.*(account has been (deleted|disabled)|user is (disabled|suspended))"),
    _rule("access_expired", "oauth", r"\bexpired_token\b"),  # RFC 8628 3.5
    _rule("access_revoked", "oauth", r"\binvalid_grant\b"),
    # --- Microsoft's mail servers ---
    _rule("blocked_by_policy", "smtp",
         r"5\.7\.139 .*(security defaults|locked by your organi|did not meet the criteria)"),
    _rule("basic_auth_disabled", "smtp imap", r"basic authentication is (disabled|not supported)", r"basicauthblocked"),
    _rule("smtp_auth_disabled", "smtp", r"\b5\.7\.139\b", r"smtpclientauthentication is disabled"),
    _rule("mailbox_missing", "imap", r"user is authenticated but not connected", later=True),
    _rule("rate_limited", "imap", r"request is throttled", r"suggested backoff time", later=True),
    _rule("too_many_connections", "smtp", r"\b432 4\.3\.2 ", r"concurrent connections limit exceeded", later=True),
    _rule("rate_limited", "smtp", r"\b4\.7\.(28|500)\b", r"submission (quota|rate)", later=True),
    _rule("basic_auth_disabled", "imap", r"^(no )?(login|authenticate) failed\.$", hosts=_MICROSOFT_HOSTS),
    # --- Google's mail servers ---
    _rule("app_password_required", "imap smtp", r"application-specific password required", r"invalidsecondfactor"),
    _rule("web_login_required", "imap smtp", r"\[webalert\b|web login required|webloginrequired",
         r"log in (via|with|through) your web browser", r"\b53[45] ?-?5\.7\.14\b"),
    _rule("imap_disabled", "imap", r"imap access is disabled for your domain", r"administrator to enable imap",
         r"imap (access )?is (not (available|included|allowed)|disabled) (for|in|on) (your|this) (plan|domain|organi)"),
    _rule("imap_access_off", "imap smtp", r"not enabled for imap", r"imap is (currently )?(disabled|off|not enabled)",
         r"yet to enable imap", r"service is not open", r"does not have access rights to this service"),
    _rule("rate_limited", "imap", r"exceeded command or bandwidth limits", later=True),
    _rule("sending_limit", "smtp", r"\b5\.4\.5 .*(limit|quota)", r"(daily|hourly) (user )?sending (limit|quota)",
         r"exceeded .*(daily|hourly|sending|recipient|message) (limit|quota)", r"\b5\.1\.90\b", later=True),
    # --- common texts ---
    _rule("tls_required", "imap smtp", r"\[privacyrequired\]", r"(plaintext|cleartext) authentication (is )?disallowed",
         r"must issue a starttls", r"starttls (is )?required", r"\b538 5\.7\.11\b|encryption required"),
    _rule("too_many_connections", "imap smtp",
         r"too many ((simultaneous|concurrent|open) )?((imap|smtp) )?(connections|sessions)",
         r"maximum number of (concurrent )?(connections|sessions)", later=True),
    _rule("too_many_logins", "imap smtp",
         r"too many ((bad|failed|invalid|unsuccessful) )?((imap|smtp) )?(login|auth\w*)( \w+)? ?(attempts|failures)?"),
    _rule("rate_limited", "imap smtp", r"rate limit", r"\[(limit|throttled)\]", later=True),
    _rule("quota_exceeded", "imap", r"\[overquota\]", r"\bquota exceeded", r"mailbox is full|over quota", later=True),
    _rule("account_locked", "imap smtp", r"\[contactadmin\]", r"account is abnormal",
         r"account (is|has been|was) ((temporarily|currently) )?(locked|suspended|disabled|blocked|inactive)",
         r"access to your account has been (temporarily )?restricted"),
    _rule("password_expired", "imap smtp", r"\[expired\]", r"password (has|is) expired", r"\b432 4\.7\.12\b"),
    _rule("web_login_required", "imap", r"unsafe login", later=True),
    _rule("app_password_required", "imap smtp", r"\bapp(lication)?[- ](specific )?password", r"authori[sz]ation code"),
    _rule("basic_auth_disabled", "imap smtp",
         r"(password|plain|basic) (login|authentication) is (disabled|not allowed)"),
    _rule("server_down", "imap smtp", r"\[(unavailable|serverbug)\]", r"server unavailable", r"backend error",
         r"temporary (system|authentication|server|internal) (problem|failure|error)", r"internal (server )?error",
         r"service (temporarily )?(not available|unavailable)", r"\b4\.3\.[0-2]\b", r"shutting down", later=True),
    _rule("token_refused", "imap smtp", r'"status" ?: ?"40[0-3]"', r"\binvalid_token\b"),
    _rule("app_password_required", "imap smtp", r"invalid credentials", r"authentication ?failed", r"\b535\b",
         r"incorrect username or password", hosts=_APP_PASSWORD_HOSTS),
    _rule("wrong_password", "imap smtp", r"\[authenticationfailed\]", r"^535\b",
         r"invalid (credentials|login|user\w*|password)", r"authentication (failed|unsuccessful|failure)",
         r"(incorrect|wrong|bad) (user\w*|login|password|credentials)", r"(login|logon|authenticate) (failed|failure)",
         r"(login|password) (is )?(incorrect|wrong|error)"),
    # --- limits of what a mailbox may send ---
    _rule("sender_not_allowed", "smtp", r"sendasdenied", r"\b5\.(7\.60|2\.252)\b", r"not owned by (auth )?user",
         r"not allowed to send (as|from)", r"sender address (is )?not allowed", r"mail from not allowed", later=True),
    _rule("sending_blocked", "smtp", r"bad outbound sender", r"\b5\.7\.(705|708|750)\b", later=True),
    # --- codes of Microsoft Graph, matched before its status ---
    _rule("token_refused", "graph", r"invalidauthenticationtoken|unauthenticated|invalidmsatoken"),
    _rule("sender_not_allowed", "graph", r"errorsendasdenied"),
    _rule("sending_blocked", "graph", r"errormessagesubmissionblocked"),
    _rule("sending_limit", "graph", r"errorexceededmessagelimit|submissionquotaexceeded"),
    _rule("quota_exceeded", "graph", r"errorquotaexceeded"),
    _rule("mailbox_missing", "graph", r"mailboxnotenabledforrestapi|mailboxnotsupportedforrestapi",
         r"mailboxnothostedinexchangeonline", r"errornonexistentmailbox", r"errorinvaliduser"),
    _rule("blocked_by_policy", "graph", r"accessrestricted|conditionalaccess|erroraccountsuspend"),
    _rule("rate_limited", "graph", r"applicationthrottled|toomanyrequests|mailboxconcurrency|activitylimitreached"),
    _rule("server_down", "graph", r"servicenotavailable|serviceunavailable|errormailboxstoreunavailable",
         r"errorserverbusy|errorinternalservertransienterror|errormailboxmoveinprogress"),
    _rule("consent_required", "graph", r"erroraccessdenied|authorization_requestdenied"),
    _rule("token_refused", "graph", r"^401\b"),
    _rule("consent_required", "graph", r"^403\b"),
    _rule("rate_limited", "graph", r"^429\b"),
    _rule("server_down", "graph", r"^5\d\d\b"),
)  # fmt: skip


#: The name for a refused password if only a token was used.
_NAMES_BY_TOKEN = {
    "wrong_password": "token_refused",
    "app_password_required": "token_refused",
    "basic_auth_disabled": "token_refused",
}


def fault_name_of_reply(
    server: ServerName, text: str, *, host: str = "", later: bool = False, by_token: bool = False
) -> str | None:
    """Return the name of the fault that a reply's text stands for; None if no rule matches.

    - text: the whole reply, including its code.
    - host: the server's host name, since some rules apply only to certain providers.
    - later: the reply came after the sign-in.
    - by_token: the sign-in used an access token (XOAUTH2, OAUTHBEARER), so the fault must not mention a password.
    """
    said = " ".join(text[:_MOST_REPLY_CHARACTERS].lower().split())
    if server == "oauth" and (number := _SIGN_IN_NUMBER.search(said)) and int(number[1]) in _BY_NUMBER:
        return _BY_NUMBER[int(number[1])]
    row = next(
        (row for row in _REPLY_RULES if _rule_applies(row, server, host, later) and row.texts.search(said)), None
    )
    if row is None:
        return None
    if by_token and server == "smtp" and "5.7.139" in said and row.name == "basic_auth_disabled":
        return "smtp_auth_disabled"
    return _NAMES_BY_TOKEN.get(row.name, row.name) if by_token else row.name


def fault_of_reply(
    server: ServerName,
    text: str,
    *,
    host: str = "",
    later: bool = False,
    by_token: bool = False,
    reply: Reply | None = None,
) -> RemoteFault | None:
    """Return the fault that a reply's text stands for; None if no rule matches. It contains no text of the reply.

    - text: the whole reply, including its code.
    - host: the server's host name, since some rules apply only to certain providers.
    - later: the reply came after the sign-in.
    - by_token: the sign-in used an access token (XOAUTH2, OAUTHBEARER), so the fault must not mention a password.
    - reply: the parsed SMTP reply, to attach to the fault.
    """
    name = fault_name_of_reply(server, text, host=host, later=later, by_token=by_token)
    return None if name is None else named_fault(name, server, reply)


def _rule_applies(row: _ReplyRule, server: ServerName, host: str, later: bool) -> bool:
    place = f".{host.rstrip('.').lower()}"
    is_there = not row.hosts or any(place.endswith(f".{each}") for each in row.hosts)
    return server in row.servers and is_there and (row.later or not later)


# --- The error of a mailbox whose server, or provider, failed ---


#: The code of an account's error; every other kind is `provider_unavailable`.
_ACCOUNT_ERROR_CODES: dict[FaultKind, str] = {
    "login_refused": "authentication_failed",
    "throttled": "provider_rate_limited",
}


def account_error_of(fault: RemoteFault) -> AccountError:
    """Return the error to store for a mailbox whose server failed: code, sentence for people, fault's name."""
    code = _ACCOUNT_ERROR_CODES.get(fault.kind, "provider_unavailable")
    return AccountError(code=code, message=fault.reason, fault=fault.name or UNSET)


# --- How far a connection got ---
#
# For addresses near the appliance (this computer, private networks), distinguishing a closed, a silent and an open port
# would let members use the appliance as a port scanner, in networks that they have no access to.


log = logging.getLogger(__name__)


@dataclass
class Contact:
    """Records how far one attempt to connect got. The code that connects fills it in.

    A "near" server is on this computer or in a network that is not public.

    - greet_by: the time (`time.monotonic`) by which a near server must have answered as a mail server.
    - is_near: whether the server is near.
    - has_greeted: whether it has answered as a mail server (IMAP: a greeting; SMTP: a greeting and a reply to EHLO).
    """

    greet_by: float = math.inf
    is_near: bool = False
    has_greeted: bool = False

    @property
    def is_unproven(self) -> bool:
        """Whether the server is near and has not answered as a mail server yet, so that a fault would reveal its port.

        A near server is on this computer or in a network that is not public.
        """
        return self.is_near and not self.has_greeted

    @property
    def deadline(self) -> float:
        """The time (`time.monotonic`) at which the attempt to connect fails.

        It is `greet_by` until the server has shown that it is a mail server; afterwards there is no limit (infinity).
        """
        return self.greet_by if self.is_unproven else math.inf


@contextmanager
def marking_faults(contact: Contact) -> Iterator[Contact]:
    """Context manager: a RemoteFault from the block gets `is_unproven` of `contact`. Yields `contact`.

    `is_unproven`: a port near the appliance has not answered as a mail server, so its state is not shown.
    """
    try:
        yield contact
    except RemoteFault as fault:
        fault.is_unproven = contact.is_unproven
        raise


def hide_cause(fault: RemoteFault) -> RemoteFault:
    """Return a fault without its exact cause, which is logged for the operator.

    It is the same for every port on this computer or in a private network, so that members cannot scan ports.
    """
    log.info("local_mail_server_unusable", extra={"server": fault.server, "fault": fault.name or fault.kind})
    reason = (
        f"No usable {SERVER_NAMES[fault.server]} server answered at this host and port. Check host, port, security and"
        " certificate. For private addresses only administrators see the exact cause: ask one to look into the log."
    )
    return RemoteFault(fault.server, "unreachable", reason)
