"""Settings: what is taken, and what is refused with the way out."""

import pytest

from agent_side.settings import ConnectorSettings, RelayTarget, SettingsError


@pytest.mark.parametrize(
    ("given", "uplink"),
    [
        ("wss://relay.test", "wss://relay.test/uplink"),
        ("https://relay.test/", "wss://relay.test/uplink"),
        ("wss://relay.test/behind/proxy", "wss://relay.test/behind/proxy/uplink"),
        ("wss://relay.test/uplink", "wss://relay.test/uplink"),
        ("ws://127.0.0.1:8787", "ws://127.0.0.1:8787/uplink"),
        ("http://localhost:1", "ws://localhost:1/uplink"),
        ("ws://[::1]:8787", "ws://[::1]:8787/uplink"),
    ],
)
def test_addresses_of_a_relay(given, uplink):
    assert RelayTarget(given).uplink_url == uplink


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("relay.test", "wss://host"),
        ("ftp://relay.test", "wss://host"),
        ("wss://", "wss://host"),
        ("wss://user:secret@relay.test", "FERRET_BRIDGE_TOKEN"),
        ("wss://relay.test/?token=x", "--token-file"),
        ("ws://relay.test", "--insecure"),
        ("http://10.0.0.7:8787", "in the clear"),
        ("ws://127.0.0.1:99999", "wss://host"),
        ("ws://127.0.0.1:port", "wss://host"),
        ("wss://[::1", "wss://host"),
    ],
)
def test_addresses_that_are_refused(given, words):
    with pytest.raises(SettingsError, match=words):
        RelayTarget(given)


@pytest.mark.attack("E07", "plain ws:// to another machine")
def test_a_plain_address_elsewhere_needs_a_word_of_its_own():
    target = RelayTarget("ws://10.0.0.7:8787", insecure=True)
    assert not target.loopback
    assert not target.encrypted


def test_the_token_is_read_again_each_time_and_never_shown(tmp_path):
    file = tmp_path / "token"
    file.write_text(" one \n")
    target = RelayTarget("wss://r.test", token="env-secret", token_file=file)
    assert target.read_token() == "one"
    file.write_text("two")
    assert target.read_token() == "two"
    assert "env-secret" not in repr(target)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="not text"):
        target.read_token()


@pytest.mark.parametrize("token", ["two\nlines", "two words", "nul\0", "sécret"])
def test_what_is_no_token_is_refused_and_not_shown(token, tmp_path):
    (tmp_path / "token").write_text(token)
    for target in (
        RelayTarget("wss://r.test", token=token),
        RelayTarget("wss://r.test", token_file=tmp_path / "token"),
    ):
        with pytest.raises(SettingsError, match="is no token") as refused:
            target.read_token()
        assert token not in str(refused.value)


def test_an_authority_that_is_no_file_is_refused(tmp_path):
    with pytest.raises(SettingsError, match="--ca names a PEM file"):
        RelayTarget("wss://r.test", ca=tmp_path / "none")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ä", "x" * 65, "a b"])
def test_names_that_are_no_folder_of_ours_are_refused(name, tmp_path):
    with pytest.raises(SettingsError, match="invalid name"):
        ConnectorSettings(name, tmp_path, tmp_path)


def test_remote_sessions_open_in_the_own_folder_unless_roots_are_given(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    own = ConnectorSettings("a", tmp_path, tmp_path)
    linked = ConnectorSettings("a", tmp_path, tmp_path, roots=(tmp_path / "link",))
    assert own.allowed_roots == (tmp_path.resolve(),)
    assert linked.allowed_roots == ((tmp_path / "real").resolve(),)
