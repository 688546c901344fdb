"""The sample mail in the inbox, about the newest first: threads, lists, newsletters, receipts and many scripts."""

from collections.abc import Sequence

from mailbox_appliance.demo.letters import (
    AMELIE,
    BANK,
    BUDGET,
    BUILD,
    COLLEAGUE,
    FORWARDED,
    INVITATION,
    INVOICE,
    JOSE,
    LIST,
    LIWEI,
    NEWS,
    NOA,
    NOTE,
    OSKAR,
    PICTURES,
    SERGEI,
    SHOP,
    UNKNOWN,
    YUKI,
    Letter,
)

_LIST_HEADERS = (
    ("List-Id", "Lighthouse keepers <keepers.lists.example.org>"),
    ("List-Post", "<mailto:keepers@lists.example.org>"),
    ("List-Unsubscribe", "<mailto:keepers-leave@lists.example.org>, <https://lists.example.org/keepers/leave>"),
    ("Precedence", "list"),
)
_NEWS_HEADERS = (
    ("List-Unsubscribe", "<https://tidetable.example/unsubscribe>"),
    ("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
)
_LONG_SUBJECT = (
    "Minutes of the meeting about the stairs, the door, the lamp, the paint, the benches, the leaflet, the opening "
    "hours, the price of the ticket, the cat, and what we said we would not talk about but then did for an hour"
)


def _newsletter(title: str, stories: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f'<tr><td style="padding:12px;font-family:Georgia,serif"><h2>{head}</h2><p>{body}</p></td></tr>\n'
        for head, body in stories
    )
    return (
        f"<!doctype html>\n<html><head><title>{title}</title><style>h2 {{ color: #035 }}</style></head>\n"
        f'<body bgcolor="#eef"><table width="600" align="center"><tr><td><h1>{title}</h1></td></tr>\n{rows}'
        '<tr><td><a href="https://tidetable.example/unsubscribe">Unsubscribe</a></td></tr></table></body></html>\n'
    )


INBOX = (
    Letter(
        "welcome",
        0.2,
        COLLEAGUE,
        "Welcome to the demo",
        flags="",
        text=(
            "Hello Robin,\n\nthis mailbox lives on your own computer and is gone when you stop the demo. "
            "Mail to me arrives, mail to lost@demo.test shows what an uncertain delivery looks like, and nothing "
            "leaves this machine.\n\nMira\n"
        ),
    ),
    Letter(
        "lamp-3",
        1,
        COLLEAGUE,
        "Re: Lighting the lamp",
        answers="lamp-2",
        flags="",
        text=(
            "Friday it is. I bring matches, although it is electric.\n\nMira\n\n"
            "> On Friday, before the museum people come.\n"
        ),
    ),
    Letter(
        "build-212",
        2,
        BUILD,
        "[lighthouse-site] Build 212 passed",
        flags="",
        text=("All 318 checks passed in 41 s.\n\nCommit 4f1c2ab: show the tide on the front page\n"),
        headers=(("Auto-Submitted", "auto-generated"),),
    ),
    Letter(
        "opening",
        3,
        OSKAR,
        "Invitation: Opening of the lighthouse museum",
        flags="F",
        text=(
            "Dear Robin,\n\nplease keep the evening free. "
            "The invitation for your calendar is attached.\n\nOskar Brandt\n"
        ),
        files=(INVITATION,),
    ),
    Letter(
        "tides-40",
        5,
        NEWS,
        "Spring tides ✨ and a seal on the slipway",
        flags="",
        text=("Spring tides on Tuesday. A seal on the slipway. Read it all at https://tidetable.example/40\n"),
        html=_newsletter(
            "The Tide Table",
            (
                ("Spring tides on Tuesday", "High water at 11:42, 6.1&nbsp;m. Bring in your chairs."),
                ("A seal on the slipway", "It stays until it goes. Please keep 30 metres away &amp; be quiet."),
            ),
        ),
        headers=_NEWS_HEADERS,
    ),
    Letter(
        "pictures",
        7,
        AMELIE,
        "Deux images du phare",
        text=("Bonjour Robin,\n\nvoici la lampe et la jetée. Ça te plaît ?\n\nAmélie\n"),
        html=(
            '<p>Bonjour Robin,</p><p>voici la lampe : <img src="cid:lamp@demo.test" alt="la lampe"></p>'
            '<p>et la jetée : <img src="cid:pier@demo.test" alt="la jetée"></p><p>Amélie</p>\n'
        ),
        files=PICTURES,
    ),
    Letter(
        "tide-ja",
        9,
        YUKI,
        "潮汐表の翻訳について",
        charset="iso-2022-jp",
        text=("ロビンさん、\n\n潮汐表の日本語訳が終わりました。確認をお願いします。\n\n田中\n"),
    ),
    Letter(
        "lens-ru",
        11,
        SERGEI,
        "Линза Френеля готова",
        charset="koi8-r",
        text=("Здравствуйте, Робин!\n\nЛинза готова и упакована. Отправим её в среду.\n\nСергей\n"),
    ),
    Letter(
        "shore-he",
        13,
        NOA,
        "סיור במגדלור ביום ראשון",
        flags="",
        text=("שלום רובין,\n\nנגיע ביום ראשון בשעה 10:00, שמונה אנשים. האם יש חניה?\n\nתודה, נועה\n"),
    ),
    Letter(
        "lantern-zh",
        16,
        LIWEI,
        "灯笼的尺寸",
        charset="gb18030",
        text=("你好,\n\n灯笼高 45 厘米,宽 30 厘米。需要几个?\n\n李伟\n"),
    ),
    Letter(
        "invoice",
        20,
        SHOP,
        "Your invoice 2041",
        flags="SF",
        text=("Thank you for your order.\n\n12 l white paint   86.40\n\nThe invoice is attached.\n"),
        files=(INVOICE,),
    ),
    Letter(
        "list-3",
        22,
        LIST,
        "[keepers] Re: Which fog horn?",
        answers="list-2",
        flags="",
        text=("On 2 pm, Ines wrote:\n> The old one woke the whole village.\n\nThat is what it was for.\n\n-- \nTom\n"),
        headers=_LIST_HEADERS,
    ),
    Letter(
        "list-2",
        24,
        LIST,
        "[keepers] Re: Which fog horn?",
        answers="list-1",
        text=("> Does anybody have a fog horn to spare?\n\nThe old one woke the whole village.\n\n-- \nInes\n"),
        headers=_LIST_HEADERS,
    ),
    Letter(
        "list-1",
        25,
        LIST,
        "[keepers] Which fog horn?",
        text=("Does anybody have a fog horn to spare?\n\n-- \nTom\n"),
        headers=_LIST_HEADERS,
    ),
    Letter(
        "minutes",
        28,
        OSKAR,
        _LONG_SUBJECT,
        text=(
            "The minutes follow.\n\n"
            + "".join(f"{n}. We talked about point {n} and found that it can wait.\n" for n in range(1, 121))
        ),
        cc=(COLLEAGUE, JOSE),
    ),
    Letter(
        "lamp-1",
        31,
        COLLEAGUE,
        "Lighting the lamp",
        flags="SR",
        text=(
            "Hello Robin,\n\nthe lamp is clean. Shall we light it on Friday, or wait for the museum people?\n\nMira\n"
        ),
    ),
    Letter(
        "pier-es",
        34,
        JOSE,
        "Presupuesto del muelle: ¿mañana o el año que viene?",
        charset="iso-8859-1",
        text=("Robin:\n\nel muelle necesita tres tablones y paciencia. ¿Empezamos mañana?\n\nJosé Ángel\n"),
    ),
    Letter(
        "photos",
        38,
        OSKAR,
        "Fwd: Old photographs of the pier",
        text=("Robin, would you answer Ines? Her message is attached.\n\nOskar\n"),
        files=(FORWARDED,),
    ),
    Letter(
        "statement",
        44,
        BANK,
        "Your statement is ready",
        text=("Your statement for this month is ready. We never ask for your password by mail.\n"),
        html="<p>Your statement for this month is <b>ready</b>.</p><p>We never ask for your password by mail.</p>\n",
    ),
    Letter(
        "door", 50, AMELIE, "Maße der Tür", text="Hallo Robin, die Maße stehen im Anhang.\n\nAmélie\n", files=(NOTE,)
    ),
    Letter(
        "budget",
        55,
        COLLEAGUE,
        "Budget, second half",
        flags="SF",
        text=("The table is attached; the benches are the open point.\n\nMira\n"),
        files=(BUDGET, INVOICE),
        cc=(OSKAR,),
    ),
    Letter("plain", 61, UNKNOWN, "", text="is the tower open on sundays\n"),
    Letter(
        "quotes",
        70,
        JOSE,
        'Re: "Plank, the third" — a question',
        text=(
            "> > Which plank?\n> The third.\n\nFrom the left or from the right?\n\n"
            ".\n..\nFrom here it looks the same.\n"
        ),
    ),
    Letter(
        "tides-39",
        77,
        NEWS,
        "Neap tides, and where the ferry went",
        text="",
        html=_newsletter(
            "The Tide Table",
            (
                ("Neap tides", "Little water, much mud."),
                ("Where the ferry went", "To the yard, for paint. It is back on Monday."),
            ),
        ),
        headers=_NEWS_HEADERS,
    ),
    Letter(
        "build-211",
        90,
        BUILD,
        "[lighthouse-site] Build 211 failed",
        text=(
            "2 of 318 checks failed:\n\n  tests/test_tide.py::test_high_water\n  tests/test_tide.py::test_low_water\n"
        ),
        headers=(("Auto-Submitted", "auto-generated"), ("X-Priority", "1")),
    ),
    Letter("emoji", 101, COLLEAGUE, "🎉🗼", text="👍🏽 👩‍👩‍👧 🇳🇴\n"),
)
