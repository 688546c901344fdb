"""What can be measured: the function that does it, what it is about, and what stands beside us."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Measurement:
    """`place` is `module:function`; `about` says what is measured; `beside`: the baseline or the peer, if any.

    `is_long`: left out of a run that does not name it.
    """

    place: str
    about: str
    beside: str = ""
    is_long: bool = False


MEASUREMENTS = {
    "me": Measurement(
        "serving:measure",
        "GET `/api/v1/me` a second, 8 kept connections",
        "a bare WSGI application on the same server class",
    ),
    "start": Measurement(
        "starting:measure_serve",
        "process start to the first 200, new and existing data directory",
        "`python -c pass`, for an existing one",
    ),
    "memory": Measurement(
        "memory:measure",
        "RSS of the serving process, idle after 50 requests: with a mailbox; with HTTPS and 100 mailboxes",
    ),
    "help": Measurement("starting:measure_help", "`mailbox-appliance --help`", "`python -c 'import click'`"),
    "cli": Measurement(
        "starting:measure_cli", "help, one press of Tab, `emails list`; whole processes", "`python -c pass`"
    ),
    "send": Measurement(
        "sending:measure",
        "messages a second through the API, until the server's reply is in the journal",
        "smtplib, one connection a message, same Postfix",
    ),
    "stall": Measurement(
        "stalling:measure", "p95 of GET `/me` while 50 sends wait for a silent server", "the same before"
    ),
    "uploads": Measurement(
        "uploading:measure",
        "memory for an upload of 25 MB and a send with it; p95 of GET `/me` beside 8 uploads at once",
        "the same before",
    ),
    "first-sync": Measurement(
        "first_sync:measure",
        "20,000 messages fetched, parsed, indexed and encrypted",
        "mbsync (FSync no); mbsync then `notmuch new`",
    ),
    "first-sync-small": Measurement(
        "first_sync:measure_small", "the same with 5,000 messages", "the same", is_long=True
    ),
    "first-sync-large": Measurement(
        "first_sync:measure_large", "the same with 100,000 messages", "the same", is_long=True
    ),
    "resync": Measurement(
        "resyncing:measure",
        "100,000 messages, nothing new, until IDLE stands again; with QRESYNC and without extensions",
    ),
    "label-sync": Measurement(
        "label_syncing:measure",
        "5,000 messages with four labels each; labels and flags of 100,000 read again",
        "the same messages without labels, same test server",
    ),
    "labels": Measurement(
        "labeling:measure",
        "folders and lists of 100,000 messages with 30 labels",
        "the same messages in one folder without labels",
    ),
    "delivered": Measurement(
        "delivering:measure", "p95 of 100 deliveries, from EXISTS on another connection to the API"
    ),
    "watching": Measurement("watching:measure", "100 and 300 watched mailboxes over 65 quiet seconds"),
    "reading": Measurement(
        "reading:measure",
        "p95 of each list, read and search among 1,000,000 messages, every path once",
        "GET `/me`; for searches their bare SQL on one warm connection, or a common word",
    ),
    "reading-notmuch": Measurement(
        "reading:measure_notmuch", "the searches among 1,000,000 messages", "notmuch on the same messages", is_long=True
    ),
    "reading-large": Measurement(
        "reading:measure_large",
        "the same lists, reads and searches among 5,000,000 messages in 300 mailboxes",
        "among 1,000,000, same run",
        is_long=True,
    ),
    "peers": Measurement(
        "peering:measure",
        "the list view and six searches over 20,000 messages",
        "Cyrus 3.6 by JMAP; notmuch, from the start of its process",
    ),
    "cipher": Measurement(
        "reading:measure_cipher",
        "the same reads on an encrypted store of 200,000",
        "an unencrypted store, which only this measurement creates",
    ),
    "backup": Measurement(
        "backing_up:measure",
        "p95 of 50 mixed requests a second during a backup of 1,000,000 messages; its copy step; the restored store",
        "the same requests without; `cp` and fsync of the same file",
    ),
    "https": Measurement(
        "securing:measure",
        "GET `/me` a second over HTTPS, 8 kept connections, TLS 1.3 and 1.2",
        "the same over HTTP, same process",
    ),
    "crowd": Measurement(
        "crowding:measure",
        "p95 of GET `/me` while 300 handshakes stall and 300 clients send a byte a second",
        "without them, same run",
    ),
    "mcp": Measurement(
        "assisting:measure",
        "p95 of `list_emails`, `get_email`, `search_emails` to `/mcp`; `tools/list`; idle memory; the first call",
        "the same REST call; a build without the endpoint",
    ),
    "events": Measurement(
        "telling:measure",
        "p95 from the commit to 500 readers; of GET `/me` beside it; a first sync of 20,000; a million journal rows",
        "GET `/me` without readers; a first sync without the journal",
    ),
    "console": Measurement(
        "browsing:measure",
        "the files of the console's first page, compressed; empty cache to first paint, and to usable",
        "a page of plain text from the same server",
    ),
    "package": Measurement(
        "packaged:measure", "bytes installed; bytes of the `.deb`; start to the first 200; help", "the checkout"
    ),
    "upgrade": Measurement(
        "upgrading:measure", "a 0.10 store with 1,000,000 audit rows and as many stored answers: time, peak RSS"
    ),
}
