"""The state folder: one process at a time, an id for ever, an epoch that only rises."""

import json

import pytest

from agent_side.folder import AlreadyRunning, StateFolder


def opened(path):
    folder = StateFolder(path)
    folder.open()
    return folder


def test_the_agent_s_id_stays_and_the_epoch_rises(tmp_path):
    first = opened(tmp_path / "a")
    first.close()
    second = opened(tmp_path / "a")
    second.close()
    assert first.agent_id == second.agent_id
    assert second.epoch > first.epoch


def test_the_epoch_rises_although_the_clock_went_back(tmp_path):
    first = opened(tmp_path / "a")
    first.begin_epoch(9_000_000_000_000)
    first.close()
    second = opened(tmp_path / "a")
    assert second.epoch == 9_000_000_000_001
    kept = json.loads((tmp_path / "a" / "connector.json").read_text())
    assert kept["epoch"] == second.epoch
    second.close()


def test_a_second_process_is_told_to_take_another_name(tmp_path):
    first = opened(tmp_path / "a")
    with pytest.raises(AlreadyRunning, match="--name"):
        opened(tmp_path / "a")
    opened(tmp_path / "b").close()
    first.close()
    opened(tmp_path / "a").close()


def test_nobody_else_can_read_the_folder(tmp_path):
    opened(tmp_path / "a").close()
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0
