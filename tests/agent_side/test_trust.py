import pytest
from fakes.running import Running
from fakes.visitor import Visitor

from agent_side import cli
from agent_side.settings import ConnectorSettings, SettingsError
from agent_side.trust import Trust
from bridge.protocol.errors import UntrustedWorkspace


def test_a_folder_is_trusted_with_what_lies_in_it_and_nothing_beside(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    trust = Trust(tmp_path / "state")
    trust.add(tmp_path / "a")
    assert trust.trusts(tmp_path / "a" / "b")
    assert not trust.trusts(tmp_path / "ab")
    assert not trust.trusts(tmp_path / "a" / ".." / "ab")


def test_a_link_out_of_a_trusted_folder_leads_nowhere(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "a" / "way").symlink_to(tmp_path / "secret")
    trust = Trust(tmp_path / "state", [tmp_path / "a"])
    with pytest.raises(UntrustedWorkspace):
        trust.check(tmp_path / "a" / "way")


def test_a_file_that_cannot_be_read_trusts_nothing(tmp_path):
    (tmp_path / "trusted.json").write_text("{")
    assert not Trust(tmp_path).trusts(tmp_path)


def test_no_connector_may_have_the_name_of_the_file(tmp_path):
    with pytest.raises(SettingsError):
        ConnectorSettings("trusted.json", tmp_path, tmp_path)


async def test_an_editor_is_told_how_to_trust_the_folder(tmp_path):
    async with Running(tmp_path, settings={"trusted": ()}) as running:
        visitor = Visitor(running.connector)
        await visitor.call("initialize", protocolVersion=1, clientCapabilities={})
        asked = {"cwd": str(running.work), "mcpServers": []}
        refused = await visitor.refusal("session/new", **asked)
        assert (refused["code"], refused["data"]["reason"]) == (-32602, "untrusted_workspace")
        assert "chimera-bridge trust" in refused["message"]
        Trust(running.state).add(running.work)
        assert (await visitor.call("session/new", **asked))["sessionId"]


async def test_with_trust_a_folder_is_trusted_when_it_is_opened(tmp_path):
    settings = {"trusted": (), "trust_opened": True}
    async with Running(tmp_path, settings=settings) as running:
        await running.session()
        assert Trust(running.state).folders == [running.work]


def test_the_command_trusts_lists_and_forgets(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CHIMERA_BRIDGE_STATE_DIR", str(tmp_path / "state"))
    assert cli.main(["trust", str(tmp_path)]) == 0
    assert cli.main(["trust"]) == 0
    assert capsys.readouterr().out == f"{tmp_path}\n"
    assert cli.main(["trust", str(tmp_path), "--remove"]) == 0
    assert cli.main(["trust", str(tmp_path), "--remove"]) == 1
    assert cli.main(["trust", str(tmp_path / "none")]) == 1
