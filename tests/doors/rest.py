"""The interface REST, called in process as WSGI does."""

import io
import json
import re
from typing import Any
from urllib.parse import quote

from mailbox_appliance.appliance import Appliance
from mailbox_appliance.web.app import App
from tests import checked_client
from tests.doors.people import HERE, Aim, Credential, Origin
from tests.doors.rights import Right
from tests.doors.verdicts import NONSENSE, Verdict


class Rest:
    """Asks `/api/v1` with a parameter that nothing knows."""

    def __init__(self, appliance: Appliance) -> None:
        self._app = App(appliance)
        self._checked: set[tuple[str, Verdict]] = set()

    def ask(
        self, right: Right, who: Credential, origin: Origin, aim: Aim, *, ending: str = "", method: str = ""
    ) -> Verdict:
        """What is answered. Of each kind of answer one is held against the description of the API."""
        path = "/api/v1" + right.path.format(**{name: quote(value) for name, value in aim.values.items()}).rstrip("/")
        method = method or right.method
        answer = self.answer(method, path + ending, who, origin, right.body)
        verdict = Verdict(answer.status) if method == "HEAD" else verdict_of(answer)
        if (right.call, verdict) not in self._checked:
            self._checked.add((right.call, verdict))
            checked_client.check(answer, method, path)
        return verdict

    def offered(self) -> set[str]:
        """Every method and path that the application answers, also outside `/api/v1`."""
        router = self._app._router
        rules = {f"{method} {rule[0]}" for method, rules in router.dyna_routes.items() for rule in rules}
        rules |= {f"{method} {path}" for method, paths in router.static.items() for path in paths}
        return {re.sub(r"<(\w+)(?::path)?>", r"{\1}", rule) for rule in rules}

    def data(self, path: str, who: Credential) -> Any:
        """What is answered to a request that is right in every way."""
        return self.answer("GET", f"/api/v1{path}", who, HERE, query="").data

    def answer(
        self, method: str, path: str, who: Credential, origin: Origin, body: Any = None, query: str = f"{NONSENSE}=1"
    ) -> checked_client.Answer:
        """One request."""
        content = b"" if body is None else json.dumps(body).encode()
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "",
            "PATH_INFO": path,
            "QUERY_STRING": query,
        }
        environ |= {"SERVER_PROTOCOL": "HTTP/1.1", "HTTP_HOST": "127.0.0.1:8025", "REMOTE_ADDR": origin.peer}
        environ |= {"wsgi.url_scheme": "https" if origin.is_secure else "http", "wsgi.input": io.BytesIO(content)}
        environ |= {"HTTP_" + name.upper().replace("-", "_"): value for name, value in origin.headers.items()}
        if content:
            environ |= {"CONTENT_LENGTH": str(len(content)), "CONTENT_TYPE": "application/json"}
        if who.token:
            environ["HTTP_AUTHORIZATION"] = f"Bearer {who.token}"
        began: list[tuple[str, list[tuple[str, str]]]] = []
        content = b"".join(self._app(environ, lambda status, headers: began.append((status, headers))))
        status, headers = began[0]
        return checked_client.Answer(int(status[:3]), {name.lower(): value for name, value in headers}, content)


def verdict_of(answer: checked_client.Answer) -> Verdict:
    """Status, code, and what the first detail names."""
    if answer.status < 400:
        return Verdict(answer.status)
    error = answer.body["error"]
    return Verdict(answer.status, error["code"], next((one["path"] for one in error.get("details", ())), None))
