"""Warnings about where a message comes from. One line a case."""

import pytest

from mailbox_appliance.mail import provenance
from mailbox_appliance.mail.provenance import (
    DMARC_FAILED,
    FIRST_TIME,
    LOOKALIKE,
    UNAUTHENTICATED,
    ReceivingServer,
    authentication_warning,
    goes_elsewhere,
    is_lookalike,
    organizational_domain,
    sender_warnings,
)
from mailbox_appliance.model.base import OwnText

OWN = ReceivingServer("imap.example.org", "ada@example.org")
HOSTED = ReceivingServer("imap.hosting.test", "ada@example.org")
GMAIL = ReceivingServer("imap.gmail.com", "ada@gmail.com")
OUTLOOK = ReceivingServer("outlook.office365.com", "ada@example.org")
NAMED = ReceivingServer("127.0.0.1", "ada@example.net", ("border",))
FAIL = "dmarc=fail (p=reject) header.from=bank.example"

# fmt: off
#: The receiving server, the topmost Authentication-Results, and the warning.
RESULTS: tuple[tuple[ReceivingServer, str, str | None], ...] = (
    (OWN,     f"mx.example.org; spf=pass; {FAIL}",                                       DMARC_FAILED),
    (OWN,     f"example.org 1; {FAIL}",                                                  DMARC_FAILED),
    (OWN,     f'"mx.example.org"; {FAIL}',                                               DMARC_FAILED),
    (OWN,     "MX.EXAMPLE.ORG (a; comment); DMARC/1 = Fail",                            DMARC_FAILED),
    (OWN,     "mx.example.org; dmarc=pass; spf=fail; dkim=fail",                         None),
    (OWN,     "mx.example.org; dmarc=none; spf=fail smtp.mailfrom=a@b; dkim=none",       UNAUTHENTICATED),
    (OWN,     "mx.example.org; spf=softfail",                                            UNAUTHENTICATED),
    (OWN,     "mx.example.org; spf=fail; dkim=fail; dkim=pass header.d=list.example",    None),
    (OWN,     "mx.example.org; spf=pass; dkim=fail",                                     None),
    (OWN,     "mx.example.org; spf=neutral; dkim=none",                                  None),
    (OWN,     "mx.example.org; spf=temperror; dmarc=temperror",                          None),
    (OWN,     'mx.example.org; dkim=pass reason="dmarc=fail; spf=fail"; spf=pass',       None),
    (OWN,     "mx.example.org; none",                                                    None),
    (OWN,     f"mx.example.org.evil.test; {FAIL}",                                       None),
    (OWN,     f"mx.evil.test; {FAIL}",                                                   None),
    (OWN,     f"{FAIL}",                                                                 None),
    (OWN,     "",                                                                        None),
    (OWN,     ";;;",                                                                     None),
    (OWN,     "(((",                                                                     None),
    (HOSTED,  f"mx.hosting.test; {FAIL}",                                                DMARC_FAILED),
    (HOSTED,  f"example.org; {FAIL}",                                                    DMARC_FAILED),
    (GMAIL,   f"mx.google.com; {FAIL}",                                                  DMARC_FAILED),
    (GMAIL,   f"mx.gmail.com; {FAIL}",                                                   None),
    (OUTLOOK, f"spf=fail (sender IP is 192.0.2.1) smtp.mailfrom=a.test; {FAIL};compauth=fail reason=000", DMARC_FAILED),
    (OUTLOOK, f"mx.example.org; {FAIL}",                                                 None),
    (NAMED,   f"border; {FAIL}",                                                         DMARC_FAILED),
    (NAMED,   f"other; {FAIL}",                                                          None),
)
#: What stands above the field: whose fields are believed below `Received`.
BELOW: tuple[tuple[ReceivingServer, str, bool], ...] = (
    (OWN,     "mx.example.org", False),  # the sender may have written it
    (HOSTED,  "example.org",    False),
    (GMAIL,   "mx.google.com",  True),
    (NAMED,   "border",         True),
)
DOMAINS = (
    ("example.org",          "example.org"),
    ("mail.example.org.",    "example.org"),
    ("a.b.example.co.uk",    "example.co.uk"),
    ("example.com.au",       "example.com.au"),
    ("co.uk",                "co.uk"),
    ("a.com.de",             "a.com.de"),
    ("BÜCHER.example",       "xn--bcher-kva.example"),
    ("localhost",            "localhost"),
    ("",                     ""),
)
#: The sender's domain, a known one, and whether it is a look-alike.
ALIKE = (
    ("example.org",          "example.org",    False),
    ("exarnple.org",         "example.org",    True),
    ("examp1e.org",          "example.org",    True),
    ("exanple.org",          "example.org",    True),
    ("exampel.org",          "example.org",    True),
    ("examples.org",         "example.org",    True),
    ("exmple.org",           "example.org",    True),
    ("example.og",           "example.org",    True),
    ("example.net",          "example.org",    False),
    ("xn--xample-2of.org",   "example.org",    True),  # the first letter is Cyrillic
    ("xn--exmple-cua.org",   "example.org",    True),  # an umlaut
    ("paypaI.test",          "paypal.test",    True),
    ("gmai1.com",            "gmail.com",      True),
    ("ymail.com",            "gmail.com",      False),  # short names resemble each other by chance
    ("gmx.net",              "gmx.de",         False),
    ("company2.test",        "company1.test",  False),  # names of one organization
    ("company2.test",        "company.test",   False),
    ("another.org",          "example.org",    False),
    ("",                     "example.org",    False),
)
REPLIES: tuple[tuple[str, tuple[str, ...], dict[str, str], bool], ...] = (
    ("a@example.org", ("b@example.org",),                   {},                False),
    ("a@example.org", ("b@mail.example.org",),              {},                False),
    ("a@example.org", (),                                   {},                False),
    ("a@example.org", ("b@evil.test",),                     {},                True),
    ("a@example.org", ("b@example.org", "c@evil.test"),     {},                True),
    ("a@example.org", ("list@lists.test",),                 {"List-Id": "<l>"}, False),
    ("a@example.org", ("nobody",),                          {},                False),
)
# fmt: on


