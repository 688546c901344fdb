"""The command `https`: through the running appliance as its operator, or on the files when none runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mailbox_appliance.cli import context, output
from mailbox_appliance.cli.command_table import Call
from mailbox_appliance.cli.context import Invocation, names_other_appliance, operator_client
from mailbox_appliance.cli.groups import command, group
from mailbox_appliance.client.errors import INPUT, Failure, wrong_usage
from mailbox_appliance.client.http import ApiRequest
from mailbox_appliance.system import files

STATUS = Call("GET", "/admin/https")
CHANGE = Call("PATCH", "/admin/https")
IMPORT = Call("PUT", "/admin/https/certificate")
ROTATE = Call("POST", "/admin/https/rotate")
#: A certificate with its chain, or a key, as a text: some thousand bytes.
_LARGEST_PEM = 64 * 1024
_PORT = click.Option(["--port"], type=click.IntRange(0, 65535), help="The port, 8443 at first; 0 picks a free one.")
_HOST = click.Option(["--host"], metavar="ADDRESS", help="The address to listen on; '' is every one, as at first.")
_FILES = tuple(click.Argument([name], metavar=f"{name.upper()}-FILE") for name in ("certificate", "key"))
_PASSPHRASE_OPTIONS = (context.PASSPHRASE_STDIN,)


def _status(invocation: Invocation, passphrase_stdin: bool) -> int:
    return _call_or_use_files(invocation, STATUS, None, "https_status_on_files", passphrase_stdin)


def _enable(invocation: Invocation, port: int | None, host: str | None, passphrase_stdin: bool) -> int:
    body = {"enabled": True, "port": port, "host": host}
    given = {name: value for name, value in body.items() if value is not None}
    return _call_or_use_files(invocation, CHANGE, given, "change_https_on_files", passphrase_stdin)


def _disable(invocation: Invocation, passphrase_stdin: bool) -> int:
    return _call_or_use_files(invocation, CHANGE, {"enabled": False}, "change_https_on_files", passphrase_stdin)


def _import(invocation: Invocation, certificate: str, key: str, passphrase_stdin: bool) -> int:
    body = {"certificate": _read_pem(certificate, "CERTIFICATE"), "privateKey": _read_pem(key, "KEY")}
    return _call_or_use_files(invocation, IMPORT, body, "import_certificate_on_files", passphrase_stdin)


def _rotate(invocation: Invocation, passphrase_stdin: bool) -> int:
    return _call_or_use_files(invocation, ROTATE, None, "rotate_certificate_on_files", passphrase_stdin)


def _fingerprint(invocation: Invocation) -> int:
    """As the appliance says that runs on the directory, or is named; else of the files, which get one."""
    client = operator_client(invocation)
    answer = None if client is None else client.call(ApiRequest(STATUS.method, STATUS.path))
    if answer is None or (_never_offered_remark(answer) and not names_other_appliance(invocation)):
        answer = invocation.service("https_fingerprint")(invocation.data_directory())
    else:
        answer = {**answer, "data": _certificate_remark(answer)}
    output.show_answer(invocation, answer, (), lambda data: f"{data['fingerprint']}\n")
    return 0


def _never_offered_remark(answer: Any) -> bool:
    return answer["data"]["certificate"] is None and not answer["data"]["enabled"] and not answer.get("warnings")


def _certificate_remark(answer: Any) -> Any:
    if answer["data"]["certificate"] is None:
        why = answer.get("warnings") or ["It has no certificate: `https enable` makes one."]
        raise Failure("not_found", " ".join(why), INPUT)
    return answer["data"]["certificate"]


def _call_or_use_files(invocation: Invocation, call: Call, body: Any, service: str, from_stdin: bool) -> int:
    client = operator_client(invocation)
    if client is not None:
        answer = client.call(ApiRequest(call.method, call.path, body=body))
    else:
        folder, act = invocation.data_directory(), invocation.service(service)
        given = () if body is None else (body,)
        opening: Callable[[str | None], Any] = lambda passphrase: act(folder, *given, passphrase)  # noqa: E731
        answer = context.call_with_passphrase(invocation, opening, from_stdin=from_stdin)
    output.show_answer(invocation, answer, (), output.render_record, _next_steps_remark)
    return 0


def _next_steps_remark(answer: Any) -> str:
    """How to go on from there."""
    data, certificate = answer["data"], answer["data"]["certificate"]
    if not data["enabled"]:
        return "HTTPS is off: `mailbox-appliance https enable` lets other computers in.\n"
    if data["url"] is None:
        return "HTTPS is offered once `mailbox-appliance serve` runs.\n"
    if data["host"] == "localhost" or data["host"].startswith(("127.", "::1")):
        return "It is offered to this computer only; `mailbox-appliance https enable --host ''` offers it to others.\n"
    port = data["url"].rpartition(":")[2]
    pinned = f" --fingerprint {certificate['fingerprint']}" if certificate and not certificate["trusted"] else ""
    return f"From another computer: mailbox-appliance login https://NAME-OF-THIS-ONE:{port} --email EMAIL{pinned}\n"


def _read_pem(name: str, argument: str) -> str:
    """The contents of a file, each byte as a character, so that a file that is not PEM is reported as such."""
    try:
        content = files.read_regular(Path(name), _LARGEST_PEM + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise wrong_usage(f"{name} cannot be read: {reason.removesuffix('.')}.", f"argument:{argument}") from error
    if len(content) > _LARGEST_PEM:
        what = f"{name} is larger than 64 KiB, which no certificate with its chain is."
        raise wrong_usage(f"{what} Name the server's own, not a collection.", f"argument:{argument}")
    return content.decode("latin-1")


https = group(
    "https",
    "HTTPS for other computers.\n\nNo log-in is needed by who may read the data directory.",
    [
        command(
            "status", _status, "Show whether HTTPS is offered, where, and with which certificate.", _PASSPHRASE_OPTIONS
        ),
        command(
            "enable",
            _enable,
            "Offer HTTPS, at once where the appliance runs.\n\nA certificate of its own is made where there is none,"
            " good for ten years; clients are told its fingerprint. `https import` takes one of yours instead.",
            (_PORT, _HOST, *_PASSPHRASE_OPTIONS),
        ),
        command(
            "disable",
            _disable,
            "Offer HTTPS no more.\n\nWhat is under way is still answered. The certificate and the port are kept.",
            _PASSPHRASE_OPTIONS,
        ),
        command(
            "fingerprint",
            _fingerprint,
            "Print the fingerprint of the certificate, which `login URL --fingerprint` takes.\n\nThe appliance that"
            " runs is asked, or the files are. A certificate is made where HTTPS was not on yet and there is none.",
        ),
        command(
            "import",
            _import,
            "Take a certificate of your own, and its key.\n\nBoth are files with PEM: the certificate of the server"
            " first, then that of who issued it, and so on; a key without a passphrase. They are copied. To have files"
            " followed that something renews, let tls/cert.pem and tls/key.pem in the data directory be links to them.",
            (*_FILES, *_PASSPHRASE_OPTIONS),
        ),
        command(
            "rotate",
            _rotate,
            "Make another certificate, with another key, in place of the present one.\n\nClients that pinned the"
            " present one refuse the new one until they log in again with --fingerprint.",
            _PASSPHRASE_OPTIONS,
        ),
    ],
)
