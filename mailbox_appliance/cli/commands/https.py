"""The commands `https`: enable or disable HTTPS, and manage its certificate.

They send requests to the running appliance, as its local operator. If none is running, they work on the files of the
data directory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import context, output
from mailbox_appliance.cli.command_table import Call
from mailbox_appliance.cli.context import Invocation, names_other_appliance, operator_client
from mailbox_appliance.cli.groups import command, group, option
from mailbox_appliance.client.errors import INPUT, Failure, wrong_usage
from mailbox_appliance.system import files

STATUS = Call("GET", "/admin/https")
CHANGE = Call("PATCH", "/admin/https")
IMPORT = Call("PUT", "/admin/https/certificate")
ROTATE = Call("POST", "/admin/https/rotate")
#: The most bytes of a certificate with its chain, or of a key; some thousand are usual.
_LARGEST_PEM = 64 * 1024
_PORT = click.Option(
    ["--port"], type=click.IntRange(0, 65535), help="Port (initially 8443, then as last set); 0 picks a free one."
)
_HOST = option("--host", "ADDRESS", "IP address to listen on (initially all, then as last set); '' is all.")
_FILES = tuple(click.Argument([name], metavar=f"{name.upper()}-FILE") for name in ("certificate", "key"))
_PASSPHRASE_OPTIONS = (context.PASSPHRASE_STDIN,)


def _use_https(call: Call, operation: str, make_body: Callable[..., Any] = lambda: None) -> Callable[..., int]:
    """Return a command that makes the call or, if no appliance is running, calls the operation on the files."""

    def act(invocation: Invocation, passphrase_stdin: bool, **given: Any) -> int:
        body, client = make_body(**given), operator_client(invocation)
        if client is not None:
            answer = call.ask(client, body)
        else:
            folder, use = invocation.data_directory(), invocation.service("call_on_files")
            answer = context.call_with_passphrase(
                invocation, lambda passphrase, _: use(folder, operation, body, passphrase), from_stdin=passphrase_stdin
            )
        return output.show_answer(invocation, answer, remark=_next_steps_remark)

    return act


def _enable_body(port: int | None, host: str | None) -> dict[str, Any]:
    body = {"enabled": True, "port": port, "host": host}
    return {name: value for name, value in body.items() if value is not None}


def _import_body(certificate: str, key: str) -> dict[str, str]:
    return {"certificate": _read_pem(certificate, "CERTIFICATE"), "privateKey": _read_pem(key, "KEY")}


def _fingerprint(invocation: Invocation) -> int:
    """Print the fingerprint from a running appliance or else from the files, where it creates a missing certificate."""
    client = operator_client(invocation)
    answer = None if client is None else STATUS.ask(client)
    certificate = None if answer is None else answer["data"]["certificate"]
    is_new = answer is None or not (certificate or answer["data"]["enabled"] or answer.get("warnings"))
    if answer is None or (is_new and not names_other_appliance(invocation)):
        answer = invocation.service("https_fingerprint")(invocation.data_directory())
    elif certificate is None:
        why = answer.get("warnings") or ["The appliance has no certificate. Create one with `https enable`."]
        raise Failure("not_found", " ".join(why), INPUT)
    else:
        answer = {**answer, "data": certificate}
    return output.show_answer(invocation, answer, view=lambda data: f"{data['fingerprint']}\n")


def _next_steps_remark(answer: Any) -> str:
    """Return a sentence with the next step: enable HTTPS, start the appliance, or sign in from another computer."""
    data, certificate = answer["data"], answer["data"]["certificate"]
    if not data["enabled"]:
        return "HTTPS is off. To allow remote access, run `mailbox-appliance https enable`.\n"
    if data["url"] is None:
        return "HTTPS starts with `mailbox-appliance serve`.\n"
    if data["host"] == "localhost" or data["host"].startswith(("127.", "::1")):
        return (
            "HTTPS is on for this computer only. To allow remote access, run"
            " `mailbox-appliance https enable --host ''`.\n"
        )
    port = data["url"].rpartition(":")[2]
    pinned = f" --fingerprint {certificate['fingerprint']}" if certificate and not certificate["trusted"] else ""
    return f"From another computer: mailbox-appliance login https://NAME-OF-THIS-ONE:{port} --email EMAIL{pinned}\n"


def _read_pem(name: str, argument: str) -> str:
    """Return a file as Latin-1, which never fails, so that the API reports a file that is not PEM."""
    try:
        content = files.read_regular(Path(name), _LARGEST_PEM + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise wrong_usage(f"{name} cannot be read: {reason.removesuffix('.')}.", f"argument:{argument}") from error
    if len(content) > _LARGEST_PEM:
        what = f"{name} is too large: a certificate with its chain, or a key, has at most 64 KiB."
        raise wrong_usage(f"{what} Do not pass a bundle of CA certificates.", f"argument:{argument}")
    return content.decode("latin-1")


https = group(
    "https",
    "Manage HTTPS for remote access: enable, import, rotate.\n\nUsers who can read the data directory need no sign-in.",
    [
        command(
            "status",
            _use_https(STATUS, "get_https"),
            "Show whether HTTPS is on, its address and certificate.",
            _PASSPHRASE_OPTIONS,
        ),
        command(
            "enable",
            _use_https(CHANGE, "update_https", _enable_body),
            "Enable HTTPS (immediately if the appliance is running).\n\nIf there is no certificate yet, the appliance"
            " creates a self-signed one, valid for ten years; give clients its fingerprint. To use your own"
            " certificate, see `https import`.",
            (_PORT, _HOST, *_PASSPHRASE_OPTIONS),
        ),
        command(
            "disable",
            _use_https(CHANGE, "update_https", lambda: {"enabled": False}),
            "Disable HTTPS.\n\nRequests in progress are still answered. The certificate and the port are kept.",
            _PASSPHRASE_OPTIONS,
        ),
        command(
            "fingerprint",
            _fingerprint,
            "Print the certificate's fingerprint.\n\nPass it to `login URL --fingerprint`. Works with a running or a"
            " stopped appliance. If HTTPS was never enabled and no certificate exists, one is created.",
        ),
        command(
            "import",
            _use_https(IMPORT, "put_certificate", _import_body),
            "Import your own certificate and its key.\n\nBoth are PEM files, and they are copied. The certificate file"
            " starts with the server's certificate, followed by its issuers; the key has no passphrase. If a tool"
            " renews the files, make tls/cert.pem and tls/key.pem in the data directory links to them instead.",
            (*_FILES, *_PASSPHRASE_OPTIONS),
        ),
        command(
            "rotate",
            _use_https(ROTATE, "rotate_certificate"),
            "Replace the certificate and its key with new ones.\n\nClients that pinned the old certificate refuse the"
            " new one until they sign in again with --fingerprint.",
            _PASSPHRASE_OPTIONS,
        ),
    ],
)
