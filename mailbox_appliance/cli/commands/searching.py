"""Lists of messages: what is newest, and what is searched. They are commands of `emails`."""

import click

from mailbox_appliance.cli.rows import ACCOUNT, ALL_PAGES, Call, Row

FILTERS: tuple[click.Parameter, ...] = (
    click.Option(["--folder"], metavar="ID|ROLE|NAME", help="Only what lies in this folder."),
    click.Option(["--text"], metavar="TEXT", help="All these words; says where the text stands in each message."),
    click.Option(["--unread/--read"], default=None, help="Only what has not been read, or has."),
    click.Option(["--starred/--unstarred"], default=None, help="Only what is starred, or is not."),
    click.Option(["--has-attachment/--no-attachment"], default=None, help="Only what has an attachment, or has none."),
    click.Option(["--from", "from_"], metavar="WORDS", help="In the sender's name or address."),
    click.Option(["--to"], metavar="WORDS", help="In the name or address of a recipient."),
    click.Option(["--subject"], metavar="WORDS", help="In the subject."),
    click.Option(
        ["--after"], metavar="DATE", help="Its date is this or later, 2026-01-31 or 2026-01-31T12:00:00Z (UTC)."
    ),
    click.Option(["--before"], metavar="DATE", help="Its date is earlier than this."),
)
_COLUMNS = ("id", "date", "from", "subject", "folder.name", "flags.read")
_SEARCH = """Search messages, newest first; in every mailbox that you reach, unless --account names one.

QUERY: words, '"a phrase"', beg*, from:ada to:bob subject:plan after:2026-01-31 before:2026-03-01 is:unread is:read
is:starred has:attachment label:work. All of it must be found.

Spam and trash are searched only where --folder names them."""


def _joined(_context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> str | None:
    # A word that is empty is passed on, and refused: it is no search for everything.
    return " ".join(value) if value else None


ROWS = (
    Row(
        "list",
        Call("GET", "/accounts/{accountId}/messages"),
        "List messages, newest first.\n\nThose in spam and trash only where --folder names them. Newest is what the "
        "server received last, whatever the date says.",
        (ACCOUNT, click.Option(["--query", "q"], metavar="QUERY", help="As in `emails search`."), *FILTERS, *ALL_PAGES),
        columns=_COLUMNS,
    ),
    Row(
        "search",
        Call("GET", "/accounts/{accountId}/messages"),
        _SEARCH,
        (
            click.Argument(["q"], metavar="[QUERY]...", nargs=-1, callback=_joined),
            click.Option(["--account"], metavar="ID|EMAIL", help="The mailbox; without it all are searched."),
            *FILTERS,
            *ALL_PAGES,
        ),
        columns=_COLUMNS,
        everywhere=Call("GET", "/messages"),
    ),
)
