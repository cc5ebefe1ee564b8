"""Real agents on this machine, each set up to talk to the scripted LLM only.

``./dev test agents`` installs them into .agents (setup.sh) and runs the real_*.py files here.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_side.agents.catalog import find
from agent_side.agents.process import AgentCommand

TESTS = Path(__file__).resolve().parents[1]
AGENTS_DIR = Path(os.environ.get("RIG_AGENTS", TESTS.parent / ".agents")).resolve()
BIN = AGENTS_DIR / "npm/node_modules/.bin"
KEY = "sk-rig-no-key"
NAMES = ("claude", "gemini", "codex", "opencode", "ferret")
PROGRAMS = {
    "claude": "claude-agent-acp",
    "gemini": "gemini",
    "codex": "codex-acp-linux-x64",
    "opencode": "opencode",
}


@dataclass
class Home:
    """A home folder and a workspace of a test's own."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "Home":
        for name in ("work", "tmp"):
            (folder / name).mkdir(parents=True)
        (folder / "work/README.md").write_text("# rig workspace\n")
        return cls(folder)

    @property
    def work(self) -> Path:
        return self.folder / "work"

    def put(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def environ(self) -> dict[str, str]:
        return {
            "PATH": f"{BIN}:{AGENTS_DIR / 'node-bin'}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / ".config"),
            "XDG_DATA_HOME": str(self.folder / ".local/share"),
            "XDG_CACHE_HOME": str(self.folder / ".cache"),
            "XDG_STATE_HOME": str(self.folder / ".local/state"),
            "TMPDIR": str(self.folder / "tmp"),
            "NO_PROXY": "127.0.0.1,localhost",
            "no_proxy": "127.0.0.1,localhost",
        }


class FakeLLM:
    """The scripted LLM as a process of its own; ``async with`` gives its address."""

    def __init__(self, **script):
        self._script = json.dumps(script)

    async def __aenter__(self) -> str:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agents.fakellm", "--script", self._script),
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=asyncio.subprocess.PIPE,
        )
        return (await self._process.stdout.readline()).decode().strip()

    async def __aexit__(self, *_):
        self._process.kill()  # it may be in the middle of a slow answer
        await self._process.communicate()


def installed() -> list[str]:
    """Give the agents that are there: ferret's engine is a package of this environment."""
    return [name for name in NAMES if name == "ferret" or (BIN / PROGRAMS[name]).exists()]


def command(name: str, url: str, home: Home) -> AgentCommand:
    """Give a real agent's command as the catalogue makes it, with the LLM's address set."""
    settings = {
        "claude": claude,
        "gemini": gemini,
        "codex": codex,
        "opencode": opencode,
        "ferret": ferret,
    }[name](url, home)
    return find(name).command(home.work, {**home.environ(), **settings})


def script_for(name: str, home: Home) -> dict[str, str]:
    """Give what the LLM's script must say for this agent: Codex patches want relative paths."""
    return {} if name in ("codex", "ferret") else {"path": str(home.work / "rig.txt")}


def claude(url: str, _home: Home) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def gemini(url: str, home: Home) -> Mapping[str, str]:
    auth = {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}
    settings = {
        "security": auth,
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"disableAutoUpdate": True},
        "telemetry": {"enabled": False},
    }
    home.put(".gemini/settings.json", json.dumps(settings))
    return {
        "GEMINI_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
    }


CODEX = """\
model = "gpt-5.4"
model_provider = "rig"
approval_policy = "on-request"
sandbox_mode = "read-only"
check_for_update_on_startup = false
[model_providers.rig]
name = "rig"
base_url = "{url}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[analytics]
enabled = false
[projects."{work}"]
trust_level = "untrusted"
"""


def codex(url: str, home: Home) -> Mapping[str, str]:
    home.put(".codex/config.toml", CODEX.format(url=url, work=home.work))
    return {"OPENAI_API_KEY": KEY, "CODEX_HOME": str(home.folder / ".codex")}


def opencode(url: str, home: Home) -> Mapping[str, str]:
    model = {
        "name": "Rig",
        "limit": {"context": 100000, "output": 8000},
        "tool_call": True,
        "reasoning": True,
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "rig",
        "options": {"baseURL": url + "/v1", "apiKey": KEY},
        "models": {"rig-model": model},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "snapshot": False,
        "model": "rig/rig-model",
        "small_model": "rig/rig-model",
        "provider": {"rig": provider},
    }  # that it asks is the catalogue's doing
    home.put(".config/opencode/opencode.json", json.dumps(config))
    return {
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def ferret(url: str, _home: Home) -> Mapping[str, str]:
    return {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": url + "/v1", "FERRET_MODEL": "gpt-5"}
