"""The description is valid, complete and true: every response of the other tests is validated against it as well."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from mailbox_appliance.feed.waiting import EventStream
from mailbox_appliance.model.base import DESCRIBED_FIELD, Input, Wire
from mailbox_appliance.model.messages import Download
from mailbox_appliance.operations.decoding import convert_body
from mailbox_appliance.operations.operation import Access
from mailbox_appliance.web import api_examples, openapi
from mailbox_appliance.web.routes import ROUTES, Route
from tests.checked_client import description, resolve_response

METHODS = ("get", "post", "put", "patch", "delete")
#: Beside what a route lists: no such method, a fault of ours, and what the listener answers by itself.
ALWAYS = {"405", "500", "408", "431"}
#: The names of operations and schemas, from which clients were generated: they stay, and new ones are added.
NAMES, SCHEMAS = (part.split() for part in (Path(__file__).parent / "openapi_names.txt").read_text().split("\n\n"))
VERBS = (
    *("accept", "add", "apply", "approve", "cancel", "change", "check", "complete", "create", "delete", "discover"),
    *("dismiss", "download", "forward", "get", "handle", "invite", "list", "map", "preview", "reconnect", "redeem"),
    *("reject", "remove", "replay", "reset", "resolve", "restore", "revoke", "rotate", "send", "set", "sign", "start"),
    *("stream", "test", "tighten", "undo", "update", "upload", "verify"),
)
SUMMARY_VERBS = ("assign", "connect", "find", "import", "issue", "install", "rename", "replace")


def operations() -> Iterator[tuple[str, str, Any]]:
    for path, methods in description()["paths"].items():
        for method, described in methods.items():
            assert method in METHODS
            yield method.upper(), path, described


def described(route: Route) -> Any:
    return description()["paths"][("/api/v1" + route.path).rstrip("/")][route.method.lower()]


def test_it_is_valid() -> None:
    OpenAPIV31SpecValidator(description()).validate()
    assert description()["openapi"] == "3.1.0"


def test_it_says_what_holds_for_every_path() -> None:
    about = " ".join(description()["info"]["description"].split())
    assert "GET and DELETE take no body; one that is sent is ignored" in about
    assert "A path may end with one slash" in about
    assert "A JSON body can have 1 MiB, one that carries a message 36 MiB" in about


def test_every_route_is_in_it_and_nothing_else() -> None:
    routes = {(route.method, ("/api/v1" + route.path).rstrip("/")) for route in ROUTES}
    assert {(method, path) for method, path, _ in operations()} == routes | {("GET", "/api/v1/oauth/callback")}


def test_the_names_of_operations_never_change() -> None:
    """Clients generate their methods from them. Append new ones to `openapi_names.txt`; a refactoring changes none."""
    assert {operation["operationId"] for _, _, operation in operations()} == set(NAMES)
    assert len(NAMES) == len(ROUTES) + 1


@pytest.mark.parametrize("name", NAMES)
def test_the_name_of_an_operation_is_camel_case_with_a_verb_first(name: str) -> None:
    assert re.fullmatch(r"[a-z]+([A-Z][a-z]*)*", name)
    assert re.match(r"[a-z]+", name)[0] in VERBS  # type: ignore[index]


def test_every_operation_has_a_section_that_is_described() -> None:
    sections = {tag["name"]: tag["description"] for tag in description()["tags"]}
    assert all(text.endswith(".") for text in sections.values())
    used = [operation["tags"] for _, _, operation in operations()]
    assert all(len(tags) == 1 for tags in used)
    assert {tag for tags in used for tag in tags} == sections.keys()


def test_a_summary_is_a_verb_and_an_object_in_six_words() -> None:
    for _, path, operation in operations():
        words = operation["summary"].split()
        assert 2 <= len(words) <= 6 or operation["summary"] == "Sign out", path
        assert words[0].istitle(), path
        assert words[0].lower() in VERBS + SUMMARY_VERBS, words[0]
        assert not operation["summary"].endswith("."), path


def test_nothing_lacks_a_description() -> None:
    for _, path, operation in operations():
        assert operation["description"].rstrip().endswith((".", "`")), path
        for parameter in operation["parameters"]:
            assert parameter["description"].endswith("."), (path, parameter["name"])
        assert operation.get("requestBody", {"description": "."})["description"], path
        for response in map(resolve_response, operation["responses"].values()):
            assert response["description"].endswith(".")
            assert all(header["description"] for header in response["headers"].values())
    for name, schema in description()["components"]["schemas"].items():
        assert schema["description"].endswith("."), name
        for field, described_field in schema.get("properties", {}).items():
            assert described_field.get("description", "").endswith("."), (name, field)


def test_a_field_is_described_in_one_place() -> None:
    """A description in the type of a field would hide the one in the docstring of its struct."""
    for kind in (kind for base in (Wire, Input) for kind in openapi._subclasses(base)):
        names = {field.name for field in msgspec.structs.fields(kind)}
        assert {name for name, _ in DESCRIBED_FIELD.findall(inspect.cleandoc(kind.__doc__ or ""))} <= names, kind
        schema = description()["components"]["schemas"].get(kind.__name__, {"properties": {}})
        for name, text in openapi._field_texts(kind).items():
            assert schema["properties"].get(name, {}).get("description", text) == text, (kind, name)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_an_operation_has_examples_that_fit_its_types(route: Route) -> None:
    operation, shown = described(route), {}
    for status in (route.success, route.also):
        if status is None or route.operation.result in (Download, EventStream):
            continue
        content = operation["responses"][str(status)]["content"]["application/json"]
        if route.also is None or status == route.success or "example" in content:
            shown[f"the answer {status}"] = content
    if "requestBody" in operation and route.operation.file is None:
        shown["the request"] = operation["requestBody"]["content"]["application/json"]
    for content in shown.values():
        OAS31Validator(content["schema"] | {"components": description()["components"]}).validate(content["example"])
    if route.operation.body is not None:
        convert_body(content["example"] if "requestBody" in operation else {}, route.operation.body.type)
    for parameter in operation["parameters"]:
        if "example" in parameter:
            OAS31Validator(parameter["schema"]).validate(parameter["example"])


def test_the_error_example_fits() -> None:
    (example,) = description()["components"]["schemas"]["ErrorResponse"]["examples"]
    reference = {"$ref": "#/components/schemas/ErrorResponse", "components": description()["components"]}
    OAS31Validator(reference).validate(example)


def test_every_example_belongs_to_an_operation() -> None:
    for table in (api_examples.PARAMETERS, api_examples.REQUESTS, api_examples.RESPONSES, api_examples.LATER):
        assert table.keys() <= set(NAMES)
    assert api_examples.TYPES.keys() <= {*SCHEMAS, "dict", "NoneType"}


def test_the_names_of_schemas_are_nouns() -> None:
    names = description()["components"]["schemas"].keys()
    assert set(SCHEMAS) == names
    assert all(re.fullmatch(r"([A-Z][a-z]*)+", name) for name in names)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_an_operation_lists_its_own_statuses_and_who_may(route: Route) -> None:
    operation = described(route)
    success = {str(status) for status in (route.success, route.also) if status}
    assert operation["responses"].keys() == success | {str(status) for status in route.errors} | ALWAYS
    for status, response in operation["responses"].items():
        response = resolve_response(response)
        assert response["description"]
        assert next(iter(response["content"])) == (route.media if status in success else "application/json")
        assert response["headers"]["X-Request-Id"]["required"]
    open_to_all = route.operation.rights.access in (Access.ANYBODY, Access.LOCAL)
    assert operation["security"] == ([] if open_to_all else [{"bearer": []}])
    for capability in route.operation.rights.needs:
        assert f"`{capability}`" in operation["description"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_an_operation_describes_all_that_it_takes(route: Route) -> None:
    operation = described(route)
    parameters = {(found["in"], found["name"]): found for found in operation["parameters"]}
    in_path = re.findall(r"{(\w+)}", route.path)
    assert [name for place, name in parameters if place == "path"] == in_path
    for wire, parameter in route.operation.parameters.items():
        if wire not in in_path:
            place, name = parameter.pointer.split(":")
            assert parameters[place, name]["required"] == parameter.is_required
            assert "null" not in str(parameters[place, name]["schema"])
    assert len(parameters) == len(in_path) + len(route.operation.parameters.keys() - set(in_path))
    takes_body = route.operation.body is not None or route.operation.file is not None
    assert ("requestBody" in operation) == takes_body


def test_the_header_of_send_is_described_as_the_specification_has_it() -> None:
    operation = description()["paths"]["/api/v1/accounts/{accountId}/send"]["post"]
    header, preview = (parameter for parameter in operation["parameters"] if parameter["in"] == "header")
    assert (header["name"], header["required"]) == ("Idempotency-Key", True)
    assert (preview["name"], preview.get("required", False)) == ("If-Match", False)
    assert (header["schema"]["minLength"], header["schema"]["maxLength"]) == (1, 255)


def test_a_send_may_answer_as_an_earlier_release_did() -> None:
    for path in ("/accounts/{accountId}/send", FORWARD):
        answered = description()["paths"]["/api/v1" + path]["post"]["responses"]["200"]
        choices = answered["content"]["application/json"]["schema"]["properties"]["data"]["oneOf"]
        assert [choice["$ref"].rpartition("/")[2] for choice in choices] == ["Delivery", "LegacySendResult"]
        assert not answered["headers"]["Idempotency-Replayed"].get("required")


def test_the_order_of_messages_is_described() -> None:
    for path in ("/accounts/{accountId}/messages", "/accounts/{accountId}/threads/{threadId}"):
        assert "INTERNALDATE" in description()["paths"]["/api/v1" + path]["get"]["description"]


def test_only_what_is_said_to_answer_413_lists_it() -> None:
    listing = {f"{method} {path}" for method, path, operation in operations() if "413" in operation["responses"]}
    on_mail = {name for name in listing if "/v1/accounts" in name or "/messages" in name}
    assert on_mail == {
        "POST /api/v1/accounts",
        "PATCH /api/v1/accounts/{accountId}",
        "PUT /api/v1/accounts/{accountId}/access",
        "POST /api/v1/accounts/{accountId}/reconnect",
        "POST /api/v1/accounts/discover",
        "POST /api/v1/accounts/oauth/{provider}",
        "POST /api/v1/accounts/oauth/{provider}/finish",
        "PATCH /api/v1/accounts/{accountId}/imap/folders",
        "PUT /api/v1/accounts/{accountId}/sending-policy",
        "POST /api/v1/accounts/{accountId}/drafts",
        "PUT /api/v1/accounts/{accountId}/drafts/{draftId}",
        "POST /api/v1/accounts/{accountId}/delivery-operations/{operationId}/resolve",
    }


def body_schema(path: str) -> Any:
    operation = description()["paths"]["/api/v1" + path]["post"]
    assert operation["requestBody"]["required"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    return OAS31Validator(schema | {"components": description()["components"]})


SERVER = {"host": "h", "port": 993, "security": "tls", "username": "u", "password": "p"}
MESSAGE: dict[str, object] = {"body": {"text": "Hi"}, "to": [{"email": "bob@example.org", "name": "Bob"}]}
FILE = {"filename": "a.txt", "mimeType": "text/plain", "content": "aGk="}
FORWARD = "/accounts/{accountId}/messages/{messageId}/forward"
RESOLVE = "/accounts/{accountId}/delivery-operations/{operationId}/resolve"
# A body, and whether it fits: a client made from the description sends what is taken.
BODIES: tuple[tuple[str, dict[str, object], bool], ...] = (
    ("/auth/login", {"email": "ada@example.org", "password": "x", "deviceName": "d"}, True),
    ("/auth/login", {"email": "ada", "password": "x", "deviceName": "d"}, False),
    ("/auth/login", {"email": "ada@example.org", "password": "x"}, False),
    ("/auth/login", {"email": "ada@example.org", "password": "x", "deviceName": "d", "more": 1}, False),
    ("/accounts", {"email": "ada@example.org", "imap": SERVER, "smtp": SERVER}, True),
    ("/accounts", {"email": "ada@example.org", "imap": SERVER, "smtp": SERVER, "displayName": None}, True),
    ("/accounts", {"email": "ada@example.org", "imap": SERVER, "smtp": SERVER | {"port": 0}}, False),
    ("/accounts/{accountId}/send", MESSAGE, True),
    ("/accounts/{accountId}/send", {"draftId": "msg_1"}, True),
    ("/accounts/{accountId}/send", MESSAGE | {"attachments": [FILE | {"disposition": "inline"}]}, True),
    ("/accounts/{accountId}/send", MESSAGE | {"draftId": "msg_1"}, False),
    ("/accounts/{accountId}/send", MESSAGE | {"attachments": [FILE | {"disposition": "other"}]}, False),
    ("/accounts/{accountId}/send", {"to": []}, False),
    ("/accounts/{accountId}/send", {"draftId": "msg_1", "sendAt": "2030-01-31T09:00:00Z"}, True),
    ("/accounts/{accountId}/send", {"draftId": "msg_1", "sendAt": None}, False),
    ("/accounts/{accountId}/send/preview", MESSAGE, True),
    ("/accounts/{accountId}/send/preview", {"draftId": ""}, False),
    (FORWARD, {"to": [{"email": "bob@example.org"}]}, True),
    (FORWARD, {"to": [{"email": "bob@example.org"}], "comment": "", "includeAttachments": False}, True),
    (FORWARD, {"to": []}, False),
    (FORWARD, {"to": [{"email": "bob@example.org"}], "bcc": []}, False),
    (RESOLVE, {"outcome": "succeeded"}, True),
    (RESOLVE, {"outcome": "uncertain"}, False),
    (RESOLVE, {}, False),
)


@pytest.mark.parametrize(("path", "body", "fits"), BODIES)
def test_bodies_are_described(path: str, body: dict[str, object], *, fits: bool) -> None:
    assert body_schema(path).is_valid(body) is fits


def test_no_schema_is_left_open() -> None:
    for name, schema in description()["components"]["schemas"].items():
        if schema.get("type") == "object" and not name.startswith("Error"):
            assert schema["additionalProperties"] is False, name
