"""The agents we know: how each is found, what it may see, and how it is made to ask.

An agent runs with the connector's environment but without its secrets: of the variables whose names
are like a secret's, only those the agent is known to need are passed on, and the bridge's own
tokens never are. The owner may name more (``--pass-env``, CHIMERA_BRIDGE_PASS_ENV).
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_side.agents.environment import child_environment
from agent_side.agents.launcher import refuse_cmd_syntax
from agent_side.agents.process import AgentCommand

FERRET_PYTHON = "CHIMERA_BRIDGE_FERRET_PYTHON"  # a Python that has ferret's engine

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
    needs: str = ""  # besides its program, in words
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
        passed: Collection[str] = (),
    ) -> AgentCommand:
        """Give what to start, by ``argv`` or as found here.

        ``passed``: secrets that its owner lets it see. Raises AgentNotInstalled, CommandRefused.
        """
        argv = argv or self.locate(environ)
        if argv is None:
            raise AgentNotInstalled(self.title, f"install it: {self.install}")
        refuse_cmd_syntax(argv)
        return AgentCommand(
            name=self.name,
            title=self.title,
            argv=tuple(argv),
            env={**self.settings, **child_environment(environ, self.secrets, passed)},
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
_ANTHROPIC = frozenset({"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"})
_PROVIDERS = frozenset({"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"})
_GOOGLE = frozenset({"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"})
_GITHUB = frozenset({"COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"})
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
            needs="Node.js 22 or later",
            ask_mode="default",  # it starts in "auto", where a model decides
            secrets=_ANTHROPIC | {"CLAUDE_CODE_OAUTH_TOKEN"} | _BEDROCK,
            state=("~/.claude", "~/.claude.json"),
        ),
        CatalogAgent(
            name="codex",
            title="Codex",
            # Both adapters have the first name; the older one's package has the second as well.
            commands=(("codex-acp",), ("codex-acp-linux-x64",)),
            install="npm install -g @agentclientprotocol/codex-acp",
            login_hint="codex login",
            needs="an account, or OPENAI_API_KEY",
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
            needs="Node.js 20 or later",
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
        CatalogAgent(
            name="qwen",
            title="Qwen Code",
            commands=(("qwen", "--acp"),),
            install="npm install -g @qwen-code/qwen-code",
            login_hint="qwen auth",
            needs="Node.js 22 or later, and OPENAI_API_KEY or a login",
            ask_mode="default",  # it starts in "auto", where a model decides
            secrets=_PROVIDERS | _GOOGLE | {"DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"},
            state=("~/.qwen",),
        ),
        CatalogAgent(
            name="copilot",
            title="GitHub Copilot",
            commands=(("copilot", "--acp", "--stdio"),),
            install="npm install -g @github/copilot",
            login_hint="copilot login",
            needs="Node.js 22 or later, and a GitHub account with Copilot",
            secrets=_GITHUB,
            state=("~/.copilot",),
        ),
        CatalogAgent(
            name="hermes",
            title="Hermes",
            commands=(("hermes-acp",), ("hermes", "acp")),
            install="pip install 'hermes-agent[acp]'",
            login_hint="hermes acp --setup",
            needs="Python 3.11 or later, and a provider's key",
            ask_mode="default",
            secrets=_PROVIDERS | _GOOGLE | {"NOUS_API_KEY"},
            state=("~/.hermes",),
        ),
        CatalogAgent(
            name="goose",
            title="goose",
            commands=(("goose", "acp"),),
            install="see https://block.github.io/goose (it is no package of npm or PyPI)",
            login_hint="goose configure",
            needs="a provider, by `goose configure`",
            secrets=_PROVIDERS | _GOOGLE | {"DATABRICKS_TOKEN"},
            state=("~/.config/goose", "~/.local/share/goose", "~/.local/state/goose"),
            settings={"GOOSE_MODE": "approve"},  # it starts in "auto", which asks nothing
        ),
        OwnAgent(
            name="ferret",
            title="Ferret",
            commands=((*_PYTHON, "-m", "agent_side.agents.ferret"),),
            install="pip install 'chimera-bridge[ferret]'",
            needs="ferret's engine, and a provider's key",
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
    name: str | None,
    argv: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    passed: Collection[str] = (),
) -> AgentCommand:
    """Give what to start: the command line if there is one, else the named agent, else the default.

    Raises AgentUnknown, AgentNotInstalled and CommandRefused.
    """
    if argv:
        agent = find(name) if name else custom(argv)
        return agent.command(cwd, environ, argv=_absolute(argv, environ), passed=passed)
    return find(name or default_agent(environ)).command(cwd, environ, passed=passed)


def available(environ: Mapping[str, str]) -> list[str]:
    """Give the names of the agents that can be started here."""
    return [name for name, agent in AGENTS.items() if agent.locate(environ)]


def default_agent(environ: Mapping[str, str]) -> str:
    """Give the first agent whose program is installed, else the demo."""
    programs = (a for a in AGENTS.values() if not isinstance(a, OwnAgent))
    return next((agent.name for agent in programs if agent.locate(environ)), "demo")


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
