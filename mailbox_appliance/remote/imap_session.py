"""From a connected socket to a logged-in IMAP client: TLS, greeting, STARTTLS, login."""

import imaplib
import ssl

from imapclient.exceptions import IMAPClientError

from mailbox_appliance.model.records import Endpoint
from mailbox_appliance.remote.bearer import Bearer
from mailbox_appliance.remote.channel import Channel
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.imap_protocol import Client, refusal, speaking
from mailbox_appliance.remote.tls import context_for, tls_fault


def log_in(channel: Channel, endpoint: Endpoint, ca_file: str) -> frozenset[str]:
    """Secure the channel as the endpoint says, read the greeting, log in; the server's capabilities, in upper case.

    Raises RemoteFault.
    """
    context = context_for("imap", ca_file) if endpoint.security != "none" else None
    with speaking():
        if endpoint.security == "tls" and context is not None:
            _handshake(channel, endpoint.host, context)
        client = _greeted(channel, endpoint.host)
        if endpoint.security == "starttls" and context is not None:
            _start_tls(client, context)
        _log_in(client, endpoint)
        return frozenset(word.decode("ascii", "replace").upper() for word in client.capabilities())


def _handshake(channel: Channel, host: str, context: ssl.SSLContext) -> None:
    try:
        channel.secure(context, host)
    except ssl.SSLError as error:
        raise tls_fault("imap", error) from error


def _greeted(channel: Channel, host: str) -> Client:
    try:
        client = Client(channel, host)
        channel.contact.has_greeted = True
        return client
    except imaplib.IMAP4.abort:
        raise
    except imaplib.IMAP4.error as error:
        channel.contact.has_greeted = True  # with BYE
        raise refusal(error, reason="The IMAP server turns connections away now. Try again later.") from error


def _start_tls(client: Client, context: ssl.SSLContext) -> None:
    # RFC 8314: no fallback. A missing word, or a greeting that skips the login (PREAUTH), may be an attacker's work.
    if client.protocol.state != "NONAUTH" or "STARTTLS" not in client.protocol.capabilities:
        raise RemoteFault("imap", "tls", "The IMAP server offers no STARTTLS on this port. Try security `tls`.")
    try:
        client.protocol.secure(context)
    except ssl.SSLError as error:
        raise tls_fault("imap", error) from error


def _log_in(client: Client, endpoint: Endpoint) -> None:
    """With a token where there is one; else AUTHENTICATE PLAIN (RFC 4616), which takes any character; else LOGIN."""
    words = client.protocol.capabilities
    if endpoint.token is not None:
        return _show_token(client, endpoint)
    try:
        if "AUTH=PLAIN" in words:
            client.plain_login(endpoint.username, endpoint.password)
        elif "LOGINDISABLED" in words:
            reason = "The IMAP server takes no passwords on this connection. Use security `tls` or `starttls`."
            raise RemoteFault("imap", "login_refused", reason)
        else:
            client.login(_quoted(endpoint.username), endpoint.password)
    except imaplib.IMAP4.abort:
        raise
    except (IMAPClientError, UnicodeEncodeError) as error:
        # imapclient calls it a refused login too when the connection ends while it waits for the answer.
        if isinstance(error.__context__, imaplib.IMAP4.abort):
            raise error.__context__ from None
        reason = "The IMAP server refused user name or password. Some providers want an app password."
        raise refusal(error, "login_refused", reason, host=endpoint.host) from error


def _show_token(client: Client, endpoint: Endpoint) -> None:
    """Never a password beside it, whatever the server offers."""
    offered = [word.removeprefix("AUTH=") for word in client.protocol.capabilities if word.startswith("AUTH=")]
    bearer = Bearer(endpoint, offered, "imap")
    try:
        client.sasl_login(bearer.mechanism, bearer.next_response)
    except imaplib.IMAP4.abort:
        raise
    except IMAPClientError as error:
        if isinstance(error.__context__, imaplib.IMAP4.abort):
            raise error.__context__ from None
        known = refusal(error, "login_refused", host=endpoint.host, by_token=True)
        raise (bearer.fault_of_refusal(str(error)) if known.kind == "login_refused" else known) from error


def _quoted(text: str) -> str:
    """A quoted string; imaplib quotes the password, but not the user name."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
