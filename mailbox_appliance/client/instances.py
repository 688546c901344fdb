"""The appliances that this user knows (instances), and the private JSON file that stores them.

A command uses the first of these that is given:

1. the appliance named by `--instance`
2. the appliance of the directory named by `--data-dir`
3. the appliance named in the environment
4. the current appliance, chosen by `instances use` or `login URL`
5. `local`, the appliance of the data directory

A choice (4) is valid only for the data directory with which it was made. So commands for another directory, such as
that of a demo, never use it.
"""

import json
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mailbox_appliance.client import local
from mailbox_appliance.client.address import ServerAddress
from mailbox_appliance.client.errors import ACCESS, INPUT, INTERNAL, Failure, unreachable, wrong_usage
from mailbox_appliance.system import ownership
from mailbox_appliance.system.files import write_whole

# --- Small JSON files that only their owner can read, always replaced as a whole ---


_LARGEST = 1024 * 1024


def read_json(file: Path) -> dict[str, Any]:
    """Return the JSON object in the file; an empty one if the file does not exist.

    Raises Failure if the file is damaged.
    """
    try:
        with file.open("rb") as stream:
            value = json.loads(stream.read(_LARGEST))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _damaged_file(file) from error
    if not isinstance(value, dict):
        raise _damaged_file(file)
    return value


def write_json(file: Path, value: dict[str, Any]) -> None:
    """Replace the file by this JSON object. Only its owner can read it (mode 0600; new folders get 0700)."""
    ownership.make_folder(file.parent)
    write_whole(file, json.dumps(value, indent=2).encode())


def _damaged_file(file: Path) -> Failure:
    return Failure("local_file_damaged", f"{file} is damaged. Repair it, or delete it and sign in again.", INTERNAL)


# --- Instances ---


LOCAL = "local"
#: The prefix of token keys that belong to an address rather than a data directory.
REMOTE = "url:"


@dataclass(frozen=True)
class Instance:
    """An appliance that the user knows. `key`: the name of its token in the token store."""

    name: str
    url: str
    key: str
    fingerprint: str | None = None

    def require_protected(self) -> "Instance":
        """Return this appliance. Raises Failure if it is on another computer and its address is not HTTPS."""
        address = ServerAddress.parse(self.url)
        if address.secure or address.is_loopback or not self.key.startswith(REMOTE):
            return self
        message = f"{address.url} is remote and not encrypted, so no password or token is sent to it. Use https."
        raise Failure("https_required", message, ACCESS)


class Instances:
    """The remote appliances that this user signed in to, and the current one, which commands use by default."""

    def __init__(self, folder: Path, data_dir: Path) -> None:
        self._file, self._data_dir = folder / "instances.json", data_dir

    @property
    def current(self) -> str:
        """The name of the current appliance; `local` if none was chosen."""
        return str(self._load_choices().get(local_key(self._data_dir), LOCAL))

    def list(self) -> tuple[Instance, ...]:
        """Return the remote appliances, sorted by name."""
        return tuple(self._load_instances()[name] for name in sorted(self._load_instances()))

    def get(self, name: str) -> Instance:
        """Return the appliance of this name. Raises Failure, which lists the known names, if there is none."""
        known = self._load_instances()
        if name not in known:
            names = ", ".join([LOCAL, *sorted(known)])
            raise Failure("not_found", f"Unknown instance {name!r}. Known instances: {names}.", INPUT)
        return known[name]

    def find_by_url(self, url: str) -> Instance | None:
        """Return the known appliance at this address; None if there is none."""
        return next((known for known in self._load_instances().values() if known.url == url), None)

    def add(self, url: str, fingerprint: str | None) -> Instance:
        """Store an appliance and make it the current one.

        Its name is its host name, with any port other than the default.
        """
        name = url.partition("://")[2].strip("/")
        instance = Instance(name, url, f"{REMOTE}{url}", fingerprint)
        self._save({**self._load_instances(), name: instance}, name)
        return instance

    def use(self, name: str) -> None:
        """Make an appliance the current one. `name`: its name or address. Raises Failure if it is not known."""
        if "://" in name and (known := self.find_by_url(ServerAddress.parse(name).url)):
            name = known.name
        if name != LOCAL:
            self.get(name)
        self._save(self._load_instances(), name)

    def remove(self, name: str) -> Instance:
        """Remove an appliance and return it. If it was the current one, the local one becomes current."""
        if name == LOCAL:
            raise wrong_usage("`local` is the appliance of the data directory and cannot be removed.")
        removed, known = self.get(name), self._load_instances()
        del known[name]
        self._save(known, self.current)
        return removed

    def _load_instances(self) -> dict[str, Instance]:
        rows = read_json(self._file).get("instances", {})
        return {
            name: Instance(name, str(row["url"]), f"{REMOTE}{row['url']}", _to_fingerprint(row.get("fingerprint")))
            for name, row in rows.items()
        }

    def _save(self, known: Mapping[str, Instance], current: str) -> None:
        rows = {name: {"url": known[name].url, "fingerprint": known[name].fingerprint} for name in sorted(known)}
        choices = {**self._load_choices(), local_key(self._data_dir): current}
        chosen = {context: name for context, name in choices.items() if name in known}
        write_json(self._file, {"current": chosen, "instances": rows})

    def _load_choices(self) -> dict[str, str]:
        return dict(read_json(self._file).get("current", {}))


def _to_fingerprint(value: object) -> str | None:
    return None if value is None else str(value)


def local_key(data_dir: Path) -> str:
    """Return the name, in the token store, of the token for a data directory's appliance."""
    return f"dir:{data_dir.resolve()}"


def find_local(data_dir: Path) -> Instance | None:
    """Return the appliance that is running on the data directory; None if none is."""
    running = local.find_running(data_dir)
    return Instance(LOCAL, ServerAddress.parse(running.url).url, local_key(data_dir)) if running else None


def get_local(data_dir: Path) -> Instance:
    """Return the appliance that is running on the data directory.

    Raises Failure with the command that starts one if none is running, and StoreUnusable if the directory belongs to
    another user.
    """
    ownership.require_own(data_dir)
    instance = find_local(data_dir)
    if instance is None:
        raise unreachable(
            f"No appliance is running on {data_dir}. Start it with `{_serve_command(data_dir)}`, or choose another with"
            " --instance."
        )
    return instance


def _serve_command(data_dir: Path) -> str:
    """Return the command that starts the appliance of this directory.

    It names the directory, unless that is this user's default.
    """
    with suppress(Failure):  # a user without a home directory
        if data_dir == local.default_data_dir():
            return "mailbox-appliance serve"
    path = str(data_dir)
    quoted = f'"{path}"' if sys.platform == "win32" else shlex.quote(path)
    return f"mailbox-appliance serve --data-dir {quoted}"


def choose_instance(instances: Instances, wanted: str | None, data_dir: Path) -> Instance:
    """Return the appliance that a command uses. `wanted`: its name or address; None for the current one."""
    name = wanted or instances.current
    if "://" not in name:
        return get_local(data_dir) if name == LOCAL else instances.get(name)
    return instance_at_url(instances, name, data_dir)


def instance_at_url(instances: Instances, url: str, data_dir: Path) -> Instance:
    """Return the appliance at an address: a known one, the one of `data_dir` if that listens there, or a new one.

    A new one is not stored.
    """
    url = ServerAddress.parse(url).url
    if known := instances.find_by_url(url):
        return known
    here = find_local(data_dir)
    return here if here is not None and here.url == url else Instance(url, url, f"{REMOTE}{url}")
