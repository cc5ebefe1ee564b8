"""What of the environment reaches an agent, a real child process, and what leaves the machine."""

import asyncio
import json
import os
import sys

import pytest
from fakes.agent import FakeAgent
from fakes.relay import FakeRelay

from agent_side.agents.environment import looks_secret, secret_values

DECLARED = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
OTHERS = (
    *("OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY", "XAI_API_KEY"),
    *("GITHUB_TOKEN", "GH_TOKEN", "GITLAB_TOKEN", "NPM_TOKEN", "HF_TOKEN", "SLACK_BOT_TOKEN"),
    *("AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "STRIPE_SECRET_KEY", "SECRET_KEY_BASE"),
    *("DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "REDIS_PASSWD", "GPG_PASSPHRASE", "SENTRY_DSN"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "SSH_PRIVATE_KEY", "CIRCLE_PAT", "NPM_CONFIG__AUTH"),
    "client_secret",
)
PASSED = "ACME_TOKEN"
PLANTED = {
    name: f"planted-{name.lower()}-{i:02}" for i, name in enumerate((*DECLARED, *OTHERS, PASSED))
}
TELLS = """
import json, os, sys
with open(sys.argv[1], "w") as told:
    json.dump(dict(os.environ), told)
os.execv(sys.argv[2], sys.argv[2:])
"""


def said():
    """Everything an agent can say, with every planted value in it, whole and in pieces."""
    steps = []
    for name, value in PLANTED.items():
        text = f"{name} is {value}; "
        for piece in (text, text[:-8], text[-8:]):
            content = {"type": "text", "text": piece}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            steps.append({"update": update})
    call = {"sessionUpdate": "tool_call", "toolCallId": "c-1", "title": "env"}
    raw = {"rawOutput": PLANTED, "_meta": {"terminal_output": json.dumps(PLANTED)}}
    steps.append({"update": {**call, "status": "completed", **raw}})
    return steps


async def test_of_thirty_planted_secrets_none_reaches_a_child_undeclared_or_leaves(
    tmp_path, start_connect, figure
):
    assert len(PLANTED) == 30
    agent = FakeAgent(tmp_path / "agent", turns=[said()])
    told = tmp_path / "told.json"
    async with FakeRelay() as relay:
        process = await start_connect(
            *("--relay", relay.url, "--agent", "claude", "--pass-env", PASSED),
            *("--", sys.executable, "-c", TELLS, str(told), *agent.argv),
            **PLANTED,
        )
        session = await relay.new_session(tmp_path)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        relay.send_mail("session/prompt", prompt, "m-1")
        await relay.outcome("m-1")
        await relay.until(lambda: relay.turns(session)[-1:] == ["ended"])
        left = json.dumps([relay.messages(session), [str(one) for one in relay.told]])
        process.terminate()
        await process.communicate()
    reached = {name for name in PLANTED if name in json.loads(told.read_text())}
    assert reached == {*DECLARED, PASSED}
    leaked = [name for name, value in PLANTED.items() if value in left or value[-12:] in left]
    assert leaked == []
    figure(
        f"secrets: planted {len(PLANTED)}, reached undeclared 0, left by the uplink {len(leaked)}"
    )


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "LANG", "SSH_AUTH_SOCK", "TERM", "KEYBOARD", "PWD"]
)
def test_what_is_no_secret_is_passed(name):
    assert not looks_secret(name)


def test_paths_and_short_values_are_not_looked_for_in_what_leaves():
    environ = {"A_TOKEN": "short", "GOOGLE_APPLICATION_CREDENTIALS": "/home/me/key.json"}
    assert list(secret_values({**environ, "B_TOKEN": "long enough"})) == ["long enough"]


@pytest.fixture
def start_connect(tmp_path):
    """Start the connector's command line with further variables."""

    async def start(*arguments, **env):
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "agent_side.cli", "connect", "--name", "planted"),
            *("--cwd", str(tmp_path), "--snapshot-mb", "0", *arguments),
            env={
                **os.environ,
                **env,
                "CHIMERA_BRIDGE_STATE_DIR": str(tmp_path / "state"),
                "FERRET_BRIDGE_TOKEN": "good",
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )

    return start
