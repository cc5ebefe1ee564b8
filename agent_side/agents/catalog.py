"""The agents we know: how each is found, what it may see, and how it is made to ask.

An agent runs with the connector's environment but without its secrets: of the variables whose names
end like a secret's, only those the agent is known to need are passed on, and the bridge's own
tokens never are. The owner may name more in CHIMERA_BRIDGE_PASS_ENV.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_side.agents.process import AgentCommand

SECRET_ENDINGS = ("API_KEY", "TOKEN", "SECRET", "PASSWORD")
NEVER_PASSED = frozenset({"FERRET_BRIDGE_TOKEN", "CHIMERA_BRIDGE_TOKEN"})
FERRET_PYTHON = "CHIMERA_BRIDGE_FERRET_PYTHON"  # a Python that has ferret's engine
PASSED_ON = "CHIMERA_BRIDGE_PASS_ENV"  # secrets that the owner passes on, "NAME,NAME"

_OPENCODE_ASKS = '{"bash":"ask","edit":"ask","webfetch":"ask"}'


class AgentNotInstalled(Exception):
    """The agent's program is not on this machine; the message says how to get it."""

    def __init__(self, name: str, hint: str) -> None:
        """Keep the agent's name and the way out."""
        super().__init__(f"{name} is not installed; {hint}")
        self.name = name
        self.hint = hint


class AgentUnknown(ValueError):
    """No agent has this name; the message lists those there are."""


@dataclass(frozen=True)
class CatalogAgent:
    """One known agent."""

    name: str
    title: str
    commands: tuple[tuple[str, ...], ...]  # command lines; the first whose program is found is run
    install: str  # the line that installs it
    login_hint: str
    ask_mode: str | None = None
    secrets: frozenset[str] = frozenset()  # secret variables it is known to need
    state: tuple[str, ...] = ()  # its own files and folders, written also in a sandbox
    settings: Mapping[str, str] = field(default_factory=dict)  # variables set unless set already

    def locate(self, environ: Mapping[str, str]) -> tuple[str, ...] | None:
        """Give the command line with the program's full path, or None when it is not installed."""
        for program, *arguments in self.commands:
            if found := shutil.which(program, path=environ.get("PATH")):
                return (found, *arguments)
        return None

    def command(
        self,
        cwd: Path,
        environ: Mapping[str, str],
        argv: Sequence[str] | None = None,
    ) -> AgentCommand:
        """Give what to start, by ``argv`` or as found here; raises AgentNotInstalled."""
        argv = argv or self.locate(environ)
        if argv is None:
            raise AgentNotInstalled(self.title, f"install it with: {self.install}")
        return AgentCommand(
            name=self.name,
            title=self.title,
            argv=tuple(argv),
            env={**self.settings, **child_environment(environ, self.secrets)},
            cwd=cwd,
            ask_mode=self.ask_mode,
            login_hint=self.login_hint,
            state=tuple(map(Path, self.state)),
        )


class OwnAgent(CatalogAgent):
    """An agent of this package."""

    def locate(self, environ: Mapping[str, str]) -> tuple[str, ...] | None:
        """Give its command line; ferret needs its engine, here or in another Python."""
        if self.name != "ferret":
            return self.commands[0]
        if other := environ.get(FERRET_PYTHON):
            return (other, "-P", str(Path(__file__).with_name("ferret") / "__main__.py"))
        return self.commands[0] if _has_ferret_engine() else None


# -P: nothing in the folder where an agent works is imported.
_PYTHON = (sys.executable, "-P")
_PROVIDERS = frozenset({"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"})
_GOOGLE = frozenset({"GEMINI_API_KEY", "GOOGLE_API_KEY"})
_BEDROCK = frozenset({"AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"})

