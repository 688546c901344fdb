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
from collections.abc import Callable
from email.utils import getaddresses
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.servers.certificates import server_context
from tests.servers.graph_files import UploadHost
from tests.servers.graph_script import STEPS, Action, Folder, Item, Refused, Says, Sent, Step, error, in_json, joined
from tests.servers.listener import Answered, Asked, HttpListener, HungUp, Script
from tests.servers.smtp_script import HangUp, Stall

__all__ = ["GraphServer", "Says"]

MOST = 4 << 20


class GraphServer(Script[Step, Action]):
    """The server. Change the script whenever you like. `user_of`: whose token that is, if anybody's."""

    def __init__(self, certificates: Path, user_of: Callable[[str], str | None]) -> None:
        super().__init__(STEPS)
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
        context = server_context(certificates)
        self.ca_file = certificates / "ca.pem"
        self._server = HttpListener(self.answer, "graph double", context)
        self.url = self._server.url
        #: Where large files are taken.
        self.uploads = UploadHost(self, context)

    def __enter__(self) -> "GraphServer":
        self._server.start()
        self.uploads.listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.let_all_go()
        self.uploads.listener.stop()
        self._server.stop()

    @property
    def row(self) -> str:
        """The line of a file for `remote.providers_file` that lets files go to where they are taken."""
        return f'upload_hosts = ["{self.uploads.place}"]\n'

    @property
    def connections(self) -> int:
        return self._server.connected + self.uploads.listener.connected

    def set_open(self, is_open: bool) -> None:
        """Whether new connections are taken; those that there are go on."""
        self._server.is_open = self.uploads.listener.is_open = is_open

    # --- what a test says and asks ---

    def forget(self) -> None:
        """From now on do as usual, let everybody go, and count from nothing; nothing is kept."""
        super().forget()
        with self._changed:
            self._sent.clear()
            self.items.clear()
            self.asked.clear()
            self.uploads.forget()

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
        action = self.enter(step)
        if isinstance(action, Stall):
            self.hold(step)
            action = action.then  # type: ignore[assignment]  # a test gives it what this server knows
        if isinstance(action, HangUp):
            raise HungUp(action.reset)
        if isinstance(action, Says):
            raise Refused(action)
