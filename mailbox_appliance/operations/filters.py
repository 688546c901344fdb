"""Which messages a list is to show: the single values that every list of messages takes, as one filter."""

from collections.abc import Callable, Iterator
from typing import Annotated, TypeVar

from msgspec import Meta

from mailbox_appliance.errors import Invalid
from mailbox_appliance.mail import search
from mailbox_appliance.model.records import MessageFilter, SearchedField, SearchTerm

T = TypeVar("T")

#: Words of a query that a warning names.
_MOST_NAMED = 10

FolderName = Annotated[str, Meta(min_length=1, max_length=1024, description="A folder's id, role, path or name.")]
Query = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1000,
        description=(
            'Words, "phrases" and beg* that are all to be found, and from: to: subject: before: after: is:unread'
            " is:read is:starred has:attachment label:. Anything else with a colon is looked for as it stands, and so"
            " are -word, OR, AND and NOT."
        ),
    ),
]
Text = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1000,
        description="Keeps the messages that have all these words, and says in `searchContext` where the text stands.",
    ),
]
Unread = Annotated[bool, Meta(description="Only what has not been read; false: only what has.")]
Starred = Annotated[bool, Meta(description="Only what is starred; false: only what is not.")]
HasAttachment = Annotated[
    bool, Meta(description="Only what has an attachment, not counting inline images; or has none.")
]
Person = Annotated[
    str,
    Meta(min_length=1, max_length=1000, description="Words of a name or an address, which stand one after the other."),
]
Subject = Annotated[
    str, Meta(min_length=1, max_length=1000, description="Words of the subject, which stand one after the other.")
]
Moment = Annotated[str, Meta(max_length=40, description="A date or a date-time, UTC; compared with `date`.")]


def read(
    *,
    q: str | None,
    text: str | None,
    unread: bool | None,
    starred: bool | None,
    has_attachment: bool | None,
    from_: str | None,
    to: str | None,
    subject: str | None,
    after: str | None,
    before: str | None,
) -> MessageFilter:
    """The filter: all of it must hold. `after` includes its moment, `before` does not. Raises Invalid.

    A blank `q` or `text` is refused: it would select everything, and it is a variable that was never set.
    """
    named: tuple[tuple[SearchedField, str | None], ...] = (("from", from_), ("to", to), ("subject", subject))
    marked = MessageFilter(
        terms=tuple(SearchTerm(given, field) for field, given in named if given is not None),
        unread=unread,
        starred=starred,
        has_attachment=has_attachment,
        after=_read("after", after, search.parse_moment),
        before=_read("before", before, search.parse_moment),
    )
    typed = _read("q", _not_blank("q", q), search.parse_query) or MessageFilter()
    sought = _read("text", _not_blank("text", text), _text) or MessageFilter()
    return search.combine_filters((search.without_signs(marked), typed, sought))


def warnings(wanted: MessageFilter) -> Iterator[str]:
    """What the one who asks should know of the filter."""
    if wanted.is_impossible:
        yield "No message can match: what is asked for excludes itself, or has no letter or digit to look for."


def misread(q: str | None) -> Iterator[str]:
    """What of a query was not taken as its writer probably meant it."""
    there_are = " ".join(f"{key}:" for key in search.known_keys())
    for key in search.misread_keys(q or ""):
        yield f"{key} is no operator here; it was searched as text. There are: {there_are}"
    if chosen := search.misread_words(q or ""):
        named = ", ".join(chosen[:_MOST_NAMED]) + (" and others" if len(chosen) > _MOST_NAMED else "")
        yield f"{named}: searched as text. All of a query must hold, and nothing can be left out by - or NOT."


def _not_blank(name: str, given: str | None) -> str | None:
    if given is not None and not given.strip():
        raise Invalid.at(name, "This must not be empty.")
    return given


def _text(text: str) -> MessageFilter:
    count = len(search.split_words(text))
    if count > search.MOST_TERMS:
        raise ValueError(f"A text holds at most {search.MOST_TERMS} words.")
    return MessageFilter(text=text, is_impossible=count == 0)


def _read(name: str, given: str | None, reader: Callable[[str], T]) -> T | None:
    if given is None:
        return None
    try:
        return reader(given)
    except ValueError as error:
        raise Invalid.at(name, str(error)) from error
