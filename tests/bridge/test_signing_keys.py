"""The signing keys: made once, private, and changed without a restart."""

import base64
import json
import os
import stat

import pytest

from bridge.protocol.acp import Role
from bridge.protocol.errors import InvalidParams, TokenInvalid
from bridge.signing_keys import LOOK_SECONDS, SigningKeys
from bridge.tokens import Tokens


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def kid_of(token):
    return json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))["kid"]


def test_keys_are_made_once_and_nobody_else_may_read_them(tmp_path):
    first = Tokens(tmp_path / "keys")
    token = first.issue("person", "alice", "acme", Role.ADMIN)
    assert Tokens(tmp_path / "keys").verify(token, "person").subject == "alice"
    [path] = (tmp_path / "keys").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_after_a_rotation_the_new_key_signs_and_the_older_one_is_still_taken(tmp_path):
    old = Tokens(tmp_path).issue("person", "alice", "acme", Role.VIEWER)
    assert SigningKeys(tmp_path).rotate() == "2"
    tokens = Tokens(tmp_path)
    new = tokens.issue("person", "bob", "acme", Role.VIEWER)
    assert kid_of(new) == "2"
    assert tokens.verify(old, "person").subject == "alice"


def test_the_tenth_key_is_newer_than_the_ninth(tmp_path):
    keys = SigningKeys(tmp_path)
    for _ in range(9):
        keys.rotate()
    assert keys.newest[0] == "10"


@pytest.mark.attack("E15", "keys are rotated while the relay runs")
def test_a_running_process_takes_a_rotation_in_within_a_second(tmp_path):
    clock = Clock()
    running = SigningKeys(tmp_path, clock=clock)
    SigningKeys(tmp_path).rotate()
    assert running.public("2") is None
    clock.now += LOOK_SECONDS
    assert running.public("2") is not None
    assert running.newest[0] == "2"


def test_what_a_retired_key_signed_is_no_longer_taken(tmp_path):
    tokens = Tokens(tmp_path)
    old = tokens.issue("person", "alice", "acme", Role.VIEWER)
    keys = SigningKeys(tmp_path)
    keys.rotate()
    keys.retire("1")
    assert keys.public("1") is None
    with pytest.raises(TokenInvalid, match="invalid token"):
        Tokens(tmp_path).verify(old, "person")


def test_the_key_that_signs_cannot_be_retired(tmp_path):
    with pytest.raises(InvalidParams, match="key 1 signs now: rotate first"):
        SigningKeys(tmp_path).retire("1")


def test_an_unknown_key_to_retire_is_named(tmp_path):
    with pytest.raises(InvalidParams, match=r"no key '../x'; there are 1"):
        SigningKeys(tmp_path).retire("../x")


def test_a_thousand_unknown_keys_look_into_the_folder_once(tmp_path, monkeypatch):
    clock = Clock()
    keys = SigningKeys(tmp_path, clock=clock)
    looks = []
    monkeypatch.setattr("bridge.signing_keys._files", lambda folder: looks.append(folder) or [])
    clock.now += LOOK_SECONDS
    for number in range(1000):
        assert keys.public(f"k{number}") is None
    assert len(looks) == 1


def test_a_folder_that_cannot_be_read_for_a_while_changes_nothing(tmp_path):
    clock = Clock()
    keys = SigningKeys(tmp_path, clock=clock)
    (tmp_path / "2.pem").write_text("half a file")
    clock.now += LOOK_SECONDS
    assert keys.newest[0] == "1"


def test_a_key_file_that_is_none_is_named(tmp_path):
    (tmp_path / "1.pem").write_text("nothing")
    with pytest.raises(OSError, match=r"1\.pem is no private key"):
        Tokens(tmp_path)


def test_two_processes_that_start_at_once_use_one_key(tmp_path):
    readers = [os.pipe() for _ in range(4)]
    for _, write in readers:
        if os.fork() == 0:
            kept = Tokens(tmp_path).public_keys()["1"].public_bytes_raw()
            os.write(write, kept)
            os._exit(0)
    seen = {os.read(read, 32) for read, _ in readers}
    for read, write in readers:
        os.close(read)
        os.close(write)
        os.wait()
    assert len(seen) == 1
