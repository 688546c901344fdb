"""Parses and normalizes the address of an appliance."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from mailbox_appliance.client.errors import Failure, wrong_usage

#: The prefix of the path of every operation.
API = "/api/v1"


@dataclass(frozen=True)
class ServerAddress:
    """The parsed address of an appliance. `prefix`: the part of its path before `/api/v1`."""

    secure: bool
    host: str
    port: int
    prefix: str

    @classmethod
    def parse(cls, url: str) -> "ServerAddress":
        """Parse `http://HOST[:PORT][/PREFIX][/api/v1]` or `https://...`. Raises Failure for anything else."""
        try:
            parts = urlsplit(url)
            port, host = parts.port, parts.hostname
        except ValueError as error:
            raise invalid_address() from error
        spare = parts.username or parts.password or parts.query or parts.fragment
        if parts.scheme not in ("http", "https") or not host or host[0] == "." or spare or not is_printable_ascii(url):
            raise invalid_address()
        prefix = parts.path.rstrip("/").removesuffix(API).rstrip("/")
        return cls(parts.scheme == "https", host, port or (443 if parts.scheme == "https" else 80), prefix)

    @property
    def url(self) -> str:
        """The normalized address, for comparison and display."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == (443 if self.secure else 80) else f":{self.port}"
        return f"{'https' if self.secure else 'http'}://{host}{port}{self.prefix}"

    @property
    def is_loopback(self) -> bool:
        """Whether the address is that of this computer."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def invalid_address() -> Failure:
    """Return the error for a text that is not a valid address of an appliance."""
    message = "Invalid address. Use a form such as https://mail.example.org:8443, without user, query and fragment."
    return wrong_usage(message)


def is_printable_ascii(text: str) -> bool:
    """Whether a text is printable ASCII without spaces."""
    return all("!" <= character <= "~" for character in text)