AGENTS: dict[str, CatalogAgent] = {
    agent.name: agent
    for agent in (
        CatalogAgent(
            name="claude",
            title="Claude Agent",
            commands=(("claude-agent-acp",), ("claude-code-acp",)),
            install="npm install -g @agentclientprotocol/claude-agent-acp",
            login_hint="claude /login",
            ask_mode="default",  # it starts in "auto", where a model decides
            secrets=frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"})
            | {"CLAUDE_CODE_OAUTH_TOKEN"}
            | _BEDROCK,
            state=("~/.claude", "~/.claude.json"),
        ),
        CatalogAgent(
            name="codex",
            title="Codex",
            commands=(("codex-acp",), ("codex-acp-linux-x64",)),
            install="npm install -g @zed-industries/codex-acp",
            login_hint="codex login",
            ask_mode="read-only",
            secrets=frozenset({"OPENAI_API_KEY", "CODEX_API_KEY"}),
            state=("~/.codex",),
        ),
        CatalogAgent(
            name="gemini",
            title="Gemini CLI",
            commands=(("gemini", "--acp"),),
            install="npm install -g @google/gemini-cli",
            login_hint="gemini",
            ask_mode="default",
            secrets=_GOOGLE,
            state=("~/.gemini",),
        ),
        CatalogAgent(
            name="opencode",
            title="OpenCode",
            commands=(("opencode", "acp"),),
            install="npm install -g opencode-ai",
            login_hint="opencode auth login",
            secrets=_PROVIDERS | _GOOGLE | _BEDROCK | {"OPENCODE_API_KEY"},
            state=("~/.local/share/opencode", "~/.local/state/opencode", "~/.cache/opencode"),
            settings={"OPENCODE_PERMISSION": _OPENCODE_ASKS},  # it has no mode that asks
        ),
        OwnAgent(
            name="ferret",
            title="Ferret",
            commands=((*_PYTHON, "-m", "agent_side.agents.ferret"),),
            install="pip install 'chimera-bridge[ferret]'",
            state=("~/.chimera",),
            login_hint="export OPENAI_API_KEY=…",
            ask_mode="suggest",
            secrets=_PROVIDERS | _GOOGLE | {"XAI_API_KEY"},
        ),
        OwnAgent(
            name="demo",
            title="Demo agent",
            commands=((*_PYTHON, "-m", "agent_side.agents.demo"),),
            install="",
            login_hint="",
            ask_mode="ask",
            state=("~/.local/state/chimera-bridge/demo",),
        ),
    )
}


def find(name: str) -> CatalogAgent:
    """Give the agent of that name; raises AgentUnknown."""
    try:
        return AGENTS[name]
    except KeyError:
        known = ", ".join(AGENTS)
        raise AgentUnknown(
            f"there is no agent {name!r}; known: {known}; or give its command after --"
        ) from None


def custom(argv: Sequence[str]) -> CatalogAgent:
    """Give the agent that a command line starts: a known one when its program is known."""
    program = Path(argv[0]).name
    known = (a for a in AGENTS.values() if any(c[0] == program for c in a.commands))
    return next(known, CatalogAgent(program, program, (), install="", login_hint=""))


def command_for(
    name: str | None, argv: Sequence[str], cwd: Path, environ: Mapping[str, str]
) -> AgentCommand:
    """Give what to start: the command line if there is one, else the named agent, else the default.

    Raises AgentUnknown and AgentNotInstalled.
    """
    if argv:
        agent = find(name) if name else custom(argv)
        return agent.command(cwd, environ, argv=_absolute(argv, environ))
    return find(name or default_agent(environ)).command(cwd, environ)


def available(environ: Mapping[str, str]) -> list[str]:
    """Give the names of the agents that can be started here."""
    return [name for name, agent in AGENTS.items() if agent.locate(environ)]


def default_agent(environ: Mapping[str, str]) -> str:
    """Give the first agent whose program is installed, else the demo."""
    programs = (a for a in AGENTS.values() if not isinstance(a, OwnAgent))
    return next((agent.name for agent in programs if agent.locate(environ)), "demo")


def child_environment(environ: Mapping[str, str], secrets: Collection[str]) -> dict[str, str]:
    """Give the environment without secrets, but for those an agent needs or the owner names."""
    passed = {*secrets, *(name.strip() for name in environ.get(PASSED_ON, "").split(","))}
    return {
        name: value
        for name, value in environ.items()
        if name not in NEVER_PASSED and (name in passed or not looks_secret(name))
    }


def looks_secret(name: str) -> bool:
    """Whether a variable of this name usually holds a secret."""
    return name.upper().endswith(SECRET_ENDINGS)


def _absolute(argv: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    found = shutil.which(argv[0], path=environ.get("PATH"))
    if found is None:
        raise AgentNotInstalled(argv[0], "no program of that name is on PATH")
    return (os.path.abspath(found), *argv[1:])  # noqa: PTH100  symlinks stay: argv[0] may matter


def _has_ferret_engine() -> bool:
    try:
        importlib.metadata.distribution("chimera-run")
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
