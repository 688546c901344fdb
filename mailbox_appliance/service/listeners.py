"""The network listeners of the service: HTTP as started, HTTPS as settings and certificate files require.

apply ................. open, move or close HTTPS with the current certificate; a failure changes nothing
refresh_certificate ... every second: reload replaced certificate files, and retry what failed before
reload ................ as `apply`; a failure is logged, and reported by `trouble`
switch_to ............. after a restore: use other settings, and maybe other files
"""

import logging
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from urllib.parse import urlsplit

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.clock import from_timestamp
from mailbox_appliance.errors import HttpsNotOffered, Problem
from mailbox_appliance.operations.settings import ensure_certificate
from mailbox_appliance.settings import Settings, host_for_url
from mailbox_appliance.store.audit import SYSTEM_ACTOR
from mailbox_appliance.tls import inspect
from mailbox_appliance.tls.files import CertificateFiles
from mailbox_appliance.tls.inspect import Certificate, LoadedCertificate, load_certificate
from mailbox_appliance.web.app import App
from mailbox_appliance.web.http import trusted_proxies
from mailbox_appliance.web.server.server import AddressInUse, CannotListen, HttpServer, ListenerGroup

log = logging.getLogger(__name__)

# --- The HTTPS listener: when it moves or closes, requests on the previous one are still answered ---

_ALL_ADDRESSES = ("0.0.0.0", "::")  # noqa: S104 - as it is asked for
#: Seconds for requests in progress on a listener that closes.
_DRAIN_SECONDS = 30


@dataclass(frozen=True)
class ListenAddress:
    """The address on which HTTPS listens.

    An empty host means all addresses of this computer; port 0 means any free port.
    """

    host: str
    port: int

    @property
    def bind_addresses(self) -> list[tuple[str, int]]:
        """The pairs of host and port on which sockets are opened."""
        return [(host, self.port) for host in ((self.host,) if self.host else _ALL_ADDRESSES)]


@dataclass(frozen=True)
class OpenListener:
    """An open HTTPS listener, and the address that was requested for it."""

    asked: ListenAddress
    group: ListenerGroup

    @property
    def port(self) -> int:
        """The port on which it listens, also if any free port was requested."""
        return self.group.addresses[0][1]

    def is_at(self, asked: ListenAddress) -> bool:
        """Whether this listener was opened for the requested address."""
        return asked.host == self.asked.host and asked.port in (self.asked.port, self.port)


class HttpsListener:
    """Opens, moves and closes the HTTPS listener. `current`: the open one, or None.

    Only one thread at a time may change it; any thread may read `current`.
    """

    def __init__(self, listeners: HttpServer) -> None:
        self._listeners = listeners
        self.current: OpenListener | None = None

    def close(self) -> None:
        """Close the listener, if there is one."""
        offer, self.current = self.current, None
        if offer is not None:
            offer.group.close(_DRAIN_SECONDS)
            log.info("https_stopped")

    def listen_at(self, asked: ListenAddress, context: ssl.SSLContext) -> None:
        """Listen at this address with this certificate, instead of the previous ones.

        Raises CannotListen; then the previous listener is unchanged.
        """
        before = self.current
        if before is not None and before.is_at(asked):
            before.group.use_certificate(context)
            self.current = replace(before, asked=asked)
            return
        try:
            self.current = self._open(asked, context)
        except AddressInUse:
            if before is None or asked.port != before.port:
                raise
            self._reopen_at_same_port(asked, before, context)
        else:
            if before is not None:
                before.group.close(_DRAIN_SECONDS)

    def _reopen_at_same_port(self, asked: ListenAddress, before: OpenListener, context: ssl.SSLContext) -> None:
        """Listen at another address with the same port as the previous listener (`before`), for example at all
        addresses instead of one.

        The system does not allow both at once. So the previous listener is closed first, but only after a test that
        this computer has the new address. If another process takes the port in between, the previous listener is opened
        again.
        """
        self._listeners.open(replace(asked, port=0).bind_addresses, context).close(0)
        before.group.close(_DRAIN_SECONDS)
        try:
            self.current = self._open(asked, context)
        except Exception:
            self.current = None
            again = self._open(replace(before.asked, port=before.port), context)
            self.current = replace(again, asked=before.asked)
            raise

    def _open(self, asked: ListenAddress, context: ssl.SSLContext) -> OpenListener:
        offer = OpenListener(asked, self._listeners.open(asked.bind_addresses, context))
        log.info("https_started", extra={"port": offer.port})
        return offer


# --- All listeners of the service ---

_LOOPBACK = ("127.0.0.1", "::1")
_DAY = 86_400
_POLL_SECONDS = 0.01
#: Seconds between two attempts to start HTTPS after a failure.
_RETRY_SECONDS = 10


