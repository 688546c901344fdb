"""Header fields: folding, encoded words (RFC 2047), raw UTF-8 (RFC 6532), IDs, and broken fields."""
# ruff: noqa: E501 - a case on one line is easier to compare with its neighbors

from tests.mail.corpus.case import Case, case, subjects, verbatim

CASES: list[Case] = [
    *subjects(
        "RFC 2047 8",
        [
            ("(=?ISO-8859-1?Q?a?=)", "(a)"),
            ("(=?ISO-8859-1?Q?a?= b)", "(a b)"),
            ("(=?ISO-8859-1?Q?a?= =?ISO-8859-1?Q?b?=)", "(ab)"),
            ("(=?ISO-8859-1?Q?a?=  =?ISO-8859-1?Q?b?=)", "(ab)"),
            ("(=?ISO-8859-1?Q?a?=\n    =?ISO-8859-1?Q?b?=)", "(ab)"),
            ("(=?ISO-8859-1?Q?a_b?=)", "(a b)"),
            ("(=?ISO-8859-1?Q?a?= =?ISO-8859-2?Q?_b?=)", "(a b)"),
            (
                "=?ISO-8859-1?B?SWYgeW91IGNhbiByZWFkIHRoaXMgeW8=?=\n =?ISO-8859-2?B?dSB1bmRlcnN0YW5kIHRoZSBleGFtcGxlLg==?=",
                "If you can read this you understand the example.",
            ),
        ],
    ),
    *subjects(
        "encoded words",
        [
            ("=?utf-8?Q?Gr=C3=BC=C3=9Fe?=", "Grüße"),
            ("=?UTF-8?q?gr=c3=bc=c3=9fe?=", "grüße"),
            ("=?utf-8?B?5Lya6K2w?=", "会議"),
            ("=?utf-8?b?8J+OiQ==?= party", "🎉 party"),
            ("Re: =?utf-8?Q?=C3=9Cber?= uns", "Re: Über uns"),
            ("=?utf-8?Q?=C3=9Cber?= =?utf-8?Q?_uns?= alle", "Über uns alle"),
            ("=?utf-8?Q?a?=\n\t=?utf-8?B?Yg==?=\n =?iso-8859-15?Q?=A4?=", "ab€"),
            ("=?iso-8859-2?Q?=A3=F3d=BC?=", "Łódź"),
            ("=?koi8-r?B?8NLJ18XU?=", "Привет"),
            ("=?windows-1251?Q?=CF=F0=E8=E2=E5=F2?=", "Привет"),
            ("=?iso-8859-7?Q?=C1=E8=DE=ED=E1?=", "Αθήνα"),
            ("=?iso-8859-8?B?+ezl7Q==?=", "שלום"),
            ("=?iso-8859-6?B?5dHNyMc=?=", "مرحبا"),
            ("=?windows-1256?B?48/NyMc=?=", "مدحبا"),
            ("=?gb2312?B?xOO6ww==?=", "你好"),
            ("=?gbk?B?xOO6ww==?=", "你好"),
            ("=?gb18030?B?xOO6w4FA?=", "你好丂"),
            ("=?big5?B?p0Gmbg==?=", "你好"),
            ("=?euc-kr?B?vsiz5w==?=", "안녕"),
            ("=?shift_jis?B?ie+LYw==?=", "会議"),
            ("=?euc-jp?B?svG1xA==?=", "会議"),
            ("=?iso-2022-jp?B?GyRCMnE1RBsoQg==?=", "会議"),
            ("=?iso-2022-jp?B?GyRCMnEbKEI=?=\n =?iso-2022-jp?B?GyRCNUQbKEI=?=", "会議"),
            ("=?iso-2022-kr?B?GyQpQw4+SDNnDw==?=", "안녕"),
            ("=?utf-8*de-DE?Q?Gr=C3=BC=C3=9Fe?=", "Grüße"),  # RFC 2231 5
            ("=?us-ascii*en?Q?hi?=", "hi"),
            ("=?utf-8?Q?=5F=3D=3F=20x?=", "_=? x"),
            ("=?utf-8?Q??=", ""),
            ("a =?utf-8?B??= b", "a  b"),
        ],
    ),
    *subjects(
        "encoded words as they are seen",
        [
            ("=?utf-8?B?R3LD?= =?utf-8?B?vMOfZQ==?=", "Grüße"),  # a character cut in two
            ("=?utf-8?Q?Gr=C3?=\n =?UTF-8?Q?=BC=C3=9Fe?=", "Grüße"),
            ("=?utf-8?Q?=F0=9F?= =?utf-8?B?jok=?=", "🎉"),
            ("=?utf-8?Q?a?==?utf-8?Q?b?=", "ab"),
            ("x=?utf-8?Q?y?=z", "xyz"),
            ("[list]=?utf-8?Q?=C3=BC?=", "[list]ü"),
            ("=?utf-8?Q?with space in it?=", "with space in it"),
            ("=?utf-8?Q?folded\n inside?=", "folded inside"),
            ("=?utf-8?B?R3LDvMOf\n ZQ==?=", "Grüße"),
            ("=?utf-8?B?R3LDvMOfZQ?=", "Grüße"),  # no padding
            ("=?utf-8?B?R3LDvMOfZQ=?=", "Grüße"),
            ("=?utf-8?B?R3LD*vMOf!ZQ==?=", "Grüße"),
            ("=?utf-8?Q?Why? Because=21?=", "Why? Because!"),
            ("=?utf-8?Q?What=3F?? =?utf-8?Q?ok?=", "=?utf-8?Q?What=3F?? ok"),
            ("=?utf-8?Q?100=25 = 1=2?=", "100% = 1=2"),
            ("=?utf-8?X?abc?=", "=?utf-8?X?abc?="),
            ("=?utf-8?Q?unfinished", "=?utf-8?Q?unfinished"),
            ("=?iso-8859-1?Q?Gr=C3=BC=C3=9Fe?=", "Grüße"),  # UTF-8 under another name
            ("=?iso-8859-1?Q?=80_=93x=94?=", "€ “x”"),  # windows-1252 under another name
            ("=?utf-8?Q?Gr=FC=DFe?=", "Grüße"),  # Latin 1 under another name
            ("=?us-ascii?Q?Gr=C3=BC?=", "Grü"),
            ("=?unknown-8bit?Q?Gr=C3=BC?=", "Grü"),
            ("=?x-unknown?B?R3LDvA==?=", "Grü"),
            ("=?gb2312?B?gUA=?=", "丂"),
            ("=?ks_c_5601-1987?B?lO4=?=", "뷁"),
            ("=?iso-2022-jp?B?GyRCLSEbKEI=?=", "①"),  # NEC's row 13
            ("=?utf-7?Q?Gr+APwA3w-e?=", "Grüße"),
            ("=?UTF8?Q?=C3=BC?=", "ü"),
            ("=?utf-8?Q?=E2=80?=", "\ufffd"),
            ("=?utf-8?Q?=3D=3Futf-8=3FQ=3Fx=3F=3D?=", "=?utf-8?Q?x?="),  # once, not again
            ("=?utf-8?Q?a=0D=0ABcc:_x@y?=", "a Bcc: x@y"),
            ("=?utf-8?Q?a=00b=07c?=", "a b c"),
        ],
        broken=True,
    ),
    *subjects(
        "folding",
        [
            ("one\n two", "one two"),
            ("one\n\ttwo", "one two"),
            ("one \n  two", "one   two"),
            ("\n on the next line", "on the next line"),
            ("  spaces around  ", "spaces around"),
            ("one\n two\n three\n four", "one two three four"),
            ("", ""),
            (":colon: first", ":colon: first"),
        ],
    ),
    *subjects("folding, obsolete", [("one\n \n two", "one  two"), ("one\n\t", "one")], broken=True),
    *subjects(
        "octets that are not ASCII",
        [
            ("Grüße aus Köln", "Grüße aus Köln"),  # RFC 6532
            ("会議 =?utf-8?Q?=C3=BC?=", "会議 ü"),
            ("🎉\n 🎈", "🎉 🎈"),
            (b"Gr\xfc\xdfe", "Grüße"),
            (b"\x93quoted\x94 \x80", "“quoted” €"),
            ("Grüße".encode() + b" \xff", "Grüße \ufffd"),
            (b"\x1b$B2q5D\x1b(B", "会議"),
            (b"bell\x07 and \x00 null", "bell  and   null"),
            (b"tab\tand\x0bvertical", "tab and vertical"),
            ("line\u2028separator", "line separator"),
        ],
        broken=True,
    ),
    case(
        "octets in the character set of the text",
        "Subject: Привет\nContent-Type: text/plain; charset=koi8-r\n\nтекст".encode("koi8-r"),
        broken=True,
        subject="Привет",
        text="текст",
    ),
    case(
        "octets in the character set of the first text",
        b"Subject: \xc4\xe3\xba\xc3\nContent-Type: multipart/alternative; boundary=b\n\n"
        b"--b\nContent-Type: text/plain; charset=gb2312\n\n\xc4\xe3\n--b--\n",
        broken=True,
        subject="你好",
        text="你",
    ),
    case("no header but a subject", "Subject: x\n\nText.", subject="x", sender=None, to=[], date=None, text="Text."),
    case("names in any case", "sUBJECT: x\nFROM: a@b\ndate: 1 Mar 2026 12:30 +0000\n\n", subject="x", sender="|a@b"),
    case("space before the colon", "Subject : x\nFrom\t: a@b\n\nText.", broken=True, subject="x", sender="|a@b"),
    case("no space after the colon", "Subject:x\nFrom:a@b\n\nText.", subject="x", sender="|a@b", text="Text."),
    case(
        "a line of an mbox first", "From a@b Sun Mar  1 12:30:05 2026\nSubject: x\n\nText.", subject="x", text="Text."
    ),
    case("a quoted line of an mbox first", ">From a@b Sun Mar 1\nSubject: x\n\nText.", broken=True, subject="x"),
    case("a line that is no field", "Subject: x\nno field at all\nTo: c@d\n\nText.", broken=True, to=["|c@d"]),
    case("a folded line first", " folded\nSubject: x\n\nText.", broken=True, subject="x", text="Text."),
    case("two subjects", "Subject: one\nSubject: two\n\n", broken=True, subject="one"),
    case(
        "two dates",
        "Date: 1 Mar 2026 12:30 +0000\nDate: 1 Mar 2020 12:30 +0000\n\n",
        broken=True,
        date_text="2026-03-01",
    ),
    case("two senders in two fields", "From: a@b\nFrom: c@d\n\n", broken=True, sender="|a@b"),
    case("two To fields", "To: a@b\nTo: c@d, e@f\n\n", broken=True, to=["|a@b", "|c@d", "|e@f"]),
    case("two types", "Content-Type: text/html\nContent-Type: text/plain\n\n<p>x", broken=True, html="<p>x", text=None),
    case("a sender, no author", "Sender: Ann <a@b>\n\n", sender="Ann|a@b"),
    case("an author without an address", "From: Ann\nSender: s@b\n\n", broken=True, sender="|s@b"),
    case(
        "resent fields change nothing",
        "Resent-From: r@x\nResent-To: s@x\nFrom: a@b\nTo: c@d\n\n",
        sender="|a@b",
        to=["|c@d"],
    ),
    case("a subject without end", "Subject: " + "s" * 5000 + "\n\n", subject="s" * 2000),
    case("a field of a megabyte", "X: " + "x" * 1_000_000 + "\nSubject: x\n\nText.", subject="x", text="Text."),
    case(
        "500 fields", "".join(f"X-{n}: y\n" for n in range(500)) + "Subject: x\n\nText.", subject="x", header_count=200
    ),
    case("a header without end", "Subject: x\nFrom: a@b", subject="x", sender="|a@b", text=""),
    verbatim(
        "only line feeds",
        b"Subject: x\nTo: a@b,\n c@d\n\nOne\nTwo\n",
        subject="x",
        to=["|a@b", "|c@d"],
        text="One\nTwo",
    ),
    verbatim(
        "line breaks of both kinds",
        b"Subject: x\r\nTo: a@b\n\r\nOne\nTwo\r\n",
        subject="x",
        to=["|a@b"],
        text="One\nTwo",
    ),
    verbatim("only carriage returns", b"Subject: x\rTo: a@b\r\rOne\rTwo\r", broken=True, subject="x", text="One\nTwo"),
    verbatim(
        "carriage returns doubled", b"Subject: x\r\r\nTo: a@b\r\r\n\r\r\nOne", broken=True, subject="x", to=["|a@b"]
    ),
    verbatim("a blank line first", b"\r\nSubject: x\r\n\r\nText", broken=True, subject="", text="Subject: x\n\nText"),
    verbatim("nothing at all", b"", subject="", text="", warnings=[]),
    verbatim("a line break", b"\r\n", subject="", text=""),
    verbatim("NUL octets", b"Subject: a\0b\r\n\r\nT\0ext", broken=True, subject="a b", text="Text"),
    verbatim("no header", b"Just some text\r\nand more.\r\n", warned="no header", text="Just some text\nand more."),
    case("a null message id", "Message-ID: <>\n\n", broken=True, message_id=None),
    case("a folded message id", "Message-ID:\n <a.b@example.com>\n\n", message_id="<a.b@example.com>"),
    case("a message id and a comment", "Message-ID: <a@b> (added by x@y)\n\n", message_id="<a@b>"),
    case("a message id without brackets", "Message-ID: a@b\n\n", broken=True, message_id="<a@b>"),
    case("a message id with spaces", "Message-ID: < a@b >\n\n", broken=True, message_id="<a@b>"),
    case("a message id without at", "Message-ID: <abc>\n\n", message_id="<abc>"),
    case("a message id in Unicode", "Message-ID: <ü@b>\n\n", message_id="<ü@b>"),
    case("a quoted message id", 'Message-ID: <"a b"@c>\n\n', broken=True, message_id='<"ab"@c>'),
    case("references folded and doubled", "References: <a@b>\n\t<c@d>\n <a@b>\n\n", references=["<a@b>", "<c@d>"]),
    case("references with commas", "References: <a@b>,<c@d>\n\n", broken=True, references=["<a@b>", "<c@d>"]),
    case("references without spaces", "References: <a@b><c@d>\n\n", references=["<a@b>", "<c@d>"]),
    case("a reference cut off", "References: <a@b> <c@\n\n", broken=True, references=["<a@b>"]),
    case(
        "in reply to a phrase",
        'In-Reply-To: Your message of "Sun, 1 Mar 2026" <a@b>\n\n',
        in_reply_to=["<a@b>"],
    ),
    case(
        "1,200 references", "References: " + "\n ".join(f"<{n}@b>" for n in range(1200)) + "\n\n", reference_count=1000
    ),
]
