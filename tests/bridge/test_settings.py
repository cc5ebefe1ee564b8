"""The relay's settings: read once, checked at start, a bad one named."""

from pathlib import Path

import pytest

from bridge.settings import Settings, SettingsInvalid, load, origin_of, unknown_settings


def test_without_any_variable_the_relay_is_local_and_keeps_its_state_at_home(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    settings = load({})
    assert (settings.host, settings.port) == ("127.0.0.1", 8787)
    assert settings.state_dir == Path("/somewhere/chimera-bridge/relay")
    assert settings.keys_folder == settings.state_dir / "keys"


def test_a_variable_is_read_and_what_is_given_goes_before_it(monkeypatch):
    monkeypatch.setenv("BRIDGE_PORT", "9000")
    monkeypatch.setenv("BRIDGE_HOST", "0.0.0.0")
    settings = load({}, port=9001)
    assert (settings.host, settings.port) == ("0.0.0.0", 9001)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("BRIDGE_PORT", "abc", "BRIDGE_PORT is 'abc'"),
        ("BRIDGE_PORT", "70000", "BRIDGE_PORT is '70000'"),
        ("BRIDGE_LOG_FORMAT", "xml", "BRIDGE_LOG_FORMAT is 'xml'"),
        ("BRIDGE_LOG_ENTRIES", "1", "BRIDGE_LOG_ENTRIES is '1'"),
        ("BRIDGE_PUBLIC_URL", "bridge.example", "BRIDGE_PUBLIC_URL is 'bridge.example'"),
        ("BRIDGE_PUBLIC_URL", "https://e.org/below", "without a path"),
        ("BRIDGE_PUBLIC_URL", "https://e.org:port", "BRIDGE_PUBLIC_URL is"),
        ("BRIDGE_ALLOWED_ORIGINS", "https://a.example/x", "each must be an origin"),
        ("BRIDGE_ALLOWED_ORIGINS", "https://a.example, *", "each must be an origin"),
        ("BRIDGE_TLS_CERT", "/no/such/file", "BRIDGE_TLS_CERT is '/no/such/file'"),
    ],
)
def test_a_bad_value_is_named_with_its_setting(monkeypatch, name, value, says):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsInvalid) as caught:
        load({})
    assert says in str(caught.value)


def test_a_bad_redis_url_is_named_without_its_password(monkeypatch):
    monkeypatch.setenv("BRIDGE_REDIS_URL", "http://user:hunter2@redis:6379")
    with pytest.raises(SettingsInvalid) as caught:
        load({})
    assert "BRIDGE_REDIS_URL" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(Settings(redis_url="redis://user:hunter2@redis:6379"))


def test_a_certificate_without_its_key_is_refused(monkeypatch, tmp_path):
    certificate = tmp_path / "cert.pem"
    certificate.write_text("")
    monkeypatch.setenv("BRIDGE_TLS_CERT", str(certificate))
    with pytest.raises(SettingsInvalid, match="BRIDGE_TLS_KEY are needed together"):
        load({})


def test_files_that_are_no_certificate_and_key_are_refused(monkeypatch, tmp_path):
    for name in ("CERT", "KEY"):
        (tmp_path / name).write_text("nothing")
        monkeypatch.setenv(f"BRIDGE_TLS_{name}", str(tmp_path / name))
    with pytest.raises(SettingsInvalid, match="no certificate and its key"):
        load({})


def test_a_misspelt_variable_stops_the_start_and_the_right_one_is_named():
    with pytest.raises(SettingsInvalid, match=r"BRIDGE_PROT is no setting.*mean BRIDGE_PORT"):
        load({"BRIDGE_PROT": "9000"})
    assert unknown_settings({"BRIDGE_PORT": "1", "PATH": "", "FERRET_BRIDGE_TOKEN": ""}) == []


def test_lists_are_separated_by_commas(monkeypatch):
    monkeypatch.setenv("BRIDGE_ALLOWED_ORIGINS", "https://a.example, https://b.example:8443,")
    assert load({}).allowed_origins == ("https://a.example", "https://b.example:8443")


@pytest.mark.parametrize(
    ("host", "public", "shown", "opened"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:8787", "http://127.0.0.1:8787"),
        ("0.0.0.0", None, "http://0.0.0.0:8787", "http://127.0.0.1:8787"),
        ("::1", None, "http://[::1]:8787", "http://[::1]:8787"),
        ("127.0.0.1", "https://e.org/", "http://127.0.0.1:8787", "https://e.org"),
    ],
)
def test_the_address_that_is_shown_and_the_one_people_open(host, public, shown, opened):
    settings = Settings(host=host, public_url=public)
    assert (settings.address(8787), settings.reachable_at(8787)) == (shown, opened)


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://e.org/", "https://e.org"),
        ("https://E.org:443/x?y", "https://e.org"),
        ("http://e.org:443", "http://e.org:443"),
        ("http://[::1]:8787", "http://[::1]:8787"),
    ],
)
def test_an_origin_is_written_as_a_browser_writes_it(url, origin):
    assert origin_of(url) == origin


def test_every_setting_has_a_sentence():
    for name, field in Settings.model_fields.items():
        assert field.description, name
