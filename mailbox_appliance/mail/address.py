"""Mail addresses (RFC 5321 4.1.2, RFC 6531): which ones are accepted, their form in SMTP, and when two of them name the
same mailbox.
"""

import re
import unicodedata

from mailbox_appliance.mail import encoded_words

# Never in an address: white space, controls, invisible characters and surrogates. The escapes mean the same in Python
# and in ECMA 262.
_INVISIBLE = (
    r"\x00-\x20\x7f-\xa0\xad\u034f\u061c\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ud800-\udfff"
    r"\ufeff\ufff9-\uffff"
)
_LOCAL = rf'[^{_INVISIBLE}"(),.:;<>@\[\\\]]+'
# `_` is not allowed in host names (RFC 952), but occurs in practice, and servers accept it.
_LABEL = rf"[^{_INVISIBLE}!-,./:-@\[-^`\{{-~]+"

EMAIL_PATTERN = (
    # `$(?!\n)`: in Python a lone `$` also matches before a final line feed.
    rf"^(?=[^@]{{1,64}}@)(?=.{{3,254}}$(?!\n)){_LOCAL}(?:\.{_LOCAL})*@{_LABEL}(?:\.{_LABEL})*$(?!\n)"
)
"""The addresses that are accepted: a dot-atom, `@` and a domain, all in Unicode. A regular expression of ECMA 262."""

# A tab is white space that a header field may contain (RFC 5322 2.2.2); it is sent encoded.
_FORBIDDEN = re.compile("[\x00-\x08\x0a-\x1f\x7f\x85\u2028\u2029\ud800-\udfff]")
_EMAIL = re.compile(EMAIL_PATTERN)
_ASCII_UPPER = re.compile("[A-Z]+")
_DOTTED = re.compile(rf"\.*{_LOCAL}(?:\.+{_LOCAL})*\.*")
_ASCII_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_ASCII_DOMAIN = re.compile(rf"(?=.{{1,253}}\Z){_ASCII_LABEL}(?:\.{_ASCII_LABEL})*")


def domain_of(email: str) -> str:
    """Return the text after the last `@`, unchanged."""
    return email.rpartition("@")[2]


def to_envelope_address(email: str) -> str:
    """Return the address in the form for SMTP commands: the domain in lower case, with international names in ASCII
    form (A-labels, RFC 5890, UTS 46).

    A local part with dots in the wrong places (`a.@`, in use at Japanese providers) is quoted (RFC 5321 4.1.2). Raises
    ValueError for anything else that SMTP cannot carry, and for address literals and other quoted local parts.
    """
    local, _, domain = email.rpartition("@")
    local = _unquote(local)
    if not _DOTTED.fullmatch(local) or not _EMAIL.search(f"x@{domain}") or has_forbidden_characters(email):
        raise ValueError("not a mail address")
    written = local if _EMAIL.search(f"{local}@x") else f'"{local}"'
    address = f"{written}@{_to_a_labels(domain)}"
    if len(written.encode()) > 64 or len(address.encode()) > 254:  # RFC 5321 4.5.3.1.1 and 4.5.3.1.3, in octets
        raise ValueError("the address is too long")
    return address


def is_writable(email: str) -> bool:
    """Whether a message can be sent to this address. Received mail also contains addresses that are refused, such as
    `a@[192.0.2.1]` and `a@-b.example`.
    """
    try:
        to_envelope_address(email)
    except ValueError:
        return False
    return True


def _unquote(local: str) -> str:
    """Return the local part without its quotes (RFC 5321 4.1.2)."""
    inner = local[1:-1] if len(local) > 1 and local[0] == local[-1] == '"' else ""
    return inner if _DOTTED.fullmatch(inner) else local


def _to_a_labels(domain: str) -> str:
    if domain.isascii():
        # Not through idna, which refuses ASCII names that are in use, such as `r3---sn.example.com`.
        if not _ASCII_DOMAIN.fullmatch(domain):
            raise ValueError("not a domain name")
        return domain.lower()
    import idna  # imported late: its tables load slowly, and most addresses are ASCII

    try:
        labels = idna.encode(domain, uts46=True, std3_rules=True).decode()
    except (idna.IDNAError, UnicodeError) as error:
        raise ValueError("not a domain name") from error
    if labels.endswith("."):  # the root, by a final full stop of another script, such as U+3002
        raise ValueError("not a domain name")
    return labels


def needs_smtputf8(email: str) -> bool:
    """Whether sending to this address needs the SMTP extension SMTPUTF8 (RFC 6531), because its local part is not
    ASCII.
    """
    return not email.rpartition("@")[0].isascii()


def same_mailbox(first: str, second: str) -> bool:
    """Whether two addresses name the same mailbox. Case does not count, and an international domain equals its ASCII
    form.

    RFC 5321 2.4 lets a server distinguish `A@` from `a@`; no server in use does.
    """
    return _comparable(first) == _comparable(second)


def same_address(first: str, second: str) -> bool:
    """Whether two addresses surely name the same mailbox: unlike `same_mailbox`, only the case of ASCII letters is
    ignored in the local part. Compare so where a match permits something: a server may give `straße@` and `strasse@` to
    two people.
    """
    return to_strict_key(first) == to_strict_key(second)


def to_strict_key(email: str) -> tuple[str, str]:
    """Return what `same_address` compares: the local part without quotes, and the domain in ASCII form."""
    local, _, domain = email.strip().rpartition("@")
    return _ASCII_UPPER.sub(lambda letters: letters[0].lower(), _unquote(local)), comparable_domain(domain)


def _comparable(email: str) -> tuple[str, str]:
    local, _, domain = email.strip().rpartition("@")
    return unicodedata.normalize("NFC", _unquote(local)).casefold(), comparable_domain(domain)


def comparable_domain(domain: str) -> str:
    """Return a domain in the form for comparisons: in ASCII (A-labels) and lower case. A text that is not a valid
    domain is only case-folded.
    """
    try:
        return _to_a_labels(domain)
    except ValueError:
        return domain.casefold()


def has_forbidden_characters(text: str) -> bool:
    """Whether text must not be put into a header field, because it contains a line break, NUL or another control
    character except the tab.

    Encoded words in the text (RFC 2047) are decoded for this check, since old readers turn line breaks in them into new
    header lines.
    """
    if _FORBIDDEN.search(text):
        return True
    return "=?" in text and any(_FORBIDDEN.search(found) for found in encoded_words.possible_texts(text))
