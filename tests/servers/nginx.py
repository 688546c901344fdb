"""A real nginx in front of the appliance, on a port of loopback, from files of its own."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from tests.servers.certificates import make_certificates
from tests.servers.front import Front

_AROUND = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{server}
}}
"""


class Nginx(Front):
    """nginx with the `server` block that a document shows, but for its addresses and its certificate."""

    def __init__(self, folder: Path, server: str, *, backend: str) -> None:
        (name,) = re.findall(r"server_name ([^;]+);", server)
        super().__init__(folder, name)
        make_certificates(folder)
        block = re.sub(r"\n *listen \[[^;]+;", "", server)
        for what, instead in (
            (r"listen [^;]+;", f"listen 127.0.0.1:{self.port} ssl;"),
            (r"ssl_certificate [^;]+;", f"ssl_certificate {folder}/server.pem;"),
            (r"ssl_certificate_key [^;]+;", f"ssl_certificate_key {folder}/server.key;"),
            (r"proxy_pass http://[^;]+;", f"proxy_pass {backend};"),
        ):
            block, replaced = re.subn(what, instead, block)
            assert replaced == 1, f"the block has no {what}"
        user = "user root;" if os.geteuid() == 0 else ""
        (folder / "nginx.conf").write_text(_AROUND.format(folder=folder, user=user, server=block))

    def command(self) -> Sequence[str]:
        """What starts it, in the foreground."""
        return ("nginx", "-c", str(self.folder / "nginx.conf"), "-p", str(self.folder), "-e", "stderr")
