"""The container files: valid by their own tools, and in agreement with each other."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import check_jsonschema
import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
DOCKERFILE = (ROOT / "infra/Dockerfile").read_text()
CADDYFILE = (ROOT / "infra/Caddyfile").read_text()


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def test_the_compose_file_is_valid_by_the_compose_specification(compose: Any) -> None:
    vendored = Path(check_jsonschema.__file__).parent / "builtin_schemas/vendor/compose-spec.json"
    jsonschema.validate(compose, json.loads(vendored.read_text()))


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    said = subprocess.run(
        [hadolint, ROOT / "infra/Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (said.returncode, said.stdout) == (0, "")


def test_the_compose_file_needs_no_edit(compose: Any) -> None:
    wanted = re.findall(r"\$\{([^}]*)\}", (ROOT / "docker-compose.yml").read_text())
    assert wanted
    assert all(":-" in variable for variable in wanted)


def test_every_file_that_compose_names_is_there(compose: Any) -> None:
    services = compose["services"].values()
    builds = [service["build"] for service in services if "build" in service]
    mounts = [volume.split(":") for service in services for volume in service.get("volumes", [])]
    assert all((ROOT / build["context"] / build["dockerfile"]).is_file() for build in builds)
    for place, *_ in mounts:
        assert (ROOT / place).exists() if place.startswith(".") else place in compose["volumes"]


def test_the_proxy_speaks_to_the_port_that_the_relay_listens_on(compose: Any) -> None:
    port = re.search(r"BRIDGE_PORT=(\d+)", DOCKERFILE)
    assert port
    assert f"EXPOSE {port[1]}" in DOCKERFILE
    assert f"reverse_proxy relay:{port[1]}" in CADDYFILE
    assert "relay" in compose["services"]


def test_the_relay_does_not_run_as_root() -> None:
    last_stage = DOCKERFILE.rsplit("FROM ", 1)[1]
    user = re.search(r"^USER (\d+)$", last_stage, re.MULTILINE)
    assert user
    assert int(user[1]) > 0


def test_every_setting_of_the_relay_in_the_container_files_exists(compose: Any) -> None:
    from bridge.settings import Settings

    known = {f"BRIDGE_{name}".upper() for name in Settings.model_fields}
    named = set(compose["services"]["relay"]["environment"])
    named |= set(re.findall(r"BRIDGE_[A-Z_]+(?==)", DOCKERFILE))
    assert named <= known


def test_the_store_never_forgets_by_itself(compose: Any) -> None:
    command = compose["services"]["valkey"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert command[command.index("--appendonly") + 1] == "yes"
