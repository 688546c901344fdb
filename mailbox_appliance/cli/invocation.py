"""One run of the command line: what was asked for globally, and how to reach what it needs."""

import gc
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mailbox_appliance.cli.terminal import Terminal
from mailbox_appliance.client.errors import ACCESS, INTERNAL, NETWORK, Failure, wrong_usage

if TYPE_CHECKING:
    from pathlib import Path

    from mailbox_appliance.client.http import ApiClient
    from mailbox_appliance.client.instances import Instance, Instances
    from mailbox_appliance.client.tokens import TokenStore

ENVIRONMENT = "MAILBOX_APPLIANCE_"


@dataclass
class Invocation:
    """The global options as they are read, the terminal, and what floors above offer (name -> module:function)."""

    terminal: Terminal
    services: Mapping[str, str] = field(default_factory=dict)
    instance: str | None = None
    data_dir: str | None = None
    format: str = "json"

    def variable(self, name: str) -> str | None:
        """An environment variable of ours; an empty one counts as not set."""
        return self.terminal.environment.get(ENVIRONMENT + name) or None

    def data_directory(self) -> "Path":
        """The data directory: named, or this user's. Raises StoreUnusable for one of another user (`ownership`)."""
        from mailbox_appliance.system import ownership

        folder = self._named_data_directory()
        ownership.require_own(folder)
        return folder

    def _named_data_directory(self) -> "Path":
        """The same, not looked at: for what may be about another appliance."""
        from mailbox_appliance.client.local import default_data_dir

        named = self.data_dir or self.variable("DATA_DIR")
        return _folder(named) if named else default_data_dir()

    def config_directory(self) -> "Path":
        """Where this user's instances and tokens are remembered."""
        from mailbox_appliance.client.local import default_config_dir

        named = self.variable("CONFIG_DIR")
        return _folder(named) if named else default_config_dir()

    def instances(self) -> "Instances":
        """The instances that this user remembers."""
        from mailbox_appliance.client.instances import Instances

        return Instances(self.config_directory(), self._named_data_directory())

    def tokens(self) -> "TokenStore":
        """The tokens of this user."""
        from mailbox_appliance.client.tokens import TokenStore

        return TokenStore(self.config_directory(), self.terminal.environment)

    def requested_instance(self) -> str | None:
        """The instance that is named; None: the one in use. `--data-dir X` on the command line means X: it beats
        both the environment and what is in use.
        """
        if self.instance or self.data_dir is None:
            return self.instance or self.variable("INSTANCE")
        from mailbox_appliance.client.instances import LOCAL

        return LOCAL

    def resolve_instance(self) -> "Instance":
        """The instance that is spoken to."""
        from mailbox_appliance.client.instances import choose_instance

        return choose_instance(self.instances(), self.requested_instance(), self._named_data_directory())

    def client(self) -> "ApiClient":
        """A client of the chosen instance that shows a token: the environment's, else the one of the last login."""
        from mailbox_appliance.client.http import ApiClient

        instance = self.resolve_instance().require_protected()
        token = (self.variable("TOKEN") or "").strip() or self.tokens().find(instance.key)
        if token is None:
            _see_that_it_answers(instance)
            raise Failure(
                "unauthenticated",
                "You are not logged in. Log in with `mailbox-appliance login`, or set MAILBOX_APPLIANCE_TOKEN.",
                ACCESS,
            )
        return ApiClient(instance.url, token, instance.fingerprint)

    def service(self, name: str) -> Callable[..., Any]:
        """A function that a floor above offers; what it needs is imported now."""
        module, _, function = self.services.get(name, "").partition(":")
        if not module:
            raise Failure("internal_error", f"{name} is not part of this installation.", INTERNAL)
        # What loading makes stays: looking through it for garbage meanwhile takes a fifth of the start of `serve`.
        gc.disable()
        try:
            found: Callable[..., Any] = getattr(importlib.import_module(module), function)
        except ModuleNotFoundError as error:
            hint = " Install it with `pip install 'mailbox-appliance[demo]'`." if name == "demo" else ""
            raise Failure("internal_error", f"{name} needs {error.name}, which is missing.{hint}", INTERNAL) from error
        finally:
            gc.enable()
        return found


def _folder(named: str) -> "Path":
    from pathlib import Path

    try:
        return Path(named).expanduser().absolute()
    except RuntimeError as error:
        raise wrong_usage(f"There is no home directory for the `~` in {named}.") from error


def _see_that_it_answers(instance: "Instance") -> None:
    """Raise the Failure that tells so where an address cannot be reached; whatever answers there is good enough."""
    from mailbox_appliance.client.http import ApiClient, ApiRequest
    from mailbox_appliance.client.instances import REMOTE

    if not instance.key.startswith(REMOTE):
        return  # the local one, which is known to run
    try:
        ApiClient(instance.url, fingerprint=instance.fingerprint).call(ApiRequest("GET", "", timeout=10))
    except Failure as failure:
        if failure.exit_code == NETWORK:
            raise