@pytest.mark.parametrize(("server", "value", "warning"), RESULTS)
def test_what_the_receiving_server_found(server: ReceivingServer, value: str, warning: str | None) -> None:
    headers = {"Return-Path": "<a@b>", "Authentication-Results": value, "Received": "from x by y"}
    assert authentication_warning(headers, server) == warning
    assert authentication_warning({"Authentication-Results": value}, server) == warning


@pytest.mark.parametrize(("server", "name", "is_believed"), BELOW)
def test_whose_fields_below_received_are_believed(server: ReceivingServer, name: str, is_believed: bool) -> None:
    headers = {"Received": "from evil.test by mx.example.org", "Authentication-Results": f"{name}; {FAIL}"}
    assert (authentication_warning(headers, server) is not None) == is_believed


def test_a_field_that_is_made_to_be_slow_is_read_at_once() -> None:
    assert provenance._read_results('x; "' + '\\"' * 100_000) == ("x", {})


def test_without_the_field_nothing_is_said() -> None:
    assert authentication_warning({"Received": "x"}, OWN) is None


@pytest.mark.parametrize(("domain", "registered"), DOMAINS)
def test_the_domain_that_an_organization_registered(domain: str, registered: str) -> None:
    assert organizational_domain(domain) == registered


@pytest.mark.parametrize(("domain", "known", "is_alike"), ALIKE)
def test_a_domain_that_resembles_another(domain: str, known: str, is_alike: bool) -> None:
    assert is_lookalike(organizational_domain(domain), {known}) == is_alike


@pytest.mark.parametrize(("sender", "reply_to", "headers", "is_elsewhere"), REPLIES)
def test_where_replies_go(sender: str, reply_to: tuple[str, ...], headers: dict[str, str], is_elsewhere: bool) -> None:
    assert goes_elsewhere(sender, reply_to, headers) == is_elsewhere


def test_an_unknown_sender() -> None:
    assert list(sender_warnings("a@another.test", {"example.org"})) == [FIRST_TIME]
    assert list(sender_warnings("a@exarnple.org", {"example.org"})) == [LOOKALIKE, FIRST_TIME]


def test_agents_can_trust_the_texts() -> None:
    texts = (DMARC_FAILED, UNAUTHENTICATED, LOOKALIKE, FIRST_TIME, provenance.REPLIES_ELSEWHERE)
    assert all(isinstance(each, OwnText) for each in texts)