class ServiceListeners:
    """All HTTP and HTTPS listeners of a service. Any thread may call the methods.

    The ports are open from construction; requests are served from `start`.
    """

    def __init__(self, app: App, appliance: Appliance) -> None:
        """Open the ports. Raises CannotListen, CertificateUnusable."""
        self._app, self._appliance = app, appliance
        self._files = CertificateFiles(appliance.folder)
        self._changing = threading.Lock()
        self._certificate: LoadedCertificate | None = None
        self._seen_files: tuple[object, ...] | None = None
        self._last_failure: tuple[ListenAddress | None, str] | None = None
        self._tried_at = 0.0
        self._apply_host_settings()
        self._listeners = _open_listeners(app, appliance)
        self._https = HttpsListener(self._listeners)
        try:
            self.local_url = self._open_loopback()
            self._open_https_first()
        except BaseException:
            self._listeners.stop(0)
            raise
        app.server_figures = self._figures

    @property
    def http_url(self) -> str:
        """The HTTP URL at which programs on this computer reach the service."""
        host, port = self._listeners.addresses[0]
        return _base_url("http", _local_host(host), port)

    @property
    def url(self) -> str | None:
        """The HTTPS URL at which programs on this computer reach the service; None if HTTPS is off."""
        if (offer := self._https.current) is None:
            return None
        host, port = offer.group.addresses[0]
        return _base_url("https", _local_host(host), port)

    @property
    def certificate(self) -> Certificate | None:
        """The certificate that clients get; None if HTTPS is off."""
        return None if (certificate := self._certificate) is None else certificate.facts

    @property
    def pin(self) -> str | None:
        """The certificate fingerprint that clients need to pin.

        None if HTTPS is off, or if a trusted CA issued the certificate.
        """
        certificate = self.certificate
        return None if certificate is None or certificate.trusted else certificate.fingerprint

    @property
    def trouble(self) -> str | None:
        """The current problem with HTTPS or its certificate, as a sentence that every member may read.

        None if there is no problem.
        """
        asked, offer, certificate = self._wanted_address(), self._https.current, self.certificate
        if asked is None:
            return None
        refused = self._last_failure
        reason = refused[1] if refused is not None and refused[0] == asked else None
        if offer is None or not offer.is_at(asked):
            return f"HTTPS is not running as set in the settings. {reason or ''}".strip()
        if reason is not None:
            return f"HTTPS still uses the previous certificate. {reason}"
        remarks = () if certificate is None else inspect.certificate_warnings(certificate, self._appliance.clock.now())
        return next(iter(remarks), None)

    def start(self) -> None:
        """Begin to serve requests."""
        self._listeners.start()

    def stop_listening(self) -> None:
        """Accept no new connections; requests in progress are still served."""
        self._listeners.stop_listening()

    @property
    def requests(self) -> int:
        """The number of requests in progress, including those that wait for a worker thread."""
        figures = self._listeners.stats()
        return figures.busy_workers + figures.waiting_requests

    def wait_until_idle(self, within: float) -> bool:
        """Wait at most `within` seconds until no request is being received or served; return whether that is so."""
        until = time.monotonic() + within
        while self._listeners.is_busy():
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def refuse_unfinished(self, problem: Problem) -> None:
        """Respond with the error `problem` to each request that has not been received completely."""
        self._listeners.refuse_unfinished(problem)

    def stop(self, timeout: float) -> None:
        """Close all listeners. Requests in progress get about `timeout` seconds to finish."""
        self._listeners.stop(timeout)

    def apply(self) -> None:
        """Open, move or close HTTPS as the settings require, with the current certificate.

        Requests in progress on a previous listener are still served. Raises HttpsNotOffered; then nothing is changed.
        """
        with self._changing:
            asked = self._wanted_address()
            self._seen_files, self._tried_at = self._files.state(), self._appliance.clock.monotonic()
            try:
                self._apply_https(asked)
            except Exception as problem:
                if not isinstance(problem, Problem):
                    log.exception("https_update_failed")
                self._last_failure = asked, self._public_reason(problem)
                raise HttpsNotOffered(reason=self._public_reason(problem)) from problem
            self._last_failure = None

    def switch_to(self, appliance: Appliance) -> None:
        """Use the settings and certificate files of another appliance from now on, after a restore."""
        with self._changing:
            self._appliance, self._files = appliance, CertificateFiles(appliance.folder)
            self._apply_host_settings()
        self.reload()

    def refresh_certificate(self) -> None:
        """Load the certificate again if its files have changed.

        If HTTPS could not be opened as configured, try again from time to time, since a remote administrator cannot
        connect to correct it.
        """
        asked, offer = self._wanted_address(), self._https.current
        if asked is None or self._changing.locked():
            return
        is_missing = offer is None or not offer.is_at(asked)
        is_due = is_missing and self._appliance.clock.monotonic() - self._tried_at >= _RETRY_SECONDS
        if is_due or self._files.state() != self._seen_files:
            self._apply_or_log(told=self._last_failure)

    def reload(self) -> None:
        """Apply changed settings. A failure is logged and not raised; `trouble` returns it until it is resolved."""
        self._apply_or_log(told=None)

    def _apply_or_log(self, told: tuple[ListenAddress | None, str] | None) -> None:
        try:
            self.apply()
        except HttpsNotOffered as problem:
            if self._last_failure != told:
                where = getattr(problem.__cause__, "where", "")
                log.warning("https_unchanged", extra={"why": problem.message, "where": where})

    def _wanted_address(self) -> ListenAddress | None:
        settings = self._appliance.settings
        if not settings.flag("server.https"):
            return None
        return ListenAddress(settings.text("server.https_host"), settings.number("server.https_port"))

    def _open_https_first(self) -> None:
        try:
            self._apply_https(self._wanted_address())
        except CannotListen as problem:
            advice = "Change it with `mailbox-appliance https enable --port P --host H`, or run `https disable`."
            raise CannotListen(reason=f"{problem.message} {advice}") from problem

    def _apply_https(self, asked: ListenAddress | None) -> None:
        if asked is None:
            self._certificate = None
            self._https.close()
        else:
            if self._certificate is None:  # otherwise it is in use, and its files may be missing only for a moment
                ensure_certificate(self._appliance, SYSTEM_ACTOR)
            certificate = load_certificate(self._files, self._certificate)
            self._https.listen_at(asked, certificate.context)
            self._certificate = certificate
        self._set_strict_transport()

    def _open_loopback(self) -> str:
        """If HTTP listens only on an outside address, listen on loopback too. Return the URL for this computer."""
        host, port = self._listeners.addresses[0]
        address = ip_address(host.partition("%")[0])
        if address.is_loopback or address.is_unspecified:
            return _base_url("http", _local_host(host), port)
        opened = [one for one in _LOOPBACK if self._try_open(one, port)]
        if not opened:
            log.warning("loopback_unavailable")
        return _base_url("http", opened[0] if opened else host, port)

    def _try_open(self, host: str, port: int) -> bool:
        try:
            self._listeners.open([(host, port)], None)
        except CannotListen:
            return False
        return True

    def _apply_host_settings(self) -> None:
        self._app.use_hosts(_allowed_hosts(self._appliance.settings))
        self._app.proxies = trusted_proxies(self._appliance.settings)

    def _set_strict_transport(self) -> None:
        is_real = (certificate := self.certificate) is not None and certificate.trusted
        self._app.strict_transport = self._appliance.settings.number("server.hsts_days") * _DAY if is_real else 0

    def _public_reason(self, problem: Exception) -> str:
        """The text for all members: without the path of the data directory or internal details."""
        if not isinstance(problem, Problem):
            return f"Internal error ({type(problem).__name__}); see the log for details."
        return problem.message.replace(f"{self._appliance.folder}/", "")

    def _figures(self) -> Mapping[str, float]:
        found: dict[str, float] = dict(vars(self._listeners.stats()))
        if (certificate := self._certificate) is not None:
            found["certificate_not_after"] = from_timestamp(certificate.facts.not_after).timestamp()
        return found


def _open_listeners(app: App, appliance: Appliance) -> HttpServer:
    settings = appliance.settings
    host, port = settings.text("server.host"), settings.number("server.port")
    return HttpServer(
        app,
        [(one, port) for one in ((host,) if host else _LOOPBACK)],
        workers=settings.number("server.workers"),
        request_timeout=settings.number("server.request_timeout"),
        per_peer=settings.number("server.connections_per_peer"),
        per_local_peer=settings.number("server.connections_per_local_peer"),
        trusted=lambda address: app.proxies.trusts(address),
        spool_folder=appliance.folder,
    )


def _allowed_hosts(settings: Settings) -> tuple[str, ...]:
    host = settings.text("server.host")
    public = urlsplit(settings.text("server.public_url")).netloc
    return (*settings.names("server.allowed_hosts"), host_for_url(host), public)


def _local_host(host: str) -> str:
    """The address at which this computer reaches a listener: loopback if `host` means all addresses."""
    if not ip_address(host.partition("%")[0]).is_unspecified:
        return host
    return "::1" if ":" in host else "127.0.0.1"


def _base_url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://{host_for_url(host)}:{port}"
