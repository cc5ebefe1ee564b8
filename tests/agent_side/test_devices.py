"""Device keys are kept in one file that outlives a crash, and are forgotten for good."""

import stat

import pytest
from fakes.device import FakeDevice

from agent_side.devices import Devices, DevicesUnreadable
from agent_side.settings import ConnectorSettings, SettingsError
from agent_side.signatures import Signatures

PHONE, TABLET = FakeDevice("pixel"), FakeDevice("tablet")


def pin(devices, device):
    return devices.pin(key=device.key, name=device.name, subject=device.subject)


def test_a_pinned_device_is_there_in_every_process(tmp_path):
    pinned = pin(Devices(tmp_path / "state"), PHONE)
    other = Devices(tmp_path / "state")
    assert other.get(PHONE.id) == pinned
    assert other.required


def test_only_the_owner_reads_the_file(tmp_path):
    pin(Devices(tmp_path), PHONE)
    assert stat.S_IMODE((tmp_path / "devices.json").stat().st_mode) == 0o600


def test_a_device_that_is_paired_again_is_there_once(tmp_path):
    devices = Devices(tmp_path)
    pin(devices, PHONE)
    devices.pin(key=PHONE.key, name="pixel 2", subject="alice")
    assert [one.name for one in devices.all()] == ["pixel 2"]


def test_a_look_tells_of_changes_by_whomever_once(tmp_path):
    mine, theirs = Devices(tmp_path), Devices(tmp_path)
    assert not mine.look()
    pin(theirs, PHONE)
    assert mine.get(PHONE.id)
    assert mine.look()
    assert not mine.look()
    pin(mine, TABLET)
    assert mine.look()


@pytest.mark.parametrize(("by_owner", "required"), [(True, False), (False, True)])
def test_only_the_owner_ends_the_need_for_signatures(tmp_path, by_owner, required):
    devices = Devices(tmp_path)
    pin(devices, PHONE)
    assert devices.forget(PHONE.id, by_owner=by_owner).name == "pixel"
    assert devices.all() == ()
    assert devices.required is required


def test_a_device_that_was_never_there_is_forgotten_in_peace(tmp_path):
    devices = Devices(tmp_path)
    assert devices.forget(PHONE.id, by_owner=False) is None
    assert not (tmp_path / "devices.json").exists()


def test_a_broken_file_is_no_empty_one(tmp_path):
    (tmp_path / "devices.json").write_text("[")
    with pytest.raises(DevicesUnreadable):
        Devices(tmp_path).all()
    assert Signatures(Devices(tmp_path), "auto").required


@pytest.mark.parametrize(
    ("choice", "unpaired", "paired"),
    [
        ("auto", "off", "required"),
        ("required", "required", "required"),
        ("off", "off", "off"),
    ],
)
def test_signatures_are_required_from_the_first_device_on(tmp_path, choice, unpaired, paired):
    devices = Devices(tmp_path)
    assert Signatures(devices, choice).policy == unpaired
    pin(devices, PHONE)
    assert Signatures(devices, choice).policy == paired


def test_no_connector_is_named_like_the_file(tmp_path):
    with pytest.raises(SettingsError):
        ConnectorSettings("devices.json", tmp_path, tmp_path)
