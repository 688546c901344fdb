"""Downloads files over HTTP in chunks, and saves them under safe names.

Only the owner can read a saved file, and it gets its final name once it is complete. File names come from untrusted
mail, so they never lead out of the target folder and never name a hidden file. A target that is not a regular file (a
device, a FIFO, an open descriptor) is written to and never replaced.
"""

import http.client
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mailbox_appliance.cli import output as cli_output
from mailbox_appliance.cli.context import Invocation
from mailbox_appliance.client.errors import INPUT, Failure, failure_from_answer, unreachable, wrong_usage
from mailbox_appliance.client.http import (
    LARGEST_ANSWER,
    ApiClient,
    ApiRequest,
    connection_lost_message,
    decode_answer,
    timeout_message,
)
from mailbox_appliance.system.files import NO_TERMINAL

# --- A file received over HTTP, read piece by piece ---


_CHUNK = 256 * 1024


@dataclass(frozen=True)
class IncomingFile:
    """A file being downloaded: the header fields of the response, its size in bytes if known, and its chunks."""

    headers: Mapping[str, str]
    size: int | None
    chunks: Iterator[bytes]


def receive_file(client: ApiClient, request: ApiRequest) -> IncomingFile:
    """Send a GET request and return its response, whose chunks are read as the caller consumes them.

    Raises Failure for an error response. Reading the chunks raises Failure if the response ends too early.
    """
    target, body, headers = client.encode_request(request)
    connection = client.open_connection(request.timeout)
    try:
        with _connection_failures(request):
            connection.request(request.method, target, body, headers | {"Accept": "*/*"})
            answer = connection.getresponse()
            if not 200 <= answer.status < 300:
                refused = decode_answer(answer.status, answer.read(LARGEST_ANSWER))
                raise failure_from_answer(answer.status, refused, answer.headers.get("Retry-After"))
    except BaseException:
        connection.close()
        raise
    return IncomingFile(dict(answer.headers.items()), answer.length, _read_chunks(request, connection, answer))


def _read_chunks(
    request: ApiRequest, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse
) -> Iterator[bytes]:
    try:
        while True:
            with _connection_failures(request):
                chunk = answer.read(_CHUNK)
            if not chunk:
                break
            yield chunk
        if answer.length:  # bytes that are still missing
            raise unreachable(connection_lost_message(request))
    finally:
        answer.close()
        connection.close()


@contextmanager
def _connection_failures(request: ApiRequest) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise unreachable(timeout_message(request)) from error
    except (http.client.HTTPException, OSError) as error:
        raise unreachable(connection_lost_message(request)) from error


# --- Saving a file ---


_EXTENDED = re.compile(r"filename\*=UTF-8''([^;\s]+)", re.I)
_PLAIN = re.compile(r'filename="([^"]*)"', re.I)
# Characters that are unsafe in file names: separators, wildcards, controls and marks that change the text direction.
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f/\\:*?"<>|\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]')
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.I)  # devices on Windows
_LONGEST_NAME = 200  # bytes
_OUTPUT = "option:--output"
# Names of open descriptors. If one leads to a regular file, that file must not be replaced.
_DESCRIPTOR = re.compile(r"/dev/(?:fd/(\d+)|(stdout|stderr))|/proc/self/fd/(\d+)")
_STANDARD = {"stdout": 1, "stderr": 2}


def save_download(
    invocation: Invocation, client: ApiClient, path: str, output: str | None, *, force: bool, otherwise: str
) -> int:
    """Fetch a file from `path` of the API and save it; return the exit code.

    `output`: the target file or folder, or `-` for stdout. `force`: replace an existing file. `otherwise`: the file
    name if neither `output` nor the response gives one.
    """
    if output is not None and (descriptor := _descriptor(output)) is not None:
        output = "-" if descriptor == 1 else output
    elif output not in (None, "-"):
        _require_writable(str(output), force=force)
    incoming = receive_file(client, ApiRequest("GET", path, timeout=120.0))
    chunks = _report_chunks(invocation, incoming)
    if output == "-":
        for chunk in chunks:
            invocation.terminal.write_bytes(chunk)
        return 0
    target = Path(output) if output else Path(safe_file_name(_server_file_name(incoming), otherwise))
    if _is_folder(str(target)):
        target /= safe_file_name(_server_file_name(incoming), otherwise)
    size = _write_to_device(target, chunks) if _is_special(str(target)) else _write_file(target, chunks, force=force)
    saved: dict[str, Any] = {
        "file": str(target),
        "sizeBytes": size,
        "mimeType": incoming.headers.get("Content-Type", ""),
    }
    cli_output.show_answer(invocation, {"data": saved})
    return 0


