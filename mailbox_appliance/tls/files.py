"""The certificate and key files of the HTTPS listener: read and replaced as a pair, and loaded into TLS.

    tls/cert.pem, tls/key.pem   the pair that is served; the operator may make either a symbolic link
    tls/.next.making/           a new pair that is being written; if a crash leaves it, the next process removes it
    tls/.next/                  a new pair that is complete on disk, and replaces the served one from this moment on.
                                Its files are then moved one by one to `cert.pem` and `key.pem`; after a crash, the
                                next process continues that

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
    """Return a new TLS context for the HTTPS listener: TLS 1.2 and 1.3, `http/1.1`, no compression, no renegotiation.

    It is never an existing one, because loading another certificate into a context in use could serve half of it.
    Raises CertificateUnusable if the pair is missing or does not match; an expired certificate is accepted.
    """
    files.load()  # check that they are regular files of a plausible size before OpenSSL opens them
    return files.read_consistently(lambda certificate, key: load_context(certificate, key, files.folder))


def load_context(certificate: Path, key: Path, folder: Path) -> ssl.SSLContext:
    """Return a TLS context for an HTTPS server from a certificate and a key file.

    Raises CertificateUnusable if they cannot be used together. `folder`: the folder that its message names, even if the
    files are in a temporary one.
    """
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
    """Whether this computer trusts the issuer of the certificate that a context serves. Its names are not checked."""
    asking = ca_certificates.client_context()
    asking.check_hostname = False
    try:
        _handshake_in_memory(context, asking)
    except ssl.SSLError:
        return False
    return True


def served_certificate(context: ssl.SSLContext) -> bytes:
    """Return the certificate that a TLS context presents to clients, as DER. Raises SSLError if there is none."""
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE
    return _handshake_in_memory(context, asking).getpeercert(binary_form=True) or b""


def _handshake_in_memory(context: ssl.SSLContext, asking: ssl.SSLContext) -> ssl.SSLObject:
    """Perform a TLS handshake in memory between a server with `context` and a client with `asking`.

    Returns the client side. Raises SSLError if either side fails.
    """
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
    """Do nothing. Default for the parameter `recorded` of `CertificateFiles.ensure` and `replace`: a function that they
    call with a new certificate before it becomes valid.
    """


class CertificateFiles:
    """The certificate file (the server's own certificate, then its chain) and the key file of the HTTPS listener, both
    PEM.
    """

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / store_files.CERTIFICATE_FOLDER
        self.certificate, self.key = self.folder / CERTIFICATE_FILE, self.folder / CERTIFICATE_KEY_FILE
        self._making, self._next = self.folder / ".next.making", self.folder / store_files.NEXT_CERTIFICATE_FOLDER

    def any_exists(self) -> bool:
        """Whether the certificate or the key file exists, even if it cannot be read. If so, no certificate is
        generated.
        """
        return any(os.path.lexists(path) for path in (self._next, self.certificate, self.key))

    def are_links(self) -> bool:
        """Whether either file is a symbolic link, for example to files that another program renews."""
        return any(path.is_symlink() for path in self.paths())

    def paths(self) -> tuple[Path, Path]:
        """Return the current paths of the certificate and the key file, also while a new pair is being moved into
        place.
        """
        return store_files.certificate_paths(self.folder)

    def state(self) -> tuple[object, ...]:
        """Return a value to compare: it changes when one of the files, or the target of a link, changes."""
        return store_files.certificate_state(self.folder)

    def load(self) -> tuple[bytes, bytes]:
        """Return the content of the certificate and the key file. Raises CertificateUnusable if one cannot be read."""
        return self.read_consistently(lambda certificate, key: (self._read(certificate), self._read(key)))

    def read_consistently(self, look: Callable[[Path, Path], T]) -> T:
        """Call `look` with the paths of the certificate and the key file, and return its result.

        If the files changed during the call, `look` is called again, a few times at most. A CertificateUnusable from
        `look` is raised only if the files did not change, or after the last attempt. Other exceptions are raised at
        once.
        """
        return store_files.read_unchanged(self.folder, look, CertificateUnusable)

    def ensure(self, names: Sequence[str], now: datetime, recorded: Recorded = record_nothing) -> bool:
        """Create a self-signed certificate if neither file exists. Returns whether it was created.

        `names`: the host names and addresses for it. `recorded`: called with it before it becomes valid; an exception
        cancels the change. Raises CertificateUnusable if existing files cannot be read, or new ones cannot be written.
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
        """Replace both files. A symbolic link is replaced, and its target is kept.

        `recorded`: called with the certificate before it becomes valid; an exception cancels the change. If the
        replacement is interrupted, either the old pair or the new one is valid. Raises CertificateUnusable if the files
        do not match or cannot be written; then the old pair stays valid.
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
        """Return an error for unusable files. `what`: a sentence with the problem; the commands that fix it are
        added.
        """
        return CertificateUnusable(folder=self.folder, reason=f"{what} {_WHAT_TO_DO}")

    def _missing_file_error(self, file: Path) -> CertificateUnusable:
        if not file.is_symlink():
            return self.unusable_error(f"{file} is missing.")
        found = self.unusable_error(f"{file} is a link to a file that does not exist.")
        found.where = os.path.realpath(file)
        return found

    @contextmanager
    def _lock_folder(self) -> Iterator[None]:
        """Context manager: lock the folder, so that only one process at a time changes the files.

        If the block or the lock raises OSError, that becomes CertificateNotWritten.
        """
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
        """Write the new files to a temporary folder, check that TLS can load them, and call `recorded`.

        If any of this fails, the temporary folder is removed.
        """
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
        """Finish an interrupted replacement: move the remaining files of the new pair into place, or leave them if they
        cannot be moved.

        Which pair is valid does not change, because readers use the new pair already.
        """
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
    """Yield the label and the whole text of each PEM block, in order. A block without a matching END line is
    skipped.
    """
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
    """Return the label of a PEM block, such as `CERTIFICATE`. Empty if its BEGIN line is malformed. `at`: the offset
    after `-----BEGIN `.
    """
    end = text.find(_DASHES, at, at + _LONGEST_LABEL + len(_DASHES))
    label = text[at : max(at, end)]
    is_alone = text[end + len(_DASHES) : end + len(_DASHES) + 1].isspace()
    return label if is_alone and _LABEL.issuperset(label) else b""
