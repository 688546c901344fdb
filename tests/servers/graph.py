"""Microsoft Graph's mail on a socket, as far as it is asked: drafts from MIME, their sending, what became of them.

    graph.at("send", Says(503))              a refusal: nothing is done
    graph.at("sent", DROP)                   the message is sent, and the client never learns it
    graph.at("sent", Stall(Says(504)))       held until release(); then a gateway's word for it
    graph.at("drafted", [CLOSE])             a list: one action an occurrence, then as usual

The steps: draft, drafted (it is kept; then comes the answer), send, sent (it is gone; then comes the answer), look,
folder, list, remove, addresses; and those of files that are added (`graph_files`).

As the documents have it:

    learn.microsoft.com/graph/outlook-send-mime-message .. MIME in base64 as text/plain; 4 MB at most, else 413
    learn.microsoft.com/graph/api/message-send ........... 202, and no content
    learn.microsoft.com/graph/outlook-immutable-id ....... with the header an id stays when the draft is sent, and the
                                                           copy in Sent Items may come later; without it, it changes
    learn.microsoft.com/graph/api/user-get ............... proxyAddresses: SMTP: is the main one, smtp: another
    learn.microsoft.com/exchange (EWS ResponseCode) ...... the codes
"""

import base64
import binascii
import secrets
import threading
from collections.abc import Callable
from email.utils import getaddresses
from http.server import ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.certificates import make_certificates
from tests.servers.graph_answers import Answered, Refused, error, in_json
from tests.servers.graph_files import UploadHost
from tests.servers.graph_requests import Asked, handler
from tests.servers.graph_script import STEPS, Action, Folder, HungUp, Item, Says, Sent, Step, joined
from tests.servers.smtp_script import HangUp, Stall

__all__ = ["GraphServer", "Says"]

MOST = 4 << 20


