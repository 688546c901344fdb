"""Nothing that anybody types, publishes or answers leads a request of ours to a private, link-local or metadata
address; and nothing that somebody answers is quoted. In an internet of its own, where every connection that this
process begins is seen by an audit hook, whatever it is begun by.
"""

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

import mailbox_appliance
from mailbox_appliance.mail.large import SplitAttachment
from mailbox_appliance.model.accounts import OAuthApp, Security
from mailbox_appliance.remote import graph as remote_graph
from mailbox_appliance.remote import oauth, send_as
from mailbox_appliance.remote.discovery.discovery import DiscoveryOptions, discover
from mailbox_appliance.remote.errors import RemoteFault
from mailbox_appliance.remote.graph import Graph
from mailbox_appliance.remote.net import connect, https
from mailbox_appliance.remote.net.calls import RemoteCalls
from mailbox_appliance.remote.net.dns import Resolver
from mailbox_appliance.remote.oauth import OAuthClient
from mailbox_appliance.remote.providers import BUILT_IN, url_for_tenant
from tests.remote.net.test_connect import ELSEWHERE
from tests.servers.internet import RESOLVER, WEB, WEB_6, Internet, internet, is_inside, run_inside

ROOT = Path(mailbox_appliance.__file__).parent
FORBIDDEN = ELSEWHERE.split()
#: Of those, where not even a mail server lies that somebody typed.
NOWHERE = [one for one in FORBIDDEN if not connect.is_allowed(ip_address(one), "tls")]
MARK = "XYZZY-4711"
PROVIDERS = (
    "login.microsoftonline.com",
    "oauth2.googleapis.com",
    "openidconnect.googleapis.com",
    "graph.microsoft.com",
    "gmail.googleapis.com",
    "outlook.office.com",
)
HOSTS = (
    "start.example",
    "rebind.example",
    "mixed.example",
    "hostile.example",
    "autoconfig.hostile.example",
    *PROVIDERS,
)

#: Ways out of a process, by the names of calls; and where they stand, with what goes that way.
_WAYS = {
    *("connect", "connect_ex", "create_connection", "open_connection", "sendto", "sendmsg", "getaddrinfo"),
    *("gethostbyname", "urlopen", "urlretrieve", "HTTPConnection", "HTTPSConnection", "IMAP4", "IMAP4_SSL", "SMTP"),
    *("SMTP_SSL", "IMAPClient"),
}
_CALLED = re.compile(rf"\b({'|'.join(_WAYS)})\(")
_KNOWN_WAYS = {
    "remote/net/connect.py getaddrinfo": "names of servers, unless another resolver is named",
    "remote/net/connect.py connect": "to addresses that were checked",
    "remote/imap/client.py open_connection": "remote/net/connect.py",
    "remote/smtp.py open_connection": "remote/net/connect.py",
    "remote/net/https.py open_connection": "remote/net/connect.py",
    "sync/mailbox.py connect": "a mailbox, by remote/imap/client.py",
    "store/database.py connect": "a file",
    "service/signals.py sendto": "systemd's socket, a file",
    "web/server/server.py getaddrinfo": "where we listen: numbers alone",
}
#: Clients of an appliance, and what embeds servers of its own: they reach no servers of others.
_NOT_SERVING = ("cli/", "client/", "tray/", "demo/", "mcp_server/")


if not is_inside():

    def test_all_of_it_in_an_internet_of_its_own(tmp_path: Path) -> None:
        run_inside(__file__, tmp_path)

    def ways_out() -> set[str]:
        found = set()
        for file in ROOT.rglob("*.py"):
            place, source = file.relative_to(ROOT).as_posix(), file.read_text("utf-8")
            if place.startswith(_NOT_SERVING) or not _CALLED.search(source):
                continue
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
                    found.update([f"{place} {name}"] if name in _WAYS else [])
        return found

    def test_no_other_way_leads_out() -> None:
        assert ways_out() - set(_KNOWN_WAYS) == set()

    @pytest.mark.parametrize(
        "tenant",
        ["..", "../..", "a/b", "@127.0.0.1", "a@127.0.0.1/", "#", "?", "127.0.0.1:25", "a\r\nHost: x", "%2f", ""],
    )
    def test_a_tenant_does_not_choose_the_host(tenant: str) -> None:
        url = url_for_tenant(BUILT_IN["outlook"].token_url, tenant)
        assert https._parse_url(url, "oauth").host == "login.microsoftonline.com"
        assert url.count("/") == BUILT_IN["outlook"].token_url.count("/")

