"""What real servers say when they refuse, and which fault it is: one table, read from the top, the first row counts.

The free text of a reply is looked at here, where the fault is made, and is never kept, logged or quoted. A reply that
no row knows stays what its code says.

Where the texts are from:
    Google ....... support.google.com/mail/answer/7126229, support.google.com/a/answer/3726730 (SMTP errors),
                   developers.google.com/identity/protocols/oauth2 (refresh token expiration)
    Microsoft .... learn.microsoft.com/exchange (authenticated-client-smtp-submission,
                   deprecation-of-basic-authentication-exchange-online), learn.microsoft.com/graph/errors,
                   learn.microsoft.com/entra/identity-platform/reference-error-codes (AADSTS...)
    Dovecot ...... src/login-common, src/imap-login, src/lib-imap; Postfix: smtpd_sasl_glue.c, access(5)
    others ....... as their users report them; `tests/remote/replies.txt` has each whole, with its source
"""

import re
from dataclasses import dataclass
from typing import Literal, cast

from mailbox_appliance.remote.faults import RemoteFault, Reply, ServerName
from mailbox_appliance.remote.named_faults import fault

#: Characters of a reply that are looked at.
_MOST = 2000
#: Providers that take no password but an app password, and say no more than that it is wrong.
_APP_PASSWORDS = (
    "gmail.com",
    "googlemail.com",
    "yahoo.com",
    "aol.com",
    "me.com",
    "fastmail.com",
    "messagingengine.com",
)
#: Providers that take no passwords by IMAP at all, and say no more than that the login failed.
_MICROSOFT = ("office365.com", "outlook.com")

Means = Literal["imap", "smtp", "oauth", "graph"]


#: AADSTS numbers of Microsoft's sign-in: the text beside them changes, and is translated.
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
class _Row:
    """Some texts, in lower case, and the fault they are. `later`: also after the login. `hosts`: of these only."""

    name: str
    servers: tuple[Means, ...]
    texts: re.Pattern[str]
    later: bool = False
    hosts: tuple[str, ...] = ()


def _row(name: str, servers: str, *texts: str, later: bool = False, hosts: tuple[str, ...] = ()) -> _Row:
    """`servers`: with spaces between. `texts`: regular expressions, one of which is found."""
    return _Row(name, cast("tuple[Means, ...]", tuple(servers.split())), re.compile("|".join(texts)), later, hosts)


