"""The documents name everything that the code offers, and nothing that it does not."""

import argparse
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from bridge.audit import EVENTS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PROGRAMS = {"chimera-bridge": "agent_side.cli", "chimera-relay": "bridge.cli"}


def document(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def rows(name: str) -> list[str]:
    return [line for line in document(name).splitlines() if line.startswith("| ")]


# The page


def test_every_event_of_the_audit_has_its_words_on_the_page() -> None:
    page = (ROOT / "bridge" / "page" / "src" / "words" / "audit.ts").read_text()
    for table in ("events", "chips"):
        said = page.partition(f"  {table}: {{")[2].partition("}")[0]
        assert set(re.findall(r"^    (\w+):", said, re.MULTILINE)) == set(EVENTS)


# Commands


class ParserFound(Exception):
    """Carries out the parser that a program was about to use."""


def parser_of(program: str) -> argparse.ArgumentParser:
    def give(parser: argparse.ArgumentParser, *_: object, **__: object) -> None:
        raise ParserFound(parser)

    main: Callable[[list[str]], int] = import_module(PROGRAMS[program]).main
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", [program])
        patch.setattr(argparse.ArgumentParser, "parse_known_args", give)
        with pytest.raises(ParserFound) as found:
            main([])
    return found.value.args[0]


def commands(program: str) -> dict[str, set[str]]:
    """Every command of a program, by its full name, with its options."""
    return dict(walk(parser_of(program), program))


def walk(parser: argparse.ArgumentParser, name: str) -> Iterator[tuple[str, set[str]]]:
    options = {option for action in parser._actions for option in action.option_strings}
    yield name, options - {"-h", "--help"}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, child in action.choices.items():
                yield from walk(child, f"{name} {word}")


def section(name: str, heading: str) -> str:
    found = re.search(
        rf"^##+ `?{re.escape(heading)}`?$(.*?)(?=^##|\Z)", document(name), re.MULTILINE | re.DOTALL
    )
    assert found, f"docs/{name} has no section {heading!r}"
    return found[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_command_and_option_is_described(program: str) -> None:
    for command, options in commands(program).items():
        text = section("commands.md", command)
        missing = {option for option in options if f"`{option}" not in text}
        assert not missing, f"docs/commands.md says nothing of {command} {missing}"


@pytest.mark.parametrize("program", PROGRAMS)
def test_described_commands_exist(program: str) -> None:
    described = set(
        re.findall(rf"^##+ `?({program}[a-z -]*?)`?$", document("commands.md"), re.MULTILINE)
    )
    assert described == set(commands(program))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_line_in_a_document_can_be_run(path: Path) -> None:
    known = {program: commands(program) for program in PROGRAMS}
    for program, rest in re.findall(r"\b(chimera-(?:bridge|relay)) ([^`\n|]*)", path.read_text()):
        ours = rest.split(" -- ")[0].split("#")[0]
        command = longest_command(program, ours, known[program])
        if command is None:
            continue  # the program's name in a sentence
        options = set(re.findall(r"(?<!\S)--[a-z-]+", ours))
        allowed = known[program][command] | known[program][program] | {"--help"}
        assert options <= allowed, f"{path.name}: {program} {rest}"


def longest_command(program: str, rest: str, known: dict[str, set[str]]) -> str | None:
    words = [program]
    for word in rest.split():
        if " ".join([*words, word]) not in known:
            break
        words.append(word)
    return " ".join(words) if len(words) > 1 else None


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_dev_command_in_a_document_exists(path: Path) -> None:
    known = set(re.findall(r"^\./dev ([a-z]+)", (ROOT / "dev").read_text(), re.MULTILINE))
    assert set(re.findall(r"\./dev ([a-z]+)", path.read_text())) <= known


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


# Settings


def test_every_setting_of_the_relay_is_described_in_its_own_words() -> None:
    from bridge.settings import Settings

    for name, setting in Settings.model_fields.items():
        variable = f"| `BRIDGE_{name.upper()}` |"
        row = next((row for row in rows("settings.md") if row.startswith(variable)), None)
        assert row, f"docs/settings.md has no row {variable}"
        assert (setting.description or "") in row


def test_every_described_setting_of_the_relay_exists() -> None:
    from bridge.settings import Settings

    described = set(re.findall(r"^\| `BRIDGE_([A-Z_]+)`", document("settings.md"), re.MULTILINE))
    assert described == {name.upper() for name in Settings.model_fields}


def test_every_variable_that_the_connector_reads_is_described() -> None:
    texts = [file.read_text() for file in (ROOT / "agent_side").rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"\b[A-Z]+_BRIDGE_[A-Z_]+\b", text)}
    assert read
    assert {name for name in read if f"`{name}`" not in document("settings.md")} == set()


# The wire


def test_every_close_code_is_described_with_whether_to_come_back() -> None:
    from bridge.protocol.close_codes import CloseCode

    for code in CloseCode:
        row = next(
            (row for row in rows("protocol.md") if row.startswith(f"| {code.value} |")), None
        )
        assert row, f"docs/protocol.md has no row for {code.value}"
        if not code.final:
            assert not row.endswith("| no |")


def test_every_error_is_described_with_its_reason_and_status() -> None:
    from bridge.protocol.errors import BridgeError

    load_everything()
    for error in filter(is_ours, subclasses(BridgeError)):
        row = next((row for row in rows("protocol.md") if row.startswith(f"| {error.code} |")), "")
        assert f"`{error.reason}`" in row, f"docs/protocol.md says nothing of {error.reason}"
        assert row.endswith(f"| {error.status} |")


def load_everything() -> None:
    """Import all modules, so that every error is known."""
    for package in (import_module("bridge"), import_module("agent_side")):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                import_module(found.name)


def is_ours(error: type) -> bool:
    return error.__module__.startswith(("bridge.", "agent_side."))


def subclasses(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def test_every_method_of_a_client_is_described_with_the_role_it_needs() -> None:
    from bridge.protocol.acp import NEEDED_ROLE

    for method, role in NEEDED_ROLE.items():
        row = next((row for row in rows("protocol.md") if f"`{method}`" in row), "")
        assert f"| {role} |" in row, f"docs/protocol.md: {method} needs {role}"


def test_every_message_of_the_log_and_the_uplink_is_described() -> None:
    from bridge.protocol import entry, uplink

    ours = {value for value in vars(uplink).values() if str(value).startswith("uplink/")}
    text = document("protocol.md")
    assert {method for method in ours | entry.METHODS if f"`{method}`" not in text} == set()


def test_every_endpoint_is_described(tmp_path: Path) -> None:
    text = re.sub(r"\{[^}]*\}", "{}", document("protocol.md"))
    missing = {line for line in endpoints(tmp_path) if f"`{line}`" not in text}
    assert missing == set()


def test_every_described_endpoint_exists(tmp_path: Path) -> None:
    described = re.findall(
        r"`((?:GET|POST|PUT|DELETE) /(?:api/|[a-z]+z\b|metrics)[^`?]*)`", document("protocol.md")
    )
    assert described
    assert {re.sub(r"\{[^}]*\}", "{}", line) for line in described} <= endpoints(tmp_path)


def endpoints(state_dir: Path) -> set[str]:
    from bridge.app import create_app
    from bridge.settings import Settings

    paths = create_app(Settings(state_dir=state_dir)).openapi()["paths"]
    named = re.compile(r"\{[^}]*\}")
    return {
        f"{method.upper()} {named.sub('{}', path)}"
        for path, item in paths.items()
        for method in item
    }


def test_every_reason_a_question_can_close_with_is_described() -> None:
    from bridge.protocol.round_trip import Outcome, Reason

    text = document("protocol.md")
    assert {str(word) for word in [*Reason, *Outcome] if f"`{word}`" not in text} == set()
