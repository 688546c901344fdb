"""The container files, as far as they can be tested without a container engine."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.packaging.unit_files import ROOT, SYSTEM, read_unit
from tests.servers.running import RunningAppliance

DOCKER = ROOT / "packaging" / "docker"
DOCKERFILE = DOCKER / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions in order, each on one line, without comments."""
    lines = (line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#"))
    joined = re.sub(r" *\\\n *", " ", "\n".join(lines))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in joined.splitlines() if line]


def last(name: str) -> str:
    """Return the arguments of the last instruction with this name."""
    return [value for instruction, value in instructions() if instruction == name][-1]


def in_exec_form(text: str) -> list[str]:
    """Return the words of an instruction in exec form, which runs without a shell."""
    found: list[str] = json.loads(text)
    return found


def test_the_linter_finds_nothing() -> None:
    finished = subprocess.run([Path(sys.executable).with_name("hadolint"), DOCKERFILE], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout + finished.stderr) == (0, "")


def test_it_runs_as_nobody_in_particular_and_ends_when_it_is_told_to() -> None:
    user = last("USER")
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", user)  # a number can be checked to be not root's
    assert f"--uid {user.split(':')[0]} " in last("RUN")
    # As process 1, which gets the signals itself.
    assert in_exec_form(last("ENTRYPOINT")) == ["mailbox-appliance"]
    assert in_exec_form(last("CMD"))[0] == "serve"
    assert f"MAILBOX_APPLIANCE_DATA_DIR={last('VOLUME')}" in last("ENV")


def test_only_what_is_needed_gets_into_it() -> None:
    everything, *but = [
        line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")
    ]
    assert everything == "*"
    copied = {
        source.removeprefix("./")
        for name, value in instructions()
        if name == "COPY" and "--from" not in value
        for source in value.split()[:-1]
    }
    assert {line.removeprefix("!") for line in but if line.startswith("!")} == copied
    assert [source for source in copied if not (ROOT / source).exists()] == []


def test_no_secret_is_in_a_layer() -> None:
    given = " ".join(value for name, value in instructions() if name in ("ARG", "ENV", "LABEL"))
    assert re.search(r"(?i)secret|token|passw|passphrase|_key\b", given) is None
    assert "--mount" not in DOCKERFILE.read_text()


def test_exactly_what_is_locked_is_installed() -> None:
    (fetches, *_) = [value for name, value in instructions() if name == "RUN"]
    assert "--require-hashes --requirement requirements-demo.lock" in fetches
    later = [value for name, value in instructions() if name == "RUN" and "pip" in value][1:]
    assert later != []
    assert [value for value in later if "--no-index" not in value] == []


@pytest.fixture
def compose() -> Any:
    (service,) = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"].values()
    return service


def test_compose_takes_from_it_what_the_system_unit_takes(compose: Any) -> None:
    assert (compose["read_only"], compose["cap_drop"], compose["tmpfs"]) == (True, ["ALL"], ["/tmp"])
    assert compose["security_opt"] == ["no-new-privileges:true"]
    unit = read_unit(SYSTEM.read_text())["Service"]
    assert [compose["stop_grace_period"]] == [f"{seconds}s" for seconds in unit["TimeoutStopSec"]]
    assert [str(compose["ulimits"]["nofile"])] == unit["LimitNOFILE"]
    assert (ROOT / "packaging" / "docker" / compose["build"]["context"]).resolve() == ROOT
    assert (ROOT / compose["build"]["dockerfile"]).resolve() == DOCKERFILE
    (volume,) = compose["volumes"]
    assert volume.partition(":")[2] == last("VOLUME")
    assert [port.partition(":")[2] for port in compose["ports"]] == [last("EXPOSE")]


def test_what_compose_has_as_comments_holds_where_it_is_wanted() -> None:
    text = (DOCKER / "compose.yaml").read_text()
    wanted = re.sub(r"(?m)^( *)# ((CREDENTIALS_DIRECTORY|secrets|  passphrase|    file):)", r"\1\2", text)
    everything = yaml.safe_load(wanted)
    (service,) = everything["services"].values()
    assert set(service["environment"]) == {"MAILBOX_APPLIANCE_SERVER_PUBLIC_URL", "CREDENTIALS_DIRECTORY"}
    assert service["secrets"] == list(everything["secrets"]) == ["passphrase"]
    assert everything["volumes"] == {"data": {}}


def test_its_health_is_told_by_the_program_itself(tmp_path: Path) -> None:
    check = in_exec_form(last("HEALTHCHECK").partition("CMD ")[2])
    assert check[0] == in_exec_form(last("ENTRYPOINT"))[0]
    command = [sys.executable, "-m", "mailbox_appliance", "--data-dir", str(tmp_path), *check[1:]]
    assert subprocess.run(command, capture_output=True).returncode == 5
    appliance = RunningAppliance(tmp_path).start()
    try:
        assert subprocess.run(command, capture_output=True).returncode == 0
    finally:
        appliance.stop()
