"""The context of one command: its global options, the appliance that it uses, and passphrases."""

import gc
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mailbox_appliance.cli.terminal import Terminal, require_utf8
from mailbox_appliance.client.errors import ACCESS, INTERNAL, NETWORK, Failure, wrong_usage

if TYPE_CHECKING:
    from pathlib import Path

    from mailbox_appliance.client.http import ApiClient
    from mailbox_appliance.client.instances import Instance, Instances
    from mailbox_appliance.client.tokens import TokenStore

ENVIRONMENT_PREFIX = "MAILBOX_APPLIANCE_"
PASSWORD_VARIABLE = "MAILBOX_APPLIANCE_PASSWORD"  # noqa: S105 - a name


@dataclass
class Invocation:
    """One use of the command line: its global options and terminal.

    `services`: the functions outside this package that commands may call. Maps a name to `module:function`.
    """

    terminal: Terminal
    services: Mapping[str, str] = field(default_factory=dict)
    instance: str | None = None
    data_dir: str | None = None
    format: str = "json"

    def variable(self, name: str) -> str | None:
        """Return the environment variable `MAILBOX_APPLIANCE_` + `name`; None if it is missing or empty."""
        return self.terminal.environment.get(ENVIRONMENT_PREFIX + name) or None

    def data_directory(self) -> "Path":
        """Return the data directory: the one that the command line or the environment names, or this user's default.

        Raises StoreUnusable if it belongs to another user (see `system.ownership`).
        """
        from mailbox_appliance.system import ownership

        folder = self._named_data_directory()
        ownership.require_own(folder)
        return folder

    def _named_data_directory(self) -> "Path":
        """Return the data directory without checking its owner, for commands that may use another appliance."""
        from mailbox_appliance.client.local import default_data_dir

        named = self.data_dir or self.variable("DATA_DIR")
        return _expand_folder(named) if named else default_data_dir()

    def config_directory(self) -> "Path":
        """Return the directory in which this user's known appliances and tokens are stored."""
        from mailbox_appliance.client.local import default_config_dir

        named = self.variable("CONFIG_DIR")
        return _expand_folder(named) if named else default_config_dir()

    def instances(self) -> "Instances":
        """Return the list of appliances that this user has signed in to."""
        from mailbox_appliance.client.instances import Instances

        return Instances(self.config_directory(), self._named_data_directory())

    def tokens(self) -> "TokenStore":
        """Return the store of this user's session tokens."""
        from mailbox_appliance.client.tokens import TokenStore

        return TokenStore(self.config_directory(), self.terminal.environment)

    def requested_instance(self) -> str | None:
        """Return the appliance that this command names, as a name or URL; None if it names none.

        `--data-dir X` on the command line names the appliance of X. It overrides the environment and the choice made
        with `instances use`.
        """
        if self.instance or self.data_dir is None:
            return self.instance or self.variable("INSTANCE")
        from mailbox_appliance.client.instances import LOCAL

        return LOCAL

    def resolve_instance(self) -> "Instance":
        """Return the appliance that this command uses: the one it names, else the user's current one."""
        from mailbox_appliance.client.instances import choose_instance

        return choose_instance(self.instances(), self.requested_instance(), self._named_data_directory())

    def client(self) -> "ApiClient":
        """Return a client of the appliance that this command uses.

        Its token is that in the environment, else that of the stored session. Raises Failure if there is none.
        """
        from mailbox_appliance.client.http import ApiClient

        instance = self.resolve_instance().require_protected()
        token = (self.variable("TOKEN") or "").strip() or self.tokens().find(instance.key)
        if token is None:
            _require_reachable(instance)
            raise Failure(
                "unauthenticated",
                "You are not signed in. Run `mailbox-appliance login` (`mailbox-appliance setup` on a new appliance),"
                " or set MAILBOX_APPLIANCE_TOKEN.",
                ACCESS,
            )
        return ApiClient(instance.url, token, instance.fingerprint)

    def service(self, name: str) -> Callable[..., Any]:
        """Import and return the function that `services` has under this name.

        Raises Failure if the function or a package that it needs is not installed.
        """
        module, _, function = self.services.get(name, "").partition(":")
        if not module:
            raise Failure("internal_error", f"{name} is not part of this installation.", INTERNAL)
        # Do not collect garbage during imports: their objects stay, and collecting takes a fifth of the start of
        # `serve`.
        gc.disable()
        try:
            found: Callable[..., Any] = getattr(importlib.import_module(module), function)
        except ModuleNotFoundError as error:
            hint = " Install it with `pip install 'mailbox-appliance[demo]'`." if name == "demo" else ""
            raise Failure("internal_error", f"{name} needs {error.name}, which is missing.{hint}", INTERNAL) from error
        finally:
            gc.enable()
        return found


