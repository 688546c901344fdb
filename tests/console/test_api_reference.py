"""The API reference in a browser: every operation is there, and nothing leaves the appliance."""

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.checked_client import description
from tests.console.house import House


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_lists_all_operations_without_a_violation_or_a_foreign_request(
    chromium: Browser, house: House, scheme: str
) -> None:
    context = chromium.new_context(color_scheme=scheme)  # type: ignore[arg-type]
    page, complaints, asked = context.new_page(), [], set()
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.add(request.url))
    page.goto(f"{house.url}/api/v1/docs")
    operations = [one for methods in description()["paths"].values() for one in methods.values()]
    page.locator(".opblock").nth(len(operations) - 1).wait_for()
    shown = {str(one.get_attribute("id")).rpartition("-")[2] for one in page.locator(".opblock").all()}
    assert shown == {one["operationId"] for one in operations}
    _read_an_operation(page)
    assert page.locator(".authorize, .try-out, .execute").count() == 0
    assert ("dark-mode" in str(page.locator("html").get_attribute("class"))) == (scheme == "dark")
    assert {urlsplit(url).netloc for url in asked if not url.startswith("data:")} == {urlsplit(house.url).netloc}
    assert not complaints
    context.close()


def _read_an_operation(page: Page) -> None:
    """Open one, with a link to it, and see its description, a parameter, an example and a status."""
    page.locator("#operations-Sending-sendEmail .opblock-summary-control").click()
    opened = page.locator("#operations-Sending-sendEmail .opblock-body")
    opened.wait_for()
    page.wait_for_url(re.compile(r"#/Sending/sendEmail$"))
    text = opened.inner_text()
    for part in ("Each idempotency key sends at most one message", "Idempotency-Key", "Notes on the engine", "202"):
        assert part in text, text
