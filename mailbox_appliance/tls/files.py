"""Certificate and key of the HTTPS listener: read and replaced as a pair, and loaded into TLS.

    tls/cert.pem, tls/key.pem   the pair that is served; either may be a symbolic link by the operator
    tls/.next.making/           a new pair being written; the next process removes it if it is left over
    tls/.next/                  complete and on the disk: once it has this name, it is the valid pair, and its files
                                move into place one by one, also after a crash

Every reader checks `.next` first, so the certificate of one pair is never combined with the key of another.
"""

import errno
import os
import shutil
import ssl
import string
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from mailbox_appliance.errors import CertificateNotWritten, CertificateUnusable
from mailbox_appliance.store import files as store_files
from mailbox_appliance.store.files import CERTIFICATE_FILE, CERTIFICATE_KEY_FILE, write_private
from mailbox_appliance.system import ca_certificates, files, ownership
from mailbox_appliance.system.files import locked_folder, replace_file, sync_folder
from mailbox_appliance.tls import generate

# --- TLS contexts: versions, ciphers, and the certificate of two files ---


#: For TLS 1.2; all ciphers of 1.3 are of this kind: forward secrecy and authenticated encryption.
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
_MISMATCH, _LOCKED = "KEY_VALUES_MISMATCH", b"ENCRYPTED"
#: The most flights of a handshake in memory; a handshake needs fewer.
_FLIGHTS = 10


def server_context(files: "CertificateFiles") -> ssl.SSLContext:
    """Return the TLS context for the HTTPS listener: TLS 1.2 and 1.3, `http/1.1`, no compression, no renegotiation.

    Each call creates a new context, since a context in use could serve a half-loaded certificate. Raises
    CertificateUnusable if the pair is missing or does not match; an expired certificate is accepted.
    """
    files.load()  # check that they are regular files of a plausible size before OpenSSL opens them
    return files.read_consistently(lambda certificate, key: load_context(certificate, key, files.folder))


def load_context(certificate: Path, key: Path, folder: Path) -> ssl.SSLContext:
    """Return a TLS context for two files; `folder` is named in the error. Raises CertificateUnusable."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_ciphers(_CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    try:
        # Without this passphrase, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as error:
        raise CertificateUnusable(folder=folder, reason=_why_unusable(error, certificate, key)) from error
    return context


def is_trusted(context: ssl.SSLContext) -> bool:
    """Whether this computer trusts the issuer of a context's certificate; names are not compared."""
    asking = ca_certificates.client_context()
    asking.check_hostname = False
    try:
        _handshake_in_memory(context, asking)
    except ssl.SSLError:
        return False
    return True


def served_certificate(context: ssl.SSLContext) -> bytes:
    """Return the certificate that clients see, as DER. Raises SSLError if the context serves none."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    return _handshake_in_memory(context, asking).getpeercert(binary_form=True) or b""


def _handshake_in_memory(context: ssl.SSLContext, asking: ssl.SSLContext) -> ssl.SSLObject:
    """Return the client side after a handshake in memory. Raises SSLError of either side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = asking.wrap_bio(to_client, to_server)
    for _ in range(_FLIGHTS):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            if side is client:  # the client finishes last, after checking the certificate
                return client
    raise ssl.SSLError("the handshake does not end")


def _why_unusable(error: Exception, certificate: Path, key: Path) -> str:
    if isinstance(error, ssl.SSLError) and error.reason == _MISMATCH:
        return f"{key.name} is not the key of the certificate in {certificate.name}. {_WHAT_TO_DO}"
    if isinstance(error, ssl.SSLError) and _is_encrypted_key(key):
        return f"{key.name} is protected by a passphrase; `openssl pkey` removes it. {_WHAT_TO_DO}"
    told = getattr(error, "strerror", None) or "not PEM"
    if isinstance(error, ssl.SSLError):  # its reason is in capitals, or missing if the text could not be read at all
        told = (error.reason or "not PEM, or damaged").lower().replace("_", " ").replace("pem", "PEM")
    return f"{certificate.name} and {key.name} are not a PEM certificate and its key for TLS ({told}). {_WHAT_TO_DO}"


