"""Where a new folder is made, by what the server allows."""

import pytest

from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.imap.client import make_folder
from tests.remote.odd_server import Peer, talking


@pytest.mark.parametrize(
    ("inbox", "statuses", "made"),
    [
        ('* LIST () "/" INBOX', ["OK"], "Sent"),
        ('* LIST () "." INBOX', ["NO outside of your namespace", "OK"], "INBOX.Sent"),
        ('* LIST () "/" INBOX', ["NO [ALREADYEXISTS] is there"], "Sent"),
        ('* LIST () "." INBOX', ["NO", "NO"], None),
        ("* LIST () NIL INBOX", ["NO"], None),
        ('* LIST () "/" other', ["NO"], None),
    ],
)
def test_making(inbox: str, statuses: list[str], made: str | None) -> None:
    def part(peer: Peer) -> None:
        peer.answer(inbox)
        for status in statuses:
            assert peer.answer(status=status).startswith("CREATE")
        if made is not None:
            assert peer.answer() == f'SUBSCRIBE "{made}"'

    with talking("", part) as mailbox:
        if made is not None:
            assert make_folder(mailbox, "Sent") == made
            return
        with pytest.raises(RemoteFault, check=lambda fault: fault.kind == "refused"):
            make_folder(mailbox, "Sent")