class GraphServer:
    """The server. Change the script whenever you like. `user_of`: whose token that is, if anybody's."""

    def __init__(self, certificates: Path, user_of: Callable[[str], str | None]) -> None:
        self.user_of = user_of
        #: Other people's mailboxes that somebody may open.
        self.shared: dict[str, set[str]] = {}
        #: What somebody may send as besides: their other addresses, the main one is their own.
        self.aliases: dict[str, tuple[str, ...]] = {}
        #: Done with each message that went out: the one who sent it, and the copy for Sent Items.
        self.filed: Callable[[str, bytes], object] = lambda *_: None
        #: Called when a client has come to a step, before anything is done there.
        self.before: Callable[[Step], object] = lambda _: None
        #: Whether the copy in Sent Items is there as soon as the message is sent.
        self.is_quick = True
        self.items: dict[str, Item] = {}
        self.asked: list[Asked] = []
        self._sent: list[Sent] = []
        self._script: dict[Step, list[Action] | Action] = {}
        self._reached, self._released, self._held = (dict.fromkeys(STEPS, 0) for _ in range(3))
        self._changed = threading.Condition()
        self.connections = 0
        self.is_open = True
        if not (certificates / "server.pem").exists():
            make_certificates(certificates)
        self.ca_file = certificates / "ca.pem"
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self, certificates))
        self._server.daemon_threads = True
        #: Where large files are taken.
        self.uploads = UploadHost(self, certificates)
        name = "graph double"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name=name, daemon=True)

    def __enter__(self) -> "GraphServer":
        self._thread.start()
        self.uploads.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self.uploads.stop()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"https://localhost:{self._server.server_port}"

    @property
    def row(self) -> str:
        """The line of a file for `remote.providers_file` that lets files go to where they are taken."""
        return f'upload_hosts = ["{self.uploads.place}"]\n'

    def connected(self, more: int) -> None:
        """So many connections more are open."""
        with self._changed:
            self.connections += more

    def close_door(self) -> None:
        """Take no more connections until `open_door`; those that there are go on."""
        self.is_open = False

    def open_door(self) -> None:
        """Take connections again."""
        self.is_open = True

    # --- what a test says and asks ---

    def at(self, step: Step, action: Action | list[Action]) -> None:
        """From now on do this at that step."""
        with self._changed:
            self._script[step] = list(action) if isinstance(action, list) else action

    def forget(self) -> None:
        """From now on do as usual, let everybody go, and count from nothing; nothing is kept."""
        self.release()
        with self._changed:
            self._script.clear()
            self._reached = dict.fromkeys(STEPS, 0)
            self._sent.clear()
            self.items.clear()
            self.asked.clear()
            self.uploads.forget()

    def release(self, *steps: Step) -> None:
        """Let those go on who are held now; later ones are held again."""
        with self._changed:
            for step in steps or STEPS:
                self._released[step] += 1
            self._changed.notify_all()

    def held(self, step: Step) -> int:
        """How many clients are held at that step now."""
        with self._changed:
            return self._held[step]

    def count(self, step: Step) -> int:
        """How often a client has come to that step."""
        with self._changed:
            return self._reached[step]

    @property
    def messages(self) -> tuple[Sent, ...]:
        """All that went out, oldest first."""
        with self._changed:
            return tuple(self._sent)

    @property
    def mail(self) -> list[Asked]:
        """What was asked to be done with messages; who only looks is left out."""
        with self._changed:
            return [each for each in self.asked if "/messages" in each.target and each.method == "POST"]

    def drafts(self, owner: str) -> list[Item]:
        """What lies in Drafts."""
        with self._changed:
            return [each for each in self.items.values() if each.owner == owner and each.folder == "drafts"]

    def settle(self) -> None:
        """What was sent is in Sent Items now."""
        with self._changed:
            for each in self.items.values():
                each.folder = "sentitems" if each.folder == "nowhere" else each.folder

    # --- what a request asks ---

    def answer(self, asked: Asked) -> Answered:
        """Status, body and header fields. Raises HungUp."""
        with self._changed:
            self.asked.append(asked)
        try:
            return self._answer(asked)
        except Refused as refused:
            return error(refused.says)

    def _answer(self, asked: Asked) -> Answered:
        user = self.user_of(asked.token)
        if user is None:
            raise Refused(Says(401, "InvalidAuthenticationToken"))
        path, query = urlsplit(asked.target).path, parse_qs(urlsplit(asked.target).query)
        words = [unquote(word) for word in path.strip("/").split("/")]
        assert words[0] == "v1.0", words
        owner, rest = (user, words[2:]) if words[1] == "me" else (words[2], words[3:])
        if owner != user and owner not in self.shared.get(user, ()):
            raise Refused(Says(403, "ErrorAccessDenied"))
        match asked.method, rest:
            case "POST", ["messages"]:
                return self._draft(owner, asked)
            case "POST", ["messages", item, "send"]:
                return self._send(owner, item)
            case "POST", ["messages", item, "attachments"]:
                return self.uploads.attach(self._find(owner, item, "drafts"), asked)
            case "POST", ["messages", item, "attachments", "createUploadSession"]:
                return self.uploads.begin(user, self._find(owner, item, "drafts"), asked)
            case "GET", ["messages", item]:
                self.act("look")
                found = self._find(owner, item, "drafts", "sentitems")
                return in_json(200, {"id": found.id, "isDraft": found.folder == "drafts"})
            case "DELETE", ["messages", item]:
                self.act("remove")
                del self.items[self._find(owner, item, "drafts", "sentitems").id]
                return 204, b"", {}
            case "GET", ["mailFolders", "drafts"]:
                self.act("folder")
                return in_json(200, {"id": "drafts"})
            case "GET", ["mailFolders", "drafts", "messages"]:
                self.act("list")
                wanted = query["$filter"][0].removeprefix("internetMessageId eq '").removesuffix("'")
                found_all = [each for each in self.drafts(owner) if each.message_id == wanted]
                return in_json(200, {"value": [{"id": each.id, "isDraft": True} for each in found_all]})
            case "GET", []:
                self.act("addresses")
                others = [f"smtp:{each}" for each in self.aliases.get(owner, ())]
                return in_json(200, {"mail": owner, "proxyAddresses": [f"SMTP:{owner}", *others, "x500:/o=Example"]})
        raise Refused(Says(400, "BadRequest"))

    def _draft(self, owner: str, asked: Asked) -> Answered:
        self.act("draft")
        assert asked.headers["content-type"] == "text/plain"
        if len(asked.body) > MOST:
            raise Refused(Says(413, "RequestEntityTooLarge"))
        try:
            mime = base64.b64decode(asked.body, validate=True)
        except binascii.Error:
            raise Refused(Says(400, "ErrorMimeContentInvalidBase64String")) from None
        made = Item(f"AAkALg{secrets.token_urlsafe(90)}=", owner, mime)
        with self._changed:
            self.items[made.id] = made
        self.act("drafted")
        body = {"contentType": "text", "content": str(made.read.get_body())}
        return in_json(201, {"id": made.id, "isDraft": True, "internetMessageId": made.message_id, "body": body})

    def _send(self, owner: str, item: str) -> Answered:
        self.act("send")
        with self._changed:
            found = self._find(owner, item, "drafts")
            read = found.read
            sender = getaddresses([str(read["From"])])[0][1]
            if sender not in (owner, *self.aliases.get(owner, ())):
                raise Refused(Says(403, "ErrorSendAsDenied"))
            fields = [str(each) for name in ("To", "Cc", "Bcc") for each in read.get_all(name, [])]
            recipients = tuple(address for _, address in getaddresses(fields))
            if not recipients:
                raise Refused(Says(400, "ErrorInvalidRecipients"))
            del read["Bcc"]
            source = joined(read, found.files)
            self._sent.append(Sent(owner, sender, recipients, source, found.message_id, tuple(found.files)))
            found.folder = "sentitems" if self.is_quick else "nowhere"
        self.filed(owner, joined(found.read, found.files) if found.files else found.mime)
        self.act("sent")
        return 202, b"", {}

    def _find(self, owner: str, item: str, *folders: Folder) -> Item:
        found = self.items.get(item)
        if found is None or found.owner != owner or found.folder not in folders:
            raise Refused(Says(404, "ErrorItemNotFound"))
        return found

    def act(self, step: Step) -> None:
        """A client has come to a step. Raises HungUp, and Refused."""
        self.before(step)
        with self._changed:
            self._reached[step] += 1
            planned = self._script.get(step)
            action = (planned.pop(0) if planned else None) if isinstance(planned, list) else planned
            if isinstance(action, Stall):
                number = self._released[step]
                self._held[step] += 1
                self._changed.wait_for(lambda: self._released[step] > number, 60)
                self._held[step] -= 1
                action = action.then  # type: ignore[assignment]  # a test gives it what this server knows
        if isinstance(action, HangUp):
            raise HungUp(action.reset)
        if isinstance(action, Says):
            raise Refused(action)
