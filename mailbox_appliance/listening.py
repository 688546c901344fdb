"""Where it listens: by HTTP as it was started, and by HTTPS as the settings and the certificate's files say now.

apply ....... open, move or close HTTPS, with the certificate that is there; what cannot be done changes nothing
look ........ each second: has somebody replaced the certificate's files?
reload ...... at once, and what cannot be done is logged, and told by `trouble`
use ......... after a restore: other settings, and maybe other files
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
from mailbox_appliance.certificates import reading
from mailbox_appliance.certificates.files import CertificateFiles
from mailbox_appliance.certificates.taken import Taken, take
from mailbox_appliance.errors import CertificateUnusable, HttpsNotOffered, Problem
from mailbox_appliance.operations.certificates import ensure_certificate
from mailbox_appliance.settings import Settings
from mailbox_appliance.store.audit import SYSTEM
from mailbox_appliance.web.app import App
from mailbox_appliance.web.proxies import proxies_of
from mailbox_appliance.web.server import CannotListen, Group, Listeners

log = logging.getLogger(__name__)

_LOOPBACK, _EVERYWHERE = ("127.0.0.1", "::1"), ("0.0.0.0", "::")  # noqa: S104 - as it is asked for
_DAY = 86_400
_GLANCE = 0.01
#: Seconds in which what is under way on a listener that closes is answered.
_ANSWER_WITHIN = 30


@dataclass(frozen=True)
class _Asked:
    """Where HTTPS is to be offered; no host: at all addresses of this computer; port 0: at any that is free."""

    host: str
    port: int


@dataclass(frozen=True)
class _Offer:
    """A listener that is open, and what it was opened for."""

    asked: _Asked
    group: Group

    @property
    def port(self) -> int:
        return self.group.addresses[0][1]

    def fits(self, asked: _Asked) -> bool:
        """Whether it is where it is asked for."""
        return asked.host == self.asked.host and asked.port in (self.asked.port, self.port)


class Listening:
    """All listeners of a service. They are open from the beginning, and answer from `start`. For any thread."""

    def __init__(self, app: App, appliance: Appliance) -> None:
        """Raises CannotListen, CertificateUnusable."""
        self._app, self._appliance = app, appliance
        self._files = CertificateFiles(appliance.folder)
        self._changing = threading.Lock()
        self._offer: _Offer | None = None
        self._certificate: Taken | None = None
        self._seen: tuple[object, ...] | None = None
        self._refused: tuple[_Asked | None, str] | None = None
        self._take_from_settings()
        self._listeners = _listeners(app, appliance.settings)
        try:
            self.local_url = self._also_locally()
            self._begin()
        except BaseException:
            self._listeners.stop(0)
            raise
        app.figures = self._figures

    @property
    def http_url(self) -> str:
        """Where it answers by HTTP, at the address that was asked for."""
        return _url("http", *self._listeners.addresses[0])

    @property
    def url(self) -> str | None:
        """Where it answers by HTTPS, as this computer reaches it; None where it does not."""
        if (offer := self._offer) is None:
            return None
        host, port = offer.group.addresses[0]
        return _url("https", _reached(host), port)

    @property
    def pin(self) -> str | None:
        """The fingerprint by which clients know the certificate that is offered, where nobody they trust issued it."""
        certificate = self._certificate
        return None if certificate is None or certificate.facts.trusted else certificate.facts.fingerprint

    @property
    def trouble(self) -> str | None:
        """What an operator should see to, as a sentence that every member may read; None: nothing."""
        asked, offer, certificate = self._asked(), self._offer, self._certificate
        if asked is None:
            return None
        refused = self._refused
        reason = refused[1] if refused is not None and refused[0] == asked else None
        if offer is None or not offer.fits(asked):
            return f"HTTPS is not offered as the settings ask for it. {reason or ''}".strip()
        if reason is not None:
            return f"The certificate from before is still used for HTTPS. {reason}"
        remarks = () if certificate is None else reading.remarks(certificate.facts, self._appliance.clock.now())
        return next(iter(remarks), None)

    def start(self) -> None:
        """Begin to answer."""
        self._listeners.start()

    def stop_listening(self) -> None:
        """Take no new connections, and answer what is under way."""
        self._listeners.stop_listening()

    def is_through(self, within: float) -> bool:
        """Whether no request is being received or answered any more, within so many seconds."""
        until = time.monotonic() + within
        while self._listeners.is_busy():
            if time.monotonic() > until:
                return False
            time.sleep(_GLANCE)
        return True

    def refuse_unfinished(self, problem: Problem) -> None:
        """Answer the requests that are still being sent with this."""
        self._listeners.refuse_unfinished(problem)

    def stop(self, timeout: float) -> None:
        """End, within about so many seconds for what is under way."""
        self._listeners.stop(timeout)

    def apply(self) -> None:
        """Open, move or close HTTPS as the settings say now, and take the certificate that is there now.

        What is under way on an old listener is still answered. Raises HttpsNotOffered; then all is as it was.
        """
        with self._changing:
            asked = self._asked()
            self._seen = self._files.state()
            try:
                self._apply(asked)
            except (CannotListen, CertificateUnusable) as problem:
                self._refused = asked, self._told(problem)
                raise HttpsNotOffered(reason=self._told(problem)) from problem
            self._refused = None

    def use(self, appliance: Appliance) -> None:
        """Go on with the settings of this one, and with the files that are there now."""
        self._appliance, self._files = appliance, CertificateFiles(appliance.folder)
        self._take_from_settings()
        self.reload()

    def look(self) -> None:
        """Take the certificate where its files are others than when this was last looked at."""
        if self._asked() is not None and self._files.state() != self._seen and not self._changing.locked():
            self.reload()

    def reload(self) -> None:
        """As `apply`; what cannot be done is logged, and `trouble` tells it until it can."""
        try:
            self.apply()
        except HttpsNotOffered as problem:
            log.warning("HTTPS stays as it is", extra={"why": problem.message})
        except Exception:
            log.exception("HTTPS stays as it is")

    def _asked(self) -> _Asked | None:
        settings = self._appliance.settings
        if not settings.flag("server.https"):
            return None
        return _Asked(settings.text("server.https_host"), settings.number("server.https_port"))

    def _begin(self) -> None:
        try:
            self._apply(self._asked())
        except CannotListen as problem:
            advice = "`mailbox-appliance https disable` turns HTTPS off, until it can be."
            raise CannotListen(reason=f"{problem.message} {advice}") from problem

    def _apply(self, asked: _Asked | None) -> None:
        offer = self._offer
        if asked is None:
            self._offer = self._certificate = None
            if offer is not None:
                offer.group.close(_ANSWER_WITHIN)
                log.info("HTTPS is not offered any more")
        else:
            if self._certificate is None:  # else it is in use, and its files may be missing for a moment only
                ensure_certificate(self._appliance, SYSTEM)
            certificate = take(self._files, self._certificate)
            self._offer = self._moved(asked, offer, certificate.context)
            self._certificate = certificate
        self._set_strict_transport()

    def _moved(self, asked: _Asked, before: _Offer | None, context: ssl.SSLContext) -> _Offer:
        """The listener where it is asked for; where that fails the one from before stays, or is opened again."""
        if before is not None and before.fits(asked):
            before.group.use(context)
            return replace(before, asked=asked)
        if before is None or asked.port != before.port:
            opened = self._opened(asked, context)
            if before is not None:
                before.group.close(_ANSWER_WITHIN)
            return opened
        before.group.close(_ANSWER_WITHIN)  # one port is not opened twice
        try:
            return self._opened(asked, context)
        except CannotListen:
            self._offer = None
            self._offer = replace(self._opened(replace(before.asked, port=before.port), context), asked=before.asked)
            raise

    def _opened(self, asked: _Asked, context: ssl.SSLContext) -> _Offer:
        hosts = (asked.host,) if asked.host else _EVERYWHERE
        offer = _Offer(asked, self._listeners.open([(host, asked.port) for host in hosts], context))
        log.info("HTTPS is offered", extra={"port": offer.port})
        return offer

    def _also_locally(self) -> str:
        """Where this computer reaches it as itself: also at its loopback addresses, at the same port."""
        host, port = self._listeners.addresses[0]
        address = ip_address(host.partition("%")[0])
        if address.is_loopback or address.is_unspecified:
            return _url("http", _reached(host), port)
        opened = [one for one in _LOOPBACK if self._is_opened(one, port)]
        if not opened:
            log.warning("the loopback addresses are taken at this port: no request is of this computer's operator")
        return _url("http", opened[0] if opened else host, port)

    def _is_opened(self, host: str, port: int) -> bool:
        try:
            self._listeners.open([(host, port)], None)
        except CannotListen:
            return False
        return True

    def _take_from_settings(self) -> None:
        self._app.use_hosts(_allowed_hosts(self._appliance.settings))
        self._app.proxies = proxies_of(self._appliance.settings)

    def _set_strict_transport(self) -> None:
        certificate = self._certificate
        is_real = certificate is not None and certificate.facts.trusted
        self._app.strict_transport = self._appliance.settings.number("server.hsts_days") * _DAY if is_real else 0

    def _told(self, problem: Problem) -> str:
        """What every member may be told: nobody needs to know where the data directory is."""
        return problem.message.replace(f"{self._appliance.folder}/", "")

    def _figures(self) -> Mapping[str, float]:
        found: dict[str, float] = dict(vars(self._listeners.figures()))
        if (certificate := self._certificate) is not None:
            found["certificate_not_after"] = certificate.facts.not_after.timestamp()
        return found


def _listeners(app: App, settings: Settings) -> Listeners:
    host, port = settings.text("server.host"), settings.number("server.port")
    return Listeners(
        app,
        [(one, port) for one in ((host,) if host else _LOOPBACK)],
        workers=settings.number("server.workers"),
        request_timeout=settings.number("server.request_timeout"),
        per_peer=settings.number("server.connections_per_peer"),
        per_local_peer=settings.number("server.connections_per_local_peer"),
        trusted=lambda address: app.proxies.trusts(address),
    )


def _allowed_hosts(settings: Settings) -> tuple[str, ...]:
    host = settings.text("server.host")
    bound = f"[{host}]" if ":" in host else host
    public = urlsplit(settings.text("server.public_url")).netloc
    return (*settings.names("server.allowed_hosts"), bound, public)


def _reached(host: str) -> str:
    """The address by which this computer reaches one at which it listens."""
    if not ip_address(host.partition("%")[0]).is_unspecified:
        return host
    return "::1" if ":" in host else "127.0.0.1"


def _url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
