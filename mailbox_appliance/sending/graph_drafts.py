"""What became of a draft that Microsoft Graph was asked to send: only it can say, by the id that the journal has."""

from mailbox_appliance.authorization.logins import Logins
from mailbox_appliance.remote.graph import DraftState


class GraphDrafts:
    """Asks. May be used from any thread."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def state(self, account_id: str, draft_id: str) -> DraftState:
        """What became of a draft of a mailbox. Raises RemoteFault, and NotFound where the mailbox is gone."""
        graph = self._logins.graph(account_id)
        return self._logins.token(account_id, "graph", lambda token: graph.look(token, draft_id))
