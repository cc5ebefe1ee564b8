"""Which part may import which: the protocol knows nobody, endpoints know the domain."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STANDARD = sys.stdlib_module_names
CALLERS = {  # of the domain; whoever starts the relay or answers HTTP
    "app",
    "cli",
    "doctor",
    "server",
}


def imports(path: Path) -> set[str]:
    """The modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            assert node.module is not None
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files(folder: str, pattern: str = "**/*.py") -> list[Path]:
    return [path for path in sorted((ROOT / folder).glob(pattern)) if "page" not in path.parts]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", files("bridge/protocol"), ids=named)
def test_the_protocol_needs_only_msgspec_and_the_standard_library(path):
    tops = {name.split(".")[0] for name in imports(path)}
    ours = {name for name in imports(path) if name.startswith("bridge")}
    assert tops <= STANDARD | {"msgspec", "bridge"} | (
        {"cryptography"} if path.stem == "signing" else set()
    )
    assert all(name.startswith("bridge.protocol") for name in ours)


@pytest.mark.parametrize("path", files("agent_side"), ids=named)
def test_the_connector_needs_of_the_relay_only_the_protocol(path):
    ours = {name for name in imports(path) if name.split(".")[0] == "bridge"}
    assert all(name.startswith("bridge.protocol") or name == "bridge" for name in ours)
    assert ours != {"bridge"}


@pytest.mark.parametrize("path", files("bridge", "*.py"), ids=named)
def test_the_domain_knows_no_endpoint(path):
    if path.stem in CALLERS:
        return
    assert not any(name.startswith("bridge.endpoints") for name in imports(path))


@pytest.mark.parametrize("path", files("bridge/endpoints"), ids=named)
def test_endpoints_leave_redis_and_its_keys_to_the_domain(path):
    found = imports(path)
    assert not found & {"redis", "bridge.keys", "bridge.redis", "redis.asyncio"}


@pytest.mark.parametrize("path", files("bridge"), ids=named)
def test_only_the_store_names_keys_of_redis(path):
    if path.stem in {"keys", "redis", "inbox", "embedded", "cli", "doctor"}:
        return
    texts = {
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert not any(text.startswith("b:{") for text in texts)
