"""Which appliance a command speaks to.

`--instance` decides; then `--data-dir`, which means the appliance of that directory; then the environment's instance;
then the one that `instances use` or `login URL` chose; else it is `local`, the one of the data directory. The choice
belongs to the data directory in which it was made: under another one, as that of a demo, commands never reach it.
"""

import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mailbox_appliance.control import local, private_files
from mailbox_appliance.control.address import Address
from mailbox_appliance.control.failures import ACCESS, INPUT, Failure, unreachable, wrong_usage
from mailbox_appliance.system import ownership

LOCAL = "local"
#: What the keys of tokens begin with that belong to an address, and not to a data directory.
REMOTE = "url:"


@dataclass(frozen=True)
class Instance:
    """An appliance that can be asked. `key` is what its token is kept under."""

    name: str
    url: str
    key: str
    fingerprint: str | None = None

    def require_protected(self) -> "Instance":
        """This instance, unless it is on another computer and reached without encryption: that is a Failure."""
        address = Address.parse(self.url)
        if address.secure or address.is_loopback or not self.key.startswith(REMOTE):
            return self
        message = f"No password and no token goes to {address.url} unprotected: use https."
        raise Failure("https_required", message, ACCESS)


class Instances:
    """The remote appliances that this user logged in to, and which of them is in use."""

    def __init__(self, folder: Path, data_dir: Path) -> None:
        self._file, self._data_dir = folder / "instances.json", data_dir

    @property
    def current(self) -> str:
        """The name of the instance in use."""
        return str(self._load_choices().get(local_key(self._data_dir), LOCAL))

    def list(self) -> tuple[Instance, ...]:
        """The remembered instances, by name."""
        return tuple(self._load_instances()[name] for name in sorted(self._load_instances()))

    def get(self, name: str) -> Instance:
        """The instance of this name; an unknown one is a Failure that lists the known ones."""
        known = self._load_instances()
        if name not in known:
            names = ", ".join([LOCAL, *sorted(known)])
            raise Failure("not_found", f"There is no instance {name!r}. Known: {names}.", INPUT)
        return known[name]

    def find_by_url(self, url: str) -> Instance | None:
        """The instance at this address, if it is remembered."""
        return next((known for known in self._load_instances().values() if known.url == url), None)

    def add(self, url: str, fingerprint: str | None) -> Instance:
        """Remember an instance under its host name (and port, where that is not the usual one), and use it."""
        name = url.partition("://")[2].strip("/")
        instance = Instance(name, url, f"{REMOTE}{url}", fingerprint)
        self._save({**self._load_instances(), name: instance}, name)
        return instance

    def use(self, name: str) -> None:
        """Speak to this instance from now on: one of this name, or a remembered one at this address."""
        if "://" in name and (known := self.find_by_url(Address.parse(name).url)):
            name = known.name
        if name != LOCAL:
            self.get(name)
        self._save(self._load_instances(), name)

    def remove(self, name: str) -> Instance:
        """Forget an instance. What was in use falls back to the local one."""
        if name == LOCAL:
            raise wrong_usage("`local` is the appliance of the data directory; it cannot be removed, only others can.")
        removed, known = self.get(name), self._load_instances()
        del known[name]
        self._save(known, self.current)
        return removed

    def _load_instances(self) -> dict[str, Instance]:
        rows = private_files.read(self._file).get("instances", {})
        return {
            name: Instance(name, str(row["url"]), f"{REMOTE}{row['url']}", _pin(row.get("fingerprint")))
            for name, row in rows.items()
        }

    def _save(self, known: Mapping[str, Instance], current: str) -> None:
        rows = {name: {"url": known[name].url, "fingerprint": known[name].fingerprint} for name in sorted(known)}
        choices = {**self._load_choices(), local_key(self._data_dir): current}
        chosen = {context: name for context, name in choices.items() if name in known}
        private_files.write(self._file, {"current": chosen, "instances": rows})

    def _load_choices(self) -> dict[str, str]:
        return dict(private_files.read(self._file).get("current", {}))


def _pin(value: object) -> str | None:
    return None if value is None else str(value)


def local_key(data_dir: Path) -> str:
    """What the token of a data directory's appliance is kept under."""
    return f"dir:{data_dir.resolve()}"


def find_local(data_dir: Path) -> Instance | None:
    """The appliance that runs on the data directory, if one does."""
    running = local.find_running(data_dir)
    return Instance(LOCAL, Address.parse(running.url).url, local_key(data_dir)) if running else None


def get_local(data_dir: Path) -> Instance:
    """The appliance that runs on the data directory; none is a Failure that says how to start one.

    Raises StoreUnusable for a data directory of another user.
    """
    ownership.require_own(data_dir)
    instance = find_local(data_dir)
    if instance is None:
        raise unreachable(
            f"No appliance runs on {data_dir}. Start it with `{_serve(data_dir)}`, or name one with --instance."
        )
    return instance


def _serve(data_dir: Path) -> str:
    """The command that starts the appliance of this directory, which is named where it is not this user's own."""
    with suppress(Failure):  # somebody without a home
        if data_dir == local.default_data_dir():
            return "mailbox-appliance serve"
    path = str(data_dir)
    quoted = f'"{path}"' if sys.platform == "win32" else shlex.quote(path)
    return f"mailbox-appliance serve --data-dir {quoted}"


def choose(instances: Instances, wanted: str | None, data_dir: Path) -> Instance:
    """The instance that a command speaks to."""
    name = wanted or instances.current
    if "://" not in name:
        return get_local(data_dir) if name == LOCAL else instances.get(name)
    return at_url(instances, name, data_dir)


def at_url(instances: Instances, url: str, data_dir: Path) -> Instance:
    """The instance at an address: a remembered one, the local one when it listens there, or an unknown one."""
    url = Address.parse(url).url
    if known := instances.find_by_url(url):
        return known
    here = find_local(data_dir)
    return here if here is not None and here.url == url else Instance(url, url, f"{REMOTE}{url}")