_ROWS = (
    # --- what RFC 6749 4.1.2.1 and 5.2 name, and Google's own ---
    _row("sign_in_again", "oauth", r"invalid_rapt|rapt_required", r"\b(login|interaction)_required\b"),
    _row("admin_consent_required", "oauth", r"admin_policy_enforced|org_internal"),
    _row("clock_skew", "oauth", r"must be a short-lived token"),
    _row("oauth_app_refused", "oauth", r"\b(invalid|unauthorized|deleted|disabled)_client\b",
         r"\bredirect_uri_mismatch\b", r"\bunsupported_(grant|response)_type\b",
         r"\bclient_secret is missing\b"),
    _row("consent_required", "oauth", r"\b(invalid|insufficient)_scope\b", r"\bconsent_required\b"),
    _row("consent_declined", "oauth", r"\baccess_denied\b|\bauthorization_declined\b"),
    _row("rate_limited", "oauth", r"\brate_?limit_?exceeded\b", r"\bslow_down\b"),
    _row("server_down", "oauth", r"\btemporarily_unavailable\b", r"\bserver_error\b", r"\binternal_failure\b"),
    _row("account_locked", "oauth",
         r"invalid_grant.*(account has been (deleted|disabled)|user is (disabled|suspended))"),
    _row("access_expired", "oauth", r"\bexpired_token\b"),  # RFC 8628 3.5
    _row("access_revoked", "oauth", r"\binvalid_grant\b"),
    # --- Microsoft's mail servers ---
    _row("blocked_by_policy", "smtp",
         r"5\.7\.139 .*(security defaults|locked by your organi|did not meet the criteria)"),
    _row("basic_auth_disabled", "smtp imap", r"basic authentication is (disabled|not supported)", r"basicauthblocked"),
    _row("smtp_auth_disabled", "smtp", r"\b5\.7\.139\b", r"smtpclientauthentication is disabled"),
    _row("mailbox_missing", "imap", r"user is authenticated but not connected", later=True),
    _row("rate_limited", "imap", r"request is throttled", r"suggested backoff time", later=True),
    _row("too_many_connections", "smtp", r"\b432 4\.3\.2 ", r"concurrent connections limit exceeded", later=True),
    _row("rate_limited", "smtp", r"\b4\.7\.(28|500)\b", r"submission (quota|rate)", later=True),
    _row("basic_auth_disabled", "imap", r"^(no )?(login|authenticate) failed\.$", hosts=_MICROSOFT),
    # --- Google's mail servers ---
    _row("app_password_required", "imap smtp", r"application-specific password required", r"invalidsecondfactor"),
    _row("web_login_required", "imap smtp", r"\[webalert\b|web login required|webloginrequired",
         r"log in (via|with|through) your web browser", r"\b53[45] ?-?5\.7\.14\b"),
    _row("imap_disabled", "imap", r"imap access is disabled for your domain", r"administrator to enable imap",
         r"imap (access )?is (not (available|included|allowed)|disabled) (for|in|on) (your|this) (plan|domain|organi)"),
    _row("imap_access_off", "imap smtp", r"not enabled for imap", r"imap is (currently )?(disabled|off|not enabled)",
         r"yet to enable imap", r"service is not open", r"does not have access rights to this service"),
    _row("rate_limited", "imap", r"exceeded command or bandwidth limits", later=True),
    _row("sending_limit", "smtp", r"\b5\.4\.5 .*(limit|quota)", r"(daily|hourly) (user )?sending (limit|quota)",
         r"exceeded .*(daily|hourly|sending|recipient|message) (limit|quota)", r"\b5\.1\.90\b", later=True),
    # --- what many say ---
    _row("tls_required", "imap smtp", r"\[privacyrequired\]", r"(plaintext|cleartext) authentication (is )?disallowed",
         r"must issue a starttls", r"starttls (is )?required", r"\b538 5\.7\.11\b|encryption required"),
    _row("too_many_connections", "imap smtp",
         r"too many ((simultaneous|concurrent|open) )?((imap|smtp) )?(connections|sessions)",
         r"maximum number of (concurrent )?(connections|sessions)", later=True),
    _row("too_many_logins", "imap smtp",
         r"too many ((bad|failed|invalid|unsuccessful) )?((imap|smtp) )?(login|auth\w*)( \w+)? ?(attempts|failures)?"),
    _row("rate_limited", "imap smtp", r"rate limit", r"\[(limit|throttled)\]", later=True),
    _row("quota_exceeded", "imap", r"\[overquota\]", r"\bquota exceeded", r"mailbox is full|over quota", later=True),
    _row("account_locked", "imap smtp", r"\[contactadmin\]", r"account is abnormal",
         r"account (is|has been|was) ((temporarily|currently) )?(locked|suspended|disabled|blocked|inactive)",
         r"access to your account has been (temporarily )?restricted"),
    _row("password_expired", "imap smtp", r"\[expired\]", r"password (has|is) expired", r"\b432 4\.7\.12\b"),
    _row("web_login_required", "imap", r"unsafe login", later=True),
    _row("app_password_required", "imap smtp", r"\bapp(lication)?[- ](specific )?password", r"authori[sz]ation code"),
    _row("basic_auth_disabled", "imap smtp",
         r"(password|plain|basic) (login|authentication) is (disabled|not allowed)"),
    _row("server_down", "imap smtp", r"\[(unavailable|serverbug)\]", r"server unavailable", r"backend error",
         r"temporary (system|authentication|server|internal) (problem|failure|error)", r"internal (server )?error",
         r"service (temporarily )?(not available|unavailable)", r"\b4\.3\.[0-2]\b", r"shutting down", later=True),
    _row("token_refused", "imap smtp", r'"status" ?: ?"40[0-3]"', r"\binvalid_token\b"),
    _row("app_password_required", "imap smtp", r"invalid credentials", r"authentication ?failed", r"\b535\b",
         r"incorrect username or password", hosts=_APP_PASSWORDS),
    _row("wrong_password", "imap smtp", r"\[authenticationfailed\]", r"^535\b",
         r"invalid (credentials|login|user\w*|password)", r"authentication (failed|unsuccessful|failure)",
         r"(incorrect|wrong|bad) (user\w*|login|password|credentials)", r"(login|logon|authenticate) (failed|failure)",
         r"(login|password) (is )?(incorrect|wrong|error)"),
    # --- what a mailbox may not send ---
    _row("sender_not_allowed", "smtp", r"sendasdenied", r"\b5\.(7\.60|2\.252)\b", r"not owned by (auth )?user",
         r"not allowed to send (as|from)", r"sender address (is )?not allowed", r"mail from not allowed", later=True),
    _row("sending_blocked", "smtp", r"bad outbound sender", r"\b5\.7\.(705|708|750)\b", later=True),
    # --- Microsoft Graph tells by a code, before its status counts ---
    _row("token_refused", "graph", r"invalidauthenticationtoken|unauthenticated|invalidmsatoken"),
    _row("sender_not_allowed", "graph", r"errorsendasdenied"),
    _row("sending_blocked", "graph", r"errormessagesubmissionblocked"),
    _row("sending_limit", "graph", r"errorexceededmessagelimit|submissionquotaexceeded"),
    _row("quota_exceeded", "graph", r"errorquotaexceeded"),
    _row("mailbox_missing", "graph", r"mailboxnotenabledforrestapi|mailboxnotsupportedforrestapi",
         r"mailboxnothostedinexchangeonline", r"errornonexistentmailbox", r"errorinvaliduser"),
    _row("blocked_by_policy", "graph", r"accessrestricted|conditionalaccess|erroraccountsuspend"),
    _row("rate_limited", "graph", r"applicationthrottled|toomanyrequests|mailboxconcurrency|activitylimitreached"),
    _row("server_down", "graph", r"servicenotavailable|serviceunavailable|errormailboxstoreunavailable",
         r"errorserverbusy|errorinternalservertransienterror|errormailboxmoveinprogress"),
    _row("consent_required", "graph", r"erroraccessdenied|authorization_requestdenied"),
    _row("token_refused", "graph", r"^401\b"),
    _row("consent_required", "graph", r"^403\b"),
    _row("rate_limited", "graph", r"^429\b"),
    _row("server_down", "graph", r"^5\d\d\b"),
)  # fmt: skip


