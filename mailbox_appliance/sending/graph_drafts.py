"""The drafts that Microsoft Graph was given to send: what became of them, and those that nobody sends any more."""

import logging
import threading

from mailbox_appliance.errors import NotFound
from mailbox_appliance.oauth.logins import Logins
from mailbox_appliance.remote.faults import RemoteFault
from mailbox_appliance.remote.graph import DraftState, Graph

log = logging.getLogger(__name__)


class GraphDrafts:
    """Asks. May be used from any thread."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def state(self, account_id: str, draft_id: str) -> DraftState:
        """What became of a draft of a mailbox. Raises RemoteFault, and NotFound where the mailbox is gone."""
        graph = self._logins.get_graph(account_id)
        return self._logins.use_token(account_id, "graph", lambda token: graph.get_draft_state(token, draft_id))

    def remove_later(self, account_id: str, message_id: str) -> None:
        """Remove the drafts of an operation that is withdrawn, without anybody waiting for it.

        No other operation has its Message-ID, ever: none of these drafts is about to be sent.
        """
        try:
            if self._logins.get_login(account_id).sends_via != "graph":
                return
            name = f"abandoned drafts {account_id}"
            threading.Thread(target=self._clear, args=(account_id, message_id), name=name, daemon=True).start()
        except (NotFound, RuntimeError):  # it has passwords, or is gone; no more threads are to be had
            return

    def _clear(self, account_id: str, message_id: str) -> None:
        def clear(graph: Graph, token: str) -> None:
            for draft_id in graph.find_drafts(token, message_id):
                graph.delete_draft(token, draft_id)

        try:
            graph = self._logins.get_graph(account_id)
            self._logins.use_token(account_id, "graph", lambda token: clear(graph, token))
        except (NotFound, RemoteFault) as error:
            log.warning("a draft may be left", extra={"account": account_id, "error": type(error).__name__})
        except Exception:  # what is left lies among the drafts, for a person
            log.exception("a draft may be left", extra={"account": account_id})
