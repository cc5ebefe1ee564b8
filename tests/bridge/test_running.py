"""The note of a relay that runs: read while it does, and no longer."""

import json
import subprocess
import sys

import pytest

from bridge.protocol.errors import StoreUnavailable
from bridge.running import Running, running_store_url
from bridge.settings import Settings


def test_a_note_is_read_while_its_process_lives(tmp_path):
    running = Running(tmp_path / "state")
    assert running.read() is None
    running.write("http://127.0.0.1:1", "unix:///run/store.sock")
    note = running.read()
    assert (note.url, note.store) == ("http://127.0.0.1:1", "unix:///run/store.sock")
    running.clear()
    assert running.read() is None


def test_a_note_of_a_process_that_is_gone_is_none(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    note = {"pid": gone.pid, "url": "http://x", "store": "unix:///x"}
    (tmp_path / "running.json").write_text(json.dumps(note))
    assert Running(tmp_path).read() is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"pid": "x"}', "\x00"])
def test_a_note_that_is_none_is_none(tmp_path, text):
    (tmp_path / "running.json").write_text(text)
    assert Running(tmp_path).read() is None
    Running(tmp_path).clear()


def test_the_store_is_the_one_that_is_set_or_the_running_relays(tmp_path):
    elsewhere = Settings(redis_url="redis://u:p@redis:6379/0", state_dir=tmp_path)
    assert running_store_url(elsewhere) == "redis://u:p@redis:6379/0"
    own = Settings(state_dir=tmp_path)
    with pytest.raises(StoreUnavailable, match="start it with chimera-relay serve"):
        running_store_url(own)
    Running(tmp_path).write("http://x", "unix:///run/store.sock")
    assert running_store_url(own) == "unix:///run/store.sock"
