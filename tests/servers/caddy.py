"""A real Caddy in front of the appliance, on a port of loopback, with a certificate that it makes itself."""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers.front import Front

# Nothing but its addresses and its certificate, and that it keeps to itself.
_GLOBAL = """\
{{
    admin off
    auto_https disable_redirects
    local_certs
    skip_install_trust
    https_port {port}
    default_bind 127.0.0.1
    storage file_system {folder}
}}
"""


class Caddy(Front):
    """Caddy with the site that a document shows."""

    def __init__(self, folder: Path, site: str, *, backend: str) -> None:
        name = site.split()[0]
        super().__init__(folder, name)
        site, replaced = re.subn(r"reverse_proxy \S+", f"reverse_proxy {urlsplit(backend).netloc}", site)
        assert replaced == 1, "the site forwards to nobody"
        (folder / "Caddyfile").write_text(_GLOBAL.format(port=self.port, folder=folder) + site)

    def command(self) -> Sequence[str]:
        """What starts it, in the foreground."""
        return ("caddy", "run", "--config", str(self.folder / "Caddyfile"), "--adapter", "caddyfile")
