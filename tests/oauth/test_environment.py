"""OAuth applications from the environment: which variables apply, which win, and which are rejected without quoting a
secret.
"""

from pathlib import Path

import pytest

from mailbox_appliance.model.accounts import OAuthApp
from mailbox_appliance.oauth.environment import EnvironmentApp, read_apps
from mailbox_appliance.service import main
from mailbox_appliance.settings import BadSetting

PREFIX = "MAILBOX_APPLIANCE_"
APP = OAuthApp("google", "from-environment", "hush")


def environment(folder: Path | None = None, **values: str) -> dict[str, str]:
    """Return variables by their names without the prefix; a name that ends in `_FILE` gets a file with this content."""
    found = {}
    for name, value in values.items():
        found[PREFIX + name] = value
        if name.endswith("_FILE"):
            assert folder is not None
            (folder / name).write_text(value)
            found[PREFIX + name] = str(folder / name)
    return found


def test_nothing_given() -> None:
    assert (
        read_apps({"GOOGLE_CLIENT_ID": "not ours", PREFIX + "GOOGLE_CLIENT_ID": "", PREFIX + "OUTLOOK_TENANT_ID": " "})
        == {}
    )


def test_values(tmp_path: Path) -> None:
    given = environment(GOOGLE_CLIENT_ID=" from-environment ", GOOGLE_CLIENT_SECRET="hush")
    assert read_apps(given) == {"google": EnvironmentApp(APP, "environment")}
    given = environment(OUTLOOK_CLIENT_ID="o", OUTLOOK_TENANT_ID="t", OUTLOOK_PUBLIC_CLIENT="yes")
    assert read_apps(given) == {"outlook": EnvironmentApp(OAuthApp("outlook", "o", None, "t", True), "environment")}


def test_a_public_application_of_google_may_have_a_secret() -> None:
    given = environment(GOOGLE_CLIENT_ID="g", GOOGLE_CLIENT_SECRET="hush", GOOGLE_PUBLIC_CLIENT="true")
    assert read_apps(given) == {
        "google": EnvironmentApp(OAuthApp("google", "g", "hush", public_client=True), "environment")
    }


def test_a_file_wins_and_gives_its_first_line(tmp_path: Path) -> None:
    given = environment(
        tmp_path,
        GOOGLE_CLIENT_ID="from-environment",
        GOOGLE_CLIENT_SECRET="no",
        GOOGLE_CLIENT_SECRET_FILE=" hush \nx\n",
    )
    assert read_apps(given) == {"google": EnvironmentApp(APP, "environment-file")}


@pytest.mark.parametrize(
    ("values", "app"),
    [
        # The plain variables belong to another application.
        ({"GOOGLE_CLIENT_SECRET": "theirs"}, OAuthApp("google", "f")),
        ({"GOOGLE_CLIENT_ID": "p", "GOOGLE_CLIENT_SECRET": "theirs"}, OAuthApp("google", "f")),
        ({"GOOGLE_CLIENT_SECRET": "theirs", "GOOGLE_CLIENT_SECRET_FILE": "s"}, OAuthApp("google", "f", "s")),
        ({"GOOGLE_CLIENT_SECRET": "theirs", "GOOGLE_PUBLIC_CLIENT": "1"}, OAuthApp("google", "f", public_client=True)),
        ({"GOOGLE_CLIENT_SECRET": "theirs", "GOOGLE_CLIENT_SECRET_FILE": ""}, OAuthApp("google", "f")),
        ({"OUTLOOK_TENANT_ID": "theirs"}, OAuthApp("outlook", "f")),
        ({"OUTLOOK_TENANT_ID_FILE": "t", "OUTLOOK_CLIENT_SECRET_FILE": "s"}, OAuthApp("outlook", "f", "s", "t")),
    ],
)
def test_what_goes_with_an_id_from_a_file(values: dict[str, str], app: OAuthApp, tmp_path: Path) -> None:
    name = f"{app.provider.upper()}_CLIENT_ID_FILE"
    given = environment(tmp_path, **{name: "f"}, **{name: value for name, value in values.items() if value})
    given |= {PREFIX + name: "" for name, value in values.items() if not value}
    assert read_apps(given) == {app.provider: EnvironmentApp(app, "environment-file")}


def test_what_goes_with_a_plain_id(tmp_path: Path) -> None:
    given = environment(tmp_path, OUTLOOK_CLIENT_ID="p", OUTLOOK_TENANT_ID="t", OUTLOOK_CLIENT_SECRET_FILE="s")
    assert read_apps(given) == {"outlook": EnvironmentApp(OAuthApp("outlook", "p", "s", "t"), "environment-file")}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"GOOGLE_CLIENT_SECRET": "hush"}, "GOOGLE_CLIENT_ID must be set"),
        ({"OUTLOOK_TENANT_ID": "hush"}, "OUTLOOK_CLIENT_ID must be set"),
        (
            {"OUTLOOK_CLIENT_ID": "a", "OUTLOOK_CLIENT_SECRET": "hush", "OUTLOOK_PUBLIC_CLIENT": "1"},
            "must not be set for a public client",
        ),
        ({"GOOGLE_CLIENT_ID": "a", "GOOGLE_PUBLIC_CLIENT": "hush"}, "must be true or false"),
        ({"GOOGLE_CLIENT_ID": "a", "GOOGLE_CLIENT_SECRET": "hush" * 5000}, "must have at most 16384"),
        ({"GOOGLE_CLIENT_ID": "hush\nhush"}, "control characters"),
        (
            {"OUTLOOK_CLIENT_ID": "a", "OUTLOOK_TENANT_ID": "hush/../hush"},
            "OUTLOOK_TENANT_ID must be a tenant ID of letters",
        ),
        (
            {"OUTLOOK_CLIENT_ID": "a", "OUTLOOK_TENANT_ID_FILE": ".."},
            "OUTLOOK_TENANT_ID_FILE must be a tenant ID of letters",
        ),
        ({"GOOGLE_CLIENT_ID_FILE": " \n"}, "GOOGLE_CLIENT_ID_FILE: the file is empty"),
        ({"GOOGLE_CLIENT_ID": "a", "GOOGLE_CLIENT_SECRET_FILE": "hush" * 50000}, "must have at most 16384"),
    ],
)
def test_what_does_not_fit(values: dict[str, str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=complaint) as refused:
        read_apps(environment(tmp_path, **values))
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("name", ["/no/such/file", "/", "\0"])
def test_a_file_that_cannot_be_read(name: str) -> None:
    with pytest.raises(BadSetting, match="GOOGLE_CLIENT_ID_FILE: the file cannot be read: "):
        read_apps({PREFIX + "GOOGLE_CLIENT_ID_FILE": name})


def test_serve_does_not_start_with_a_file_that_it_cannot_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PREFIX + "OUTLOOK_CLIENT_SECRET_FILE", str(tmp_path / "missing"))
    with pytest.raises(BadSetting, match="OUTLOOK_CLIENT_SECRET_FILE: the file cannot be read"):
        main.serve(tmp_path / "data", flags={}, ready_json=True)
    assert not (tmp_path / "data").exists()
