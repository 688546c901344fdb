"""The OAuth apps with which members sign in at Google and Microsoft."""

from playwright.sync_api import expect

from tests.console.walker import Walker


def test_an_app_is_set_up_changed_and_removed(own_walker: Walker) -> None:
    own_walker.expects(400)
    house = own_walker.house
    page = own_walker.open("/oauth-apps", house.ada)
    google = page.get_by_role("article", name="Google")
    for kind in ("“Desktop app”", "“Web application”"):  # both, whatever the address of the page is
        expect(google.get_by_text(kind)).to_be_visible()
    expect(page.get_by_text("http://localhost/api/v1/oauth/callback")).to_be_visible()
    expect(google.get_by_label("public client")).to_have_count(0)
    google.get_by_role("button", name="Save app").click()
    expect(google.get_by_label("Client ID")).to_have_attribute("aria-invalid", "true")
    google.get_by_label("Client ID").fill("id-of-google")
    google.get_by_label("Client secret").fill("a secret")
    google.get_by_role("button", name="Save app").click()
    expect(google.get_by_text("with a stored secret")).to_be_visible()
    outlook = page.get_by_role("article", name="Microsoft")
    outlook.get_by_label("Client ID").fill("id-of-outlook")
    outlook.get_by_label("public client").check()
    outlook.get_by_label("Tenant").fill("example.org")
    outlook.get_by_role("button", name="Save app").click()
    expect(outlook.get_by_text("Set up", exact=True)).to_be_visible()
    own_walker.look("oauth-apps")
    known = house.ask(house.ada, "GET", "/admin/oauth-apps").data
    assert (known["google"]["clientId"], known["google"]["clientSecretConfigured"]) == ("id-of-google", True)
    assert (known["outlook"]["tenantId"], known["outlook"]["clientSecretConfigured"]) == ("example.org", False)

    google.get_by_text("Change").click()
    expect(google.get_by_text("Leave empty to keep the stored secret.")).to_be_visible()
    google.get_by_role("button", name="Save app").click()
    expect(page.get_by_text("The Google app was saved.")).to_be_visible()
    assert house.ask(house.ada, "GET", "/admin/oauth-apps").data["google"]["clientSecretConfigured"] is True
    google.get_by_role("button", name="Remove the Google app").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove app").click()
    expect(google.get_by_text("Not set up")).to_be_visible()


def test_an_app_of_the_environment_is_shown_and_not_changed(walker: Walker) -> None:
    given = {"clientId": "given", "clientSecretConfigured": True, "source": "environment", "mutable": False}
    other = {"clientId": None, "tenantId": None, "clientSecretConfigured": False, "source": None, "mutable": True}
    answer = {"data": {"google": given, "outlook": other}}
    walker.context.route("**/api/v1/admin/oauth-apps", lambda route: route.fulfill(json=answer))
    page = walker.open("/oauth-apps", walker.house.ada)
    google = page.get_by_role("article", name="Google")
    expect(google.get_by_text("environment variables")).to_be_visible()
    expect(google.get_by_role("button")).to_have_count(0)