def _expand_folder(named: str) -> "Path":
    from pathlib import Path

    try:
        return Path(named).expanduser().absolute()
    except RuntimeError as error:
        raise wrong_usage(f"The `~` in {named} cannot be resolved: this user has no home directory.") from error


def _require_reachable(instance: "Instance") -> None:
    """Raise Failure if a remote appliance sends no response. An error response counts as a response."""
    from mailbox_appliance.client.http import ApiClient, ApiRequest
    from mailbox_appliance.client.instances import REMOTE

    if not instance.key.startswith(REMOTE):
        return  # the local one, which is known to be running
    try:
        ApiClient(instance.url, fingerprint=instance.fingerprint).call(ApiRequest("GET", "", timeout=10))
    except Failure as failure:
        if failure.exit_code == NETWORK:
            raise


# --- The operator: commands on the data directory, to the appliance that runs there ---
#
# A user who can read the data directory is its operator. `run.json` in it proves that to the running appliance, so
# commands about the store need no sign-in.


#: The most seconds that maintenance work may take at a running appliance.
LONG_WORK_SECONDS = 12 * 3600.0


def names_other_appliance(invocation: Invocation) -> bool:
    """Whether this command uses an appliance other than that of the local data directory."""
    from mailbox_appliance.client.instances import LOCAL

    return (invocation.requested_instance() or invocation.instances().current) != LOCAL


def operator_client(invocation: Invocation) -> "ApiClient | None":
    """Return a client of the appliance that this command uses:

    - If that is the appliance of the local data directory, the client has the operator's access. Returns None if it
      is not running.
    - If it is another appliance, the client has the access of the user's session.
    """
    if names_other_appliance(invocation):
        return invocation.client()
    from mailbox_appliance.client import local
    from mailbox_appliance.client.http import ApiClient

    running = local.find_running(invocation.data_directory())
    return ApiClient(running.url, running.secret) if running else None


# --- Passphrases of backups and of the store's key: from stdin, the environment, or typed. Never an argument ---


T = TypeVar("T")
#: Shows the progress of long work: step, done, total.
TellProgress = Callable[[str, int, int], None]

PASSPHRASE_NAME = "PASSPHRASE"  # noqa: S105 - of a variable
PASSPHRASE_STDIN = click.Option(
    ["--passphrase-stdin"], is_flag=True, help="Read the passphrase from the first line of stdin."
)
#: The error codes of a missing or wrong passphrase.
_PASSPHRASE_CODES = frozenset({"backup_wrong_passphrase", "passphrase_needed"})


def _read_passphrase(invocation: Invocation, *, from_stdin: bool) -> str | None:
    if from_stdin:
        return invocation.terminal.secret_line("passphrase")
    found = invocation.variable(PASSPHRASE_NAME)
    return found if found is None else require_utf8(found, ENVIRONMENT_PREFIX + PASSPHRASE_NAME)


def read_new_passphrase(invocation: Invocation, *, from_stdin: bool) -> str:
    """Return a new passphrase: from stdin if requested, else from the environment, else from a prompt that asks
    twice.
    """
    return invocation.terminal.secret(
        "New passphrase", ENVIRONMENT_PREFIX + PASSPHRASE_NAME, from_stdin=from_stdin, twice=True, what="passphrase"
    )


def call_with_passphrase(
    invocation: Invocation, opening: Callable[[str | None, TellProgress], T], *, from_stdin: bool = False
) -> T:
    """Call `opening` with the passphrase of the command, or None, and a function that shows progress; return its
    result.

    If `opening` fails because a passphrase is missing, and stdin is a terminal, prompt for one and call it once more.
    """

    def act(passphrase: str | None) -> T:
        with invocation.terminal.progress_bar() as tell:
            return opening(passphrase, tell)

    passphrase = _read_passphrase(invocation, from_stdin=from_stdin)
    try:
        return act(passphrase)
    except Exception as problem:
        is_missing = passphrase is None and getattr(problem, "code", None) in _PASSPHRASE_CODES
        if not is_missing or not invocation.terminal.stdin.isatty():
            raise
    variable = ENVIRONMENT_PREFIX + PASSPHRASE_NAME
    return act(invocation.terminal.secret("Passphrase", variable, from_stdin=False, what="passphrase"))