else:
    #: Where this process has connected to since a test began.
    begun: set[str] = set()

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        """The servers of this internet answer in threads of their own."""
        if not event.startswith(("socket.connect", "socket.send")) or not isinstance(arguments[1], tuple):
            return
        if "process_request_thread" not in threading.current_thread().name:
            begun.add(str(arguments[1][0]))

    sys.addaudithook(watch)

    @pytest.fixture(scope="module")
    def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Internet]:
        with internet(tmp_path_factory.mktemp("internet"), HOSTS) as there:
            for number, address in enumerate(FORBIDDEN):
                there.names.add(f"trap{number}.example", "AAAA" if ":" in address else "A", address)
            there.names.add("start.example", "A", WEB)
            yield there

    @pytest.fixture(autouse=True)
    def _afresh() -> None:
        begun.clear()

    def reach(world: Internet, *, own: bool, only_public: bool = True) -> https.HttpsOptions:
        """`own`: with a resolver that the operator names, not the system's."""
        find = Resolver(f"{RESOLVER}:53", float("inf")).look_up if own else None
        return https.HttpsOptions("autoconfig", world.ca_file, 3, only_public, find)

    def refused(url: str, how: https.HttpsOptions, *, redirects: int = 0) -> RemoteFault:
        with pytest.raises(RemoteFault) as caught:
            https.get(url, how, redirects=redirects)
        assert MARK not in caught.value.reason + str(caught.value)
        return caught.value

    BOTH = pytest.mark.parametrize("own", [False, True], ids=["system", "named"])

    @BOTH
    def test_names_that_stand_for_such_addresses(own: bool, world: Internet) -> None:
        for number, address in enumerate(FORBIDDEN):
            fault = refused(f"https://trap{number}.example/", reach(world, own=own))
            assert fault.kind == "forbidden_address", address
        assert begun <= {RESOLVER}

    @BOTH
    @pytest.mark.parametrize(
        "place",
        [
            *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "127.0.0.1.", "localhost"),
            *("localhost.", "LOCALHOST", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[fe80::1]"),
            *("[fe80::1%25lo]", "169.254.169.254", "[::ffff:169.254.169.254]", "169.254.169.254.", "2852039166"),
            *("10.0.0.5:8443", "start.example@127.0.0.1", "start.example:443@127.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1"),
            *(
                "0",
                "0.0.0.0",
                "trap0.example.",
                "trap0.example%00.start.example",
                "start.example\\@127.0.0.1",
                "",
                "[::]",
            ),
        ],
    )
    def test_addresses_that_are_typed(place: str, own: bool, world: Internet) -> None:
        assert refused(f"https://{place}/", reach(world, own=own)).kind in ("forbidden_address", "unreachable")
        assert begun <= {RESOLVER}

    @pytest.mark.parametrize(
        "location",
        [
            *("https://127.0.0.1/", "https://localhost/", "https://[::1]/", "https://trap0.example/", "//127.0.0.1/"),
            *("https://169.254.169.254/latest/meta-data/", "https://[::ffff:10.0.0.5]/", "https://10.0.0.5:8443/"),
            *("http://start.example/", "http://127.0.0.1/", "ftp://start.example/", "file:///etc/passwd"),
            *("https:127.0.0.1", "https://start.example@127.0.0.1/", "https://127.0.0.1#@start.example/"),
            *("https:\\\\127.0.0.1\\", "https://", "https://[64:ff9b::a9fe:a9fe]/", "https://2130706433/"),
            *("\thttps://127.0.0.1/", f"https://{MARK}.invalid/"),
        ],
    )
    def test_redirects(location: str, world: Internet) -> None:
        world.web.put("start.example/go", MARK.encode(), 302, Location=location)
        told = ""
        try:
            assert https.get("https://start.example/go", reach(world, own=False), redirects=3).status in (302, 404)
        except RemoteFault as fault:
            told = fault.reason + str(fault)
        assert MARK not in told
        assert begun == {WEB}
        assert world.web.met_at == {WEB}

    @BOTH
    @pytest.mark.parametrize("then", ["127.0.0.1", "10.0.0.5", "169.254.169.254"])
    def test_a_name_that_changes_its_mind(then: str, own: bool, world: Internet) -> None:
        """It is looked up once, and what was checked is what is connected to."""
        name = "rebind.example"
        world.names._records.pop((name, "A"), None)
        for address in (WEB, then):
            world.names.add(name, "A", address)
        world.names.asked.clear()
        assert https.get(f"https://{name}/", reach(world, own=own)).status == 404
        assert world.names.asked.count((name, "A")) == 1
        assert begun - {RESOLVER} == {WEB}
        assert refused(f"https://{name}/", reach(world, own=own)).kind == "forbidden_address"
        assert begun - {RESOLVER} == {WEB}

    @BOTH
    def test_of_several_addresses_the_public_ones_count(own: bool, world: Internet) -> None:
        world.names._records.pop(("mixed.example", "A"), None)
        world.names.add("mixed.example", "A", "10.0.0.5", "127.0.0.1", "169.254.169.254", WEB)
        world.names.add("mixed.example", "AAAA", "::1", "fd00::5", WEB_6)
        assert https.get("https://mixed.example/", reach(world, own=own)).status == 404
        assert begun - {RESOLVER} <= {WEB, WEB_6}

    def test_even_the_operators_word_does_not_lead_everywhere(world: Internet) -> None:
        for address in NOWHERE:
            place = f"[{address}]" if ":" in address else address
            assert refused(f"https://{place}/", reach(world, own=False, only_public=False)).kind == "forbidden_address"
        assert begun == set()

    def test_mail_servers_that_are_typed(world: Internet) -> None:
        for number, address in enumerate(FORBIDDEN):
            securities: list[Security] = ["tls", "starttls", "none"] if address in NOWHERE else []
            for security in securities:
                for host in (address, f"trap{number}.example"):
                    with pytest.raises(RemoteFault, match="forbidden_address"):
                        connect.open_connection(host, 993, security, 1, server="imap")
        with pytest.raises(RemoteFault, match="forbidden_address"):
            connect.open_connection("start.example", 143, "none", 1, server="imap")
        assert begun == set()

    HOSTILE = f"""<clientConfig version="1.1"><emailProvider id="{MARK}"><displayName>{MARK}</displayName>
      <incomingServer type="imap"><hostname>169.254.169.254</hostname><port>80</port><socketType>SSL</socketType>
      <username>{MARK}</username></incomingServer>
      <outgoingServer type="smtp"><hostname>localhost</hostname><port>25</port><socketType>SSL</socketType>
      <username>{MARK}</username></outgoingServer></emailProvider></clientConfig>"""

    @pytest.mark.parametrize(
        "zone",
        [
            ["@ A 10.0.0.5", "autoconfig A 127.0.0.1", "imap A 127.0.0.1", "smtp A 169.254.169.254", "mail A 0.0.0.0"],
            ["autoconfig CNAME localhost.", "@ AAAA ::1", "imap CNAME localhost.", "mail AAAA 64:ff9b::7f00:1"],
            ["_imaps._tcp SRV 0 0 80 169.254.169.254.", "_submissions._tcp SRV 0 0 25 localhost."],
            [r"_imaps._tcp SRV 0 0 993 a/\.\./b.example.", r"_submissions._tcp SRV 0 0 465 a\@127.0.0.1."],
            ["@ MX 1 localhost.", "@ MX 2 127.0.0.1.", "@ MX 3 169.254.169.254.", r"@ MX 4 x/\.\./y.example."],
            [r"@ MX 1 a\?b\#c.evil.example.", "@ MX 2 trap0.example."],
            ["autodiscover CNAME 169.254.169.254.", "@ MX 1 ."],
            [f"autoconfig A {WEB}", f"@ A {WEB}"],
        ],
    )
    def test_a_domain_that_is_hostile(zone: list[str], world: Internet) -> None:
        world.names._records.clear()
        world.names.add("start.example", "A", WEB)
        world.names.add("localhost", "A", "127.0.0.1")
        world.names.add_zone("hostile.example", zone)
        world.web.put("autoconfig.hostile.example/mail/config-v1.1.xml", HOSTILE.encode())
        world.web.put("hostile.example/.well-known/autoconfig/mail/config-v1.1.xml", MARK.encode(), 500)
        world.web.asked.clear()
        found = discover(
            "ada@hostile.example",
            DiscoveryOptions(RemoteCalls(), "", "https://start.example/d/", ca_file=world.ca_file),
        )
        assert found.candidates == ()
        assert not [one for one in found.results if one.servers or MARK in one.message]
        assert begun <= {WEB, RESOLVER}
        assert {one.partition("/d/")[0] for one in world.web.asked if "/d/" in one} == {"start.example"}
        assert not [one for one in world.web.asked if ".." in one or "#" in one]

    @pytest.mark.parametrize(
        "email",
        [
            *("ada@127.0.0.1", "ada@localhost", "ada@[127.0.0.1]", "ada@①②⑦.⓪.⓪.①", "ada@127。0。0。1"),
            *("ada@localhost。", "ada@hostile.example／x", "ada@hostile.example\u2044x", "ada@hostile.example：25"),
            *("ada@hostile.example%2f", "ada@x＠127.0.0.1", "ada@hostile.example#", "ada@a?b.example", "ada@0x7f.1"),
            *("ada@169.254.169.254", "ada@[::1]", "ada@metadata.google.internal", "ada@a..b", "ada@.", "ada@", "@"),
            *("ada@" + "a." * 130 + "example",),
        ],
    )
    def test_addresses_of_mailboxes(email: str, world: Internet) -> None:
        assert discover(email, DiscoveryOptions(RemoteCalls(), ca_file=world.ca_file)).candidates == ()
        assert begun <= {RESOLVER}

    @pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.5", "169.254.169.254", "100.64.0.1"])
    def test_providers_whose_names_lie(address: str, world: Internet) -> None:
        """DNS that was tampered with leads a token to nobody on this network."""
        world.names._records.clear()
        for host in PROVIDERS:
            world.names.add(host, "A", address)
        for provider in BUILT_IN.values():
            asking = OAuthClient(provider, OAuthApp(provider.provider, "id", "secret"), world.ca_file, 3)
            with pytest.raises(RemoteFault, match="oauth: forbidden_address"):
                oauth.refresh_access(asking, "a refresh token", provider.mail_scopes)
            with pytest.raises(RemoteFault, match="forbidden_address"):
                send_as.fetch_sender_addresses(provider, "an access token", ca_file=world.ca_file, timeout=3)
        with pytest.raises(RemoteFault, match="forbidden_address"):
            oauth.fetch_userinfo(
                OAuthClient(BUILT_IN["google"], OAuthApp("google", "id", None), world.ca_file, 3), "an access token"
            )
        with pytest.raises(RemoteFault, match="forbidden_address"):
            oauth.request_device_code(
                OAuthClient(BUILT_IN["outlook"], OAuthApp("outlook", "id", None), world.ca_file, 3), ["a"]
            )
        with pytest.raises(RemoteFault, match="forbidden_address"):
            Graph(BUILT_IN["outlook"], None, ca_file=world.ca_file, timeout=3).create_draft("an access token", b"x")
        assert begun == set()

    class Large(SplitAttachment):
        """A file that is uploaded."""

        def pieces(self, length: int) -> Iterator[bytes]:
            yield bytes(min(length, self.size))

    LARGE = Large("a", "application/pdf", None, False, 3_000_000, None)  # type: ignore[arg-type]

    def upload(world: Internet, url: str) -> remote_graph.FileUpload:
        """An upload that leads to an address, as Graph says."""
        world.names._records.clear()
        world.names.add("graph.microsoft.com", "A", WEB)
        session = f'{{"uploadUrl": "{url}", "nextExpectedRanges": ["0-"]}}'
        place = "graph.microsoft.com/v1.0/me/messages/x/attachments/createUploadSession"
        world.web.put(place, session.encode(), 201)
        graph = Graph(BUILT_IN["outlook"], None, ca_file=world.ca_file, timeout=3)
        begun_upload = remote_graph.start_upload(graph, "an access token", "x", LARGE)
        assert isinstance(begun_upload, remote_graph.FileUpload)
        return begun_upload

    UPLOAD = f"https://outlook.office.com/api/x('y')?authtoken={MARK}"

    @pytest.mark.parametrize("address", FORBIDDEN)
    def test_where_uploads_go_may_lie(address: str, world: Internet) -> None:
        led = upload(world, UPLOAD)
        world.names.add("outlook.office.com", "AAAA" if ":" in address else "A", address)
        with pytest.raises(RemoteFault, match="graph: forbidden_address") as caught:
            led.upload(LARGE)
        assert MARK not in caught.value.reason + str(caught.value)
        assert begun == {WEB}

    @pytest.mark.parametrize(
        "url",
        [
            *("https://start.example/", "https://graph.microsoft.com/", "https://outlook.office.com.start.example/"),
            *("https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/", "https://10.0.0.5/", "//127.0.0.1/"),
            *("http://outlook.office.com/", "https://outlook.office.com:8443/"),
            *("https://outlook.office.com@127.0.0.1/", "https://127.0.0.1#@outlook.office.com/"),
            *("https://outlook.office.com./", "file:///etc/passwd", "x"),
        ],
    )
    def test_where_uploads_lead_is_not_for_an_answer_to_say(url: str, world: Internet) -> None:
        led = upload(world, f"{url}?authtoken={MARK}")
        world.names.add("start.example", "A", WEB)
        world.names.add("outlook.office.com", "A", WEB)
        world.web.asked.clear()
        with pytest.raises(RemoteFault, match="graph: forbidden_address") as caught:
            led.upload(LARGE)
        assert MARK not in caught.value.reason + str(caught.value)
        assert world.web.asked == []

    def test_uploads_follow_no_redirect(world: Internet) -> None:
        led = upload(world, UPLOAD)
        world.names.add("outlook.office.com", "A", WEB)
        world.web.put("outlook.office.com/api/x('y')", b"", 307, Location="https://127.0.0.1/")
        assert led.upload(LARGE).status == 307
        assert begun == {WEB}

    SAID = f'{{"error": "{MARK}", "error_description": "{MARK}", "error_uri": "https://{MARK}/", "code": "{MARK}"}}'

    @pytest.mark.parametrize(
        ("status", "body"), [(400, SAID), (401, SAID), (500, MARK), (200, MARK), (302, MARK), (429, SAID)]
    )
    def test_no_answer_of_a_provider_is_quoted(status: int, body: str, world: Internet) -> None:
        world.names._records.clear()
        for host in PROVIDERS:
            world.names.add(host, "A", WEB)
        world.web.put(
            "login.microsoftonline.com/common/oauth2/v2.0/token", body.encode(), status, Location="https://127.0.0.1/"
        )
        world.web.put("graph.microsoft.com/v1.0/me/messages/x", body.encode(), status, Location="https://127.0.0.1/")
        asking = OAuthClient(BUILT_IN["outlook"], OAuthApp("outlook", "id", None), world.ca_file, 3)
        graph = Graph(BUILT_IN["outlook"], None, ca_file=world.ca_file, timeout=3)
        world.web.put("graph.microsoft.com/v1.0/me", body.encode(), status, Location="https://127.0.0.1/")
        acts: list[Callable[[], object]] = [
            lambda: oauth.refresh_access(asking, "a refresh token", ["a"]),
            lambda: graph.get_draft_state("an access token", "x"),
            lambda: send_as.fetch_sender_addresses(
                BUILT_IN["outlook"], "an access token", ca_file=world.ca_file, timeout=3
            ),
        ]
        for act in acts:
            with pytest.raises(RemoteFault) as caught:
                act()
            assert MARK not in f"{caught.value.reason} {caught.value} {caught.value.name} {caught.value.code}"
        assert begun == {WEB}