def _require_writable(output: str, *, force: bool) -> None:
    """Raise Failure if the file cannot be saved, before anything is transferred."""
    if _is_folder(output):
        return
    folder = output.rstrip(os.sep) if output.endswith(os.sep) else os.path.dirname(output)  # noqa: PTH120 - keeps `x/`
    if not _is_folder(folder or "."):
        raise wrong_usage(f"The folder {folder} does not exist.", _OUTPUT)
    if not force and os.path.lexists(output) and not _is_special(output):
        raise _file_exists(Path(output))


def _descriptor(output: str) -> int | None:
    """Return the file descriptor that a name such as `/dev/stdout` or `/dev/fd/3` means; None for any other name."""
    found = _DESCRIPTOR.fullmatch(output)
    if found is None:
        return None
    number, standard, of_proc = found.groups()
    return _STANDARD[standard] if standard else int(number or of_proc)


def _is_special(output: str) -> bool:
    """Whether the target exists and is neither a regular file nor a folder, so that it must not be replaced."""
    if _descriptor(output) is not None:
        return True
    try:
        mode = os.stat(output).st_mode  # noqa: PTH116 - as `_is_folder`
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises where a name is too long


def safe_file_name(name: str, otherwise: str) -> str:
    """Return a short file name without a path that names no device, command option or hidden file.

    `otherwise`: the name to use if nothing of `name` is usable.
    """
    clean = _UNSAFE.sub("_", name).rstrip(" .").lstrip(" .-")
    if _RESERVED.fullmatch(clean):
        clean = f"_{clean}"
    stem, dot, extension = clean.rpartition(".")
    if not dot or len(extension.encode()) > 20:
        stem, extension = clean, ""
    room = _LONGEST_NAME - len(extension.encode()) - 1
    stem = stem.encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
    return f"{stem}{dot if extension else ''}{extension}" or _UNSAFE.sub("_", otherwise)


def _server_file_name(incoming: IncomingFile) -> str:
    disposition = incoming.headers.get("Content-Disposition", "")
    if found := _EXTENDED.search(disposition):
        return unquote(found[1], errors="replace")
    return found[1] if (found := _PLAIN.search(disposition)) else ""


def _report_chunks(invocation: Invocation, incoming: IncomingFile) -> Iterator[bytes]:
    done, of = 0, f" of {incoming.size / 1e6:.1f}" if incoming.size else ""
    with invocation.terminal.progress_bar() as tell:
        for chunk in incoming.chunks:
            done += len(chunk)
            tell(f"{done / 1e6:.1f}{of} MB", done, incoming.size or 0)
            yield chunk


def _write_to_device(target: Path, chunks: Iterator[bytes]) -> int:
    descriptor, size = _descriptor(str(target)), 0
    with _explain_os_errors(target):
        opened = os.open(target, os.O_WRONLY | NO_TERMINAL) if descriptor is None else os.dup(descriptor)
    with os.fdopen(opened, "wb", buffering=0) as stream:
        for chunk in chunks:
            left = memoryview(chunk)
            while left:
                left = left[stream.write(left) :]
            size += len(chunk)
    return size


def _write_file(target: Path, chunks: Iterator[bytes], *, force: bool) -> int:
    """Write the chunks to a temporary file beside the target, then rename it, so the target is never incomplete."""
    if not force and os.path.lexists(target):
        raise _file_exists(target)
    with _explain_os_errors(target):
        handle, name = tempfile.mkstemp(prefix=".download-", dir=target.parent)
    written = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            for chunk in chunks:
                stream.write(chunk)
            size = stream.tell()
        with _explain_os_errors(target):
            if force:
                written.replace(target)
            else:
                _rename_into_place(written, target)
    finally:
        with suppress(FileNotFoundError):
            written.unlink()
    return size


@contextmanager
def _explain_os_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise wrong_usage(f"{target} cannot be saved: {error.strerror}.", _OUTPUT) from error


def _rename_into_place(written: Path, target: Path) -> None:
    """Rename a finished file, unless a file of the target's name has appeared in the meantime."""
    try:
        target.hardlink_to(written)
    except FileExistsError as error:
        raise _file_exists(target) from error
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise _file_exists(target) from None
        written.rename(target)


def _file_exists(file: Path) -> Failure:
    message = f"{file} already exists. Choose another name with --output, or overwrite it with --force."
    return Failure("file_exists", message, INPUT, details=((_OUTPUT, "The file already exists."),))
