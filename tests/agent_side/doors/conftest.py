import sys

import pytest
from fakes.agent import FakeAgent
from fakes.editor import FakeEditor

BRIDGE = (sys.executable, "-m", "agent_side.cli")


def starter(tmp_path):
    agents = []

    def make(*flags, argv=None, name="t", **script):
        agents.append(FakeAgent(tmp_path / f"agent-{len(agents)}", **script))
        command = [*BRIDGE, "connect", "--stdio", "--name", name, "--cwd", str(tmp_path), *flags]
        editor = FakeEditor(
            [*command, "--", *(argv or agents[-1].argv)],
            env={"CHIMERA_BRIDGE_STATE_DIR": str(tmp_path / "state")},
        )
        editor.agent = agents[-1]
        return editor

    return make


@pytest.fixture
def start(tmp_path):
    """Start a connector with a scripted agent and an editor at its standard input and output."""
    return starter(tmp_path)


@pytest.fixture(scope="module")
async def greeted(tmp_path_factory):
    """An editor that has initialized and opened nothing, for questions of form."""
    async with starter(tmp_path_factory.mktemp("greeted"))() as editor:
        await editor.hello()
        yield editor