#: What a refusal of a password is called where there was none but a token.
_BY_TOKEN = {
    "wrong_password": "token_refused",
    "app_password_required": "token_refused",
    "basic_auth_disabled": "token_refused",
}


def name_of(
    server: ServerName, text: str, *, host: str = "", later: bool = False, by_token: bool = False
) -> str | None:
    """Which fault a reply is, by its text; None where no row knows it.

    `text`: the whole of it, its code too. `host`: where it is from. `later`: it came after the login. `by_token`: the
    login was by a token (XOAUTH2, OAUTHBEARER), so that nothing is said of a password.
    """
    said = " ".join(text[:_MOST].lower().split())
    if server == "oauth" and (number := _SIGN_IN_NUMBER.search(said)) and int(number[1]) in _BY_NUMBER:
        return _BY_NUMBER[int(number[1])]
    row = next((row for row in _ROWS if _applies(row, server, host, later) and row.texts.search(said)), None)
    if row is None:
        return None
    if by_token and server == "smtp" and "5.7.139" in said and row.name == "basic_auth_disabled":
        return "smtp_auth_disabled"
    return _BY_TOKEN.get(row.name, row.name) if by_token else row.name


def fault_of(
    server: ServerName,
    text: str,
    *,
    host: str = "",
    later: bool = False,
    by_token: bool = False,
    reply: Reply | None = None,
) -> RemoteFault | None:
    """As `name_of`: the fault itself, without a word of the reply."""
    name = name_of(server, text, host=host, later=later, by_token=by_token)
    return None if name is None else fault(name, server, reply)


def _applies(row: _Row, server: ServerName, host: str, later: bool) -> bool:
    place = f".{host.rstrip('.').lower()}"
    is_there = not row.hosts or any(place.endswith(f".{each}") for each in row.hosts)
    return server in row.servers and is_there and (row.later or not later)
