"""What a listener takes of one connection, and of all of them."""

from dataclasses import dataclass

MEBIBYTE = 1 << 20


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
    linger_seconds: float = 2
    linger_bytes: int = 8 * MEBIBYTE
    connections: int = 1024
    patience: float = 2  # how long a connection may keep us waiting before a new one can take its place
    local_patience: float = 0.1


DEFAULT_BOUNDS = Bounds()
