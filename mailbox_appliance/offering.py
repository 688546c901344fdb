"""The HTTPS listener: it opens, moves and closes, and what is under way on the one from before is still answered."""

import logging
import ssl
from dataclasses import dataclass, replace

from mailbox_appliance.web.server import AddressInUse, Group, Listeners

log = logging.getLogger(__name__)

_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - as it is asked for
#: Seconds in which what is under way on a listener that closes is answered.
_ANSWER_WITHIN = 30


@dataclass(frozen=True)
class Asked:
    """Where HTTPS is to be offered; no host: at all addresses of this computer; port 0: at any that is free."""

    host: str
    port: int

    @property
    def bind_addresses(self) -> list[tuple[str, int]]:
        """What is listened on."""
        return [(host, self.port) for host in ((self.host,) if self.host else _EVERYWHERE)]


@dataclass(frozen=True)
class Offer:
    """A listener that is open, and what it was opened for."""

    asked: Asked
    group: Group

    @property
    def port(self) -> int:
        """Where it is."""
        return self.group.addresses[0][1]

    def is_at(self, asked: Asked) -> bool:
        """Whether it is where it is asked for."""
        return asked.host == self.asked.host and asked.port in (self.asked.port, self.port)


class Offering:
    """At most one listener. One thread at a time changes it; any may look at `offer`."""

    def __init__(self, listeners: Listeners) -> None:
        self._listeners = listeners
        self.current: Offer | None = None

    def close(self) -> None:
        """Offer HTTPS no more."""
        offer, self.current = self.current, None
        if offer is not None:
            offer.group.close(_ANSWER_WITHIN)
            log.info("HTTPS is not offered any more")

    def listen_at(self, asked: Asked, context: ssl.SSLContext) -> None:
        """Offer it there, with this certificate. Raises CannotListen; then it is where it was."""
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
                before.group.close(_ANSWER_WITHIN)

    def _reopen_at_same_port(self, asked: Asked, before: Offer, context: ssl.SSLContext) -> None:
        """At the same port, which is not opened twice: the one from before is closed, once it is sure that the address
        is of this computer. Where somebody else takes the port meanwhile, the one from before is opened again.
        """
        self._listeners.open(replace(asked, port=0).bind_addresses, context).close(0)
        before.group.close(_ANSWER_WITHIN)
        try:
            self.current = self._open(asked, context)
        except Exception:
            self.current = None
            again = self._open(replace(before.asked, port=before.port), context)
            self.current = replace(again, asked=before.asked)
            raise

    def _open(self, asked: Asked, context: ssl.SSLContext) -> Offer:
        offer = Offer(asked, self._listeners.open(asked.bind_addresses, context))
        log.info("HTTPS is offered", extra={"port": offer.port})
        return offer
