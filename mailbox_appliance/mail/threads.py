"""Group messages into conversations, by Message-IDs (RFC 5322 3.6.4) and by base subjects (RFC 5256 2.1)."""

import re
from collections.abc import Iterable, Sequence

from mailbox_appliance.mail import encoded_words

MAX_REFERENCES = 50
_MAX_IDS = 1_000
_LONGEST_SUBJECT = 2_000

_ID = re.compile(r"<([^<>]{1,998})>")
_SPACES = re.compile(r"\s+")

_BLOB = r"\[[^\[\]]*\]\s*"
# Equivalents of RFC 5256's re, fw and fwd in other languages, as seen in practice.
_WORDS = r"(?:re|fwd?|aw|antw|wg|sv|vs|vb|vl|odp|pd|rv|res|enc|ref|réf|tr|rif|doorst)"
_LEADER = re.compile(rf"(?:(?:{_BLOB})*{_WORDS}\s*(?:{_BLOB})?[:：]|\s)", re.I)
_LEADING_BLOB = re.compile(rf"(?!\[fwd:){_BLOB}", re.I)
# A subject without any of these has nothing to remove.
_SIGNS = re.compile(r"[:：\[]|=\?|\(fwd\)\s*$", re.I)
_REPLY = re.compile(r"\s*(?:re|aw|antw|sv|vs|odp|res|réf|rif)\s*(?:\[\d{1,4}\]|\(\d{1,4}\)|\^\d{1,4})?\s*[:：]", re.I)

# Signs of a reply by `_REPLY`, the names of lists between the signs, or a sign of a forward.
_FORWARD = r"(?P<forward>(?:fwd?|wg|tr|rv|enc|doorst|pd|vb|vl)\s*[:：]\s*)"
_SIGN = re.compile(rf"{_REPLY.pattern}|{_FORWARD}|\[(?!fwd:)[^\[\]]*\]|\s+", re.I)


def canonical_message_id(text: str) -> str | None:
    """Return a Message-ID in the form for comparisons: `a@b` for `<A@B>`, ` <a@b> (comment)` and `"A"@B`. None if the
    text has no Message-ID.
    """
    found = _ID.search(text)
    bare = _SPACES.sub("", found[1] if found else text.strip("<> \t\r\n")[:998]).lower()
    local, at, domain = bare.rpartition("@")
    if len(local) > 1 and local[0] == local[-1] == '"':  # RFC 5322 3.2.4: the quotes are not part of the value
        bare = re.sub(r"\\(.)", r"\1", local[1:-1]) + at + domain
    return bare or None


def message_ids(text: str) -> tuple[str, ...]:
    """Return all Message-IDs in a References or In-Reply-To value, for comparisons: with angle brackets, in order, each
    once.

    White space inside an ID is removed, since it does not count in comparisons.
    """
    return _unique_ids("".join(each.split()) for each in _find_ids(text))


def exact_message_ids(text: str) -> tuple[str, ...]:
    """Return the Message-IDs in a header value that can be copied into a new message: in order, each once, with angle
    brackets. Those with white space inside are left out.
    """
    return _unique_ids(each.strip() for each in _find_ids(text) if len(each.split()) == 1)


def _find_ids(text: str) -> list[str]:
    # Seen in practice: IDs without brackets, and a sentence with the sender's address in In-Reply-To.
    if "<" in text:
        return _ID.findall(text)
    return [word.strip(",;") for word in text.split() if "@" in word and len(word) <= 998]


def _unique_ids(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"<{each}>" for each in ids if each.strip("<>")))[:_MAX_IDS]


def subject_key(subject: str) -> tuple[str, bool]:
    """Return the base subject in the form for comparisons (case-folded), and whether the subject is that of a reply or
    forward.

    The base subject is the subject without `Re:`, `Fwd:` and similar additions (RFC 5256 2.1 and 3).
    """
    if _SIGNS.search(subject) is None and len(subject) <= _LONGEST_SUBJECT:
        return _SPACES.sub(" ", subject).strip().casefold(), False
    base, is_reply = _read_subject(subject)
    return base.casefold(), is_reply


def _read_subject(subject: str) -> tuple[str, bool]:
    """Return the base subject, and whether the subject had an addition of a reply or forward, such as `Re:` or
    `(fwd)`.
    """
    text = encoded_words.decode_words(subject[:_LONGEST_SUBJECT])  # step 1: encoded words to UTF-8,
    text = _SPACES.sub(" ", text)  # tabs and line folds to spaces, several spaces to one
    is_reply = False
    while True:
        text = text.rstrip()  # step 2
        while text[-5:].lower() == "(fwd)":
            text, is_reply = text[:-5].rstrip(), True
        text, has_leader = _without_leaders(text)  # steps 3 to 5
        is_reply = is_reply or has_leader
        if text[:5].lower() == "[fwd:" and text.endswith("]"):  # step 6
            text, is_reply = text[5:-1], True
        else:
            return text, is_reply


def _without_leaders(text: str) -> tuple[str, bool]:
    position, has_leader = 0, False
    while True:
        if found := _LEADER.match(text, position):  # step 3
            has_leader = has_leader or not found[0].isspace()
            position = found.end()
        elif (blob := _LEADING_BLOB.match(text, position)) and blob.end() < len(text):  # step 4
            position = blob.end()
        else:
            return text[position:], has_leader  # step 5: until neither matches


def reply_subject(subject: str) -> str:
    """Return the subject of a reply: `Re: ` and the original subject without its `Re:` and equivalents in other
    languages.
    """
    position = 0
    while found := _REPLY.match(subject, position):
        position = found.end()
    return f"Re: {subject[position:].strip()}".rstrip() if subject[position:].strip() else "Re:"


def forward_subject(subject: str) -> str:
    """Return the subject of a forward: `Fwd: ` and the original subject without its `Fwd:` and equivalents in other
    languages. `Re:` stays.
    """
    text, before = subject.strip(), None
    while text != before:
        before, text = text, _without_forward(text)
    return f"Fwd: {text}".rstrip()


def _without_forward(text: str) -> str:
    position, kept = 0, ""
    while found := _SIGN.match(text, position):
        kept += "" if found["forward"] else found[0]
        position = found.end()
    rest = text[position:].strip()
    if rest[:5].lower() == "[fwd:" and rest.endswith("]"):
        rest = rest[5:-1].strip()
    elif rest[-5:].lower() == "(fwd)":
        rest = rest[:-5]
    return f"{kept}{rest}".strip()


def reply_references(message_id: str | None, references: Iterable[str], in_reply_to: Iterable[str]) -> tuple[str, ...]:
    """Return the References of a reply (RFC 5322 3.6.4): those of the message it replies to, followed by the ID of that
    message. `message_id`, `references`, `in_reply_to`: from that message.

    If it has no References but a single In-Reply-To, that one is used. Each ID occurs once, at most 50 in all: the
    first one, which is the root of the thread, and the last 49.
    """
    ancestors, parents = list(references), list(in_reply_to)
    if not ancestors and len(parents) == 1:
        ancestors = parents
    # An ID that occurs twice counts at its first place, but the parent is always the last.
    ids = [each for each in dict.fromkeys(ancestors) if each != message_id]
    if message_id:
        ids.append(message_id)
    return trim_references(ids)


def trim_references(ids: Sequence[str]) -> tuple[str, ...]:
    """Return at most 50 Message-IDs for a References field: the first one, and the last 49. All of them if there are no
    more.
    """
    return tuple(ids if len(ids) <= MAX_REFERENCES else [ids[0], *ids[1 - MAX_REFERENCES :]])