_WHAT_TO_DO = (
    "Import a matching pair with `mailbox-appliance https import`, or create a new one with `mailbox-appliance"
    " https rotate`."
)


def _is_encrypted_key(key: Path) -> bool:
    try:
        return _LOCKED in key.read_bytes()
    except OSError:
        return False


# --- The pair of files ---


T = TypeVar("T")
#: Called with a new certificate that is on the disk but not valid yet; an exception cancels the change.
Recorded = Callable[[bytes], None]

#: A certificate with its chain has some thousand bytes.
MOST_BYTES = 1 << 20


def record_nothing(certificate: bytes) -> None:
    """Do nothing, for callers that record no change."""


class CertificateFiles:
    """The certificate (with its chain, the server's own first) and its private key, both PEM."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / store_files.CERTIFICATE_FOLDER
        self.certificate, self.key = self.folder / CERTIFICATE_FILE, self.folder / CERTIFICATE_KEY_FILE
        self._making, self._next = self.folder / ".next.making", self.folder / store_files.NEXT_CERTIFICATE_FOLDER

    def any_exists(self) -> bool:
        """Whether either file exists, readable or not; then no certificate is generated."""
        return any(os.path.lexists(path) for path in (self._next, self.certificate, self.key))

    def are_links(self) -> bool:
        """Whether either file is a symbolic link, as when another program renews them."""
        return any(path.is_symlink() for path in self.paths())

    def paths(self) -> tuple[Path, Path]:
        """Return the current paths of the valid pair."""
        return store_files.certificate_paths(self.folder)

    def state(self) -> tuple[object, ...]:
        """Return a value that changes whenever one of the files, or the target of a link, changes."""
        return store_files.certificate_state(self.folder)

    def load(self) -> tuple[bytes, bytes]:
        """Return the content of both files. Raises CertificateUnusable if one is missing or cannot be read."""
        return self.read_consistently(lambda certificate, key: (self._read(certificate), self._read(key)))

    def read_consistently(self, look: Callable[[Path, Path], T]) -> T:
        """Return what `look` returns for the two files, which did not change during the call.

        Raises what `look` raises, unless the files changed during the call: then `look` is called again.
        """
        return store_files.read_unchanged(self.folder, look, CertificateUnusable)

    def ensure(self, names: Sequence[str], now: datetime, recorded: Recorded = record_nothing) -> bool:
        """Create a pair if neither file exists; return whether that was done. Existing files are kept.

        Raises CertificateUnusable if it cannot be written, or if only one of the two files can be read.
        """
        if self.any_exists():
            self._finish_interrupted()
            self.load()
            return False
        with self._lock_folder():
            self._settle()
            if self.any_exists():  # another process created it first
                return False
            self._replace_pair(*generate.generate_certificate(names, now), recorded)
        return True

    def replace(self, certificate: bytes, key: bytes, recorded: Recorded = record_nothing) -> None:
        """Replace the pair; symbolic links are replaced, not their targets.

        If this is interrupted, either the old pair or the new one is valid. Raises CertificateUnusable if the two files
        do not match or cannot be written; then the old pair is kept.
        """
        with self._lock_folder():
            self._settle()
            self._replace_pair(certificate, key, recorded)

    def _read(self, file: Path) -> bytes:
        try:
            content = files.read_regular(file, MOST_BYTES + 1)
        except FileNotFoundError as error:
            raise self._missing_file_error(file) from error
        except OSError as error:
            raise self.unusable_error(f"{file} cannot be read ({error.strerror}).") from error
        if len(content) > MOST_BYTES:
            raise self.unusable_error(f"{file} is larger than 1 MiB, so it is not a certificate or key.")
        return content

    def unusable_error(self, what: str) -> CertificateUnusable:
        """Return an error that names the problem of the pair and the commands that fix it."""
        return CertificateUnusable(
            folder=self.folder,
            reason=f"{what} Import a matching pair with `mailbox-appliance https import`, or create a new one with"
            " `mailbox-appliance https rotate`.",
        )

    def _missing_file_error(self, file: Path) -> CertificateUnusable:
        if not file.is_symlink():
            return self.unusable_error(f"{file} is missing.")
        found = self.unusable_error(f"{file} is a link to a file that does not exist.")
        found.where = os.path.realpath(file)
        return found

    @contextmanager
    def _lock_folder(self) -> Iterator[None]:
        """Let one process at a time change the pair. Raises CertificateNotWritten for errors of the file system."""
        try:
            ownership.make_folder(self.folder)
            with locked_folder(self.folder):
                yield
        except OSError as error:
            raise CertificateNotWritten(folder=self.folder, reason=_why_not_written(error)) from error

    def _replace_pair(self, certificate: bytes, key: bytes, recorded: Recorded) -> None:
        for target in (self.certificate, self.key):
            if target.is_dir() and not target.is_symlink():
                raise IsADirectoryError(0, "it is a directory; move it away", str(target))
        self._write(certificate, key, recorded)
        replace_file(self._making, self._next)
        try:
            sync_folder(self.folder)
            replace_file(self._next / CERTIFICATE_KEY_FILE, self.key)
        except OSError:  # such as a file that is a mount: no file has moved yet, so the change can be canceled
            replace_file(self._next, self._making)
            self._settle()
            raise
        with suppress(OSError):  # the new pair is valid wherever it is; the next process moves it
            self._settle()

    def _write(self, certificate: bytes, key: bytes, recorded: Recorded) -> None:
        """Write the new files, load them into TLS and record them. If a step fails, nothing is left behind."""
        try:
            self._making.mkdir(mode=0o700)
            new = self._making / CERTIFICATE_FILE, self._making / CERTIFICATE_KEY_FILE
            for file, content in zip(new, (certificate, key), strict=True):
                write_private(file, content)
            load_context(*new, self.folder)
            recorded(certificate)
        except BaseException:
            shutil.rmtree(self._making, ignore_errors=True)
            raise

    def _finish_interrupted(self) -> None:
        """Finish an interrupted replacement if possible; the valid pair is the same before and after."""
        if any(os.path.lexists(path) for path in (self._next, self._making)):
            with suppress(CertificateNotWritten), self._lock_folder():
                self._settle()

    def _settle(self) -> None:
        if os.path.lexists(self._making):
            shutil.rmtree(self._making)
        if not os.path.lexists(self._next):
            return
        for name in (CERTIFICATE_KEY_FILE, CERTIFICATE_FILE):
            if os.path.lexists(self._next / name):
                replace_file(self._next / name, self.folder / name)
        sync_folder(self.folder)
        shutil.rmtree(self._next)
        sync_folder(self.folder)


def _why_not_written(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "the disk is full; free some space and try again"
    file = f"{error.filename}: " if error.filename else ""
    return f"{file}{error.strerror or error}"


# --- PEM (RFC 7468): the blocks of a text in one pass, since a pattern would search again from each BEGIN ---


_BEGIN, _END, _DASHES = b"-----BEGIN ", b"-----END ", b"-----"
_LABEL = frozenset((string.ascii_uppercase + string.digits + " ").encode())
_LONGEST_LABEL = 40
#: The labels of certificates; the second is an older name.
CERTIFICATES = (b"CERTIFICATE", b"X509 CERTIFICATE")


def pem_blocks(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the label and the text of each block. Blocks without their own end line are skipped."""
    begin = text.find(_BEGIN)
    while begin >= 0:
        after = begin + len(_BEGIN)
        if label := _pem_label(text, after):
            own_end = _END + label + _DASHES
            if (end := text.find(_END, after)) < 0:
                return
            after = end + len(_END)
            if text.startswith(own_end, end):
                after = end + len(own_end)
                yield label, text[begin:after]
        begin = text.find(_BEGIN, after)


def _pem_label(text: bytes, at: int) -> bytes:
    """Return the label at this position if dashes and the end of the line follow it, otherwise an empty text."""
    end = text.find(_DASHES, at, at + _LONGEST_LABEL + len(_DASHES))
    label = text[at : max(at, end)]
    is_alone = text[end + len(_DASHES) : end + len(_DASHES) + 1].isspace()
    return label if is_alone and _LABEL.issuperset(label) else b""
