"""The owner's rules: kept, listed, taken out, ended."""

import json
import time

import pytest
from fakes.running import ANNA

from agent_side import scope
from agent_side.cli import main
from agent_side.rules import DAY_MS, Rules, RulesUnreadable

PUSH = scope.of_facts({"kind": "execute", "command": "git push", "cwd": "/w"})


def test_a_rule_is_on_disk_when_it_is_made_and_found_by_another_process(tmp_path):
    made = Rules(tmp_path).add(PUSH, "allow", ANNA)
    found = Rules(tmp_path).find(PUSH.key)
    assert found == made
    assert found.sentence.startswith("always run exactly “git push” in /w, until ")
    assert (tmp_path / "rules.json").stat().st_mode & 0o777 == 0o600


def test_a_newer_rule_takes_the_place_of_one_for_the_same_scope(tmp_path):
    rules = Rules(tmp_path)
    rules.add(PUSH, "allow", ANNA)
    rules.add(PUSH, "deny", ANNA, days=0)
    [only] = rules.all()
    assert (only.verb, only.ends_at) == ("deny", None)
    assert only.sentence == "never run exactly “git push” in /w"


def test_a_rule_that_was_taken_out_beside_it_decides_nothing_more(tmp_path):
    rules = Rules(tmp_path)
    made = rules.add(PUSH, "allow", ANNA)
    assert Rules(tmp_path).remove(made.id) == made
    assert rules.find(PUSH.key) is None
    assert rules.remove(made.id) is None


def test_a_rule_ends(tmp_path, monkeypatch):
    rules = Rules(tmp_path)
    rules.add(PUSH, "allow", ANNA, days=1)
    later = time.time_ns() + (DAY_MS + 1000) * 1_000_000
    monkeypatch.setattr("agent_side.rules.time.time_ns", lambda: later)
    assert rules.find(PUSH.key) is None
    assert rules.all() == ()


def test_a_file_that_is_no_list_of_rules_allows_nothing_and_is_not_overwritten(tmp_path):
    (tmp_path / "rules.json").write_text("{}")
    assert Rules(tmp_path).find(PUSH.key) is None
    with pytest.raises(RulesUnreadable):
        Rules(tmp_path).add(PUSH, "allow", ANNA)
    assert (tmp_path / "rules.json").read_text() == "{}"


def test_the_command_lists_makes_and_takes_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CHIMERA_BRIDGE_STATE_DIR", str(tmp_path))
    (tmp_path / "claude").mkdir()
    (tmp_path / "claude" / "connector.json").write_text("{}")
    assert main(["rules", "list"]) == 0
    assert main(["rules", "add", "never", "git push", "--cwd", str(tmp_path), "--days", "0"]) == 0
    id_ = json.loads((tmp_path / "claude" / "rules.json").read_text())[0]["id"]
    assert main(["rules", "list"]) == 0
    assert main(["rules", "remove", id_]) == 0
    assert main(["rules", "remove", id_]) == 1
    said = capsys.readouterr()
    assert f"never run exactly “git push” in {tmp_path}" in said.out
    assert "rules list` shows them" in said.err


def test_the_command_wants_a_name_where_several_connectors_have_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CHIMERA_BRIDGE_STATE_DIR", str(tmp_path))
    for name in ("claude", "codex"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "connector.json").write_text("{}")
    assert main(["rules", "list"]) == 2
    assert "claude, codex" in capsys.readouterr().err
    assert main(["rules", "list", "--name", "codex"]) == 0
    assert main(["rules", "list", "--name", "other"]) == 2
