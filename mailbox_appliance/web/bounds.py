"""What a listener takes of one connection, and of all of them."""

import sys
from dataclasses import dataclass

from waitress.adjustments import Adjustments

MEBIBYTE = 1 << 20
# Windows waits for 512 sockets at once at most, two of which are the listener's own.
_CONNECTIONS = 480 if sys.platform == "win32" else 1024


@dataclass(frozen=True)
class Bounds:
    """Bounds that are no settings: bytes, seconds, and connections of one listener (see `memory` for their sum)."""

    max_body: int = 38 * MEBIBYTE  # larger ones are thrown away, and the application is told
    max_discarded: int = 256 * MEBIBYTE  # larger ones are refused without reading them
    memory: int = 192 * MEBIBYTE  # for large bodies and answers of all listeners together
    free_memory: int = MEBIBYTE  # what a body, and what is to be sent, may have of a connection's own
    ahead: int = MEBIBYTE // 4  # while more than this is unread, the connection's next request is not begun
    max_header: int = 32 * 1024
    upload_rate: int = 32 * 1024  # bytes a second: what was sent prolongs the deadline by the time it may take
    handshake_timeout: float = 10
    idle_timeout: float = 120
    first_bytes: float = 3  # how long a connection may say nothing and still be waited for when its listener ends
    linger_seconds: float = 2
    linger_bytes: int = 8 * MEBIBYTE
    connections: int = _CONNECTIONS
    patience: float = 2  # how long a connection may keep us waiting before a new one can take its place
    local_patience: float = 0.1


DEFAULT_BOUNDS = Bounds()


def adjustments(bounds: Bounds, request_timeout: float, scheme: str) -> Adjustments:
    """What Waitress is to know of it. Where it listens it is told apart: what it is told here it would look up."""
    told = Adjustments(
        host="127.0.0.1",
        ident=None,
        url_scheme=scheme,
        # What a client says about forwarding is the application's to judge: it must see it.
        trusted_proxy=None,
        clear_untrusted_proxy_headers=False,
        recv_bytes=16384,  # one TLS record
        outbuf_high_watermark=bounds.ahead,
        max_request_header_size=bounds.max_header,
        max_request_body_size=bounds.max_discarded + 1,
    )
    told.max_stored_body, told.free_memory = bounds.max_body, bounds.free_memory
    told.cleanup_interval = min(1.0, request_timeout / 4, bounds.handshake_timeout / 4)
    return told
