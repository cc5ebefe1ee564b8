"""What remote clients may make this machine do."""

import pytest

from agent_side.policy import Policy, named_agent
from agent_side.settings import ConnectorSettings
from bridge.protocol.entry import Origin
from bridge.protocol.errors import CwdNotAllowed, InvalidParams, MethodNotFound, NotAllowed
from bridge.protocol.uplink import Mail


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    (root / "inside").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (root / "out").symlink_to(tmp_path / "outside")
    return root


@pytest.fixture
def policy(root, tmp_path):
    allowed = {"allow_modes": frozenset({"acceptEdits"}), "allow_options": frozenset({"fast"})}
    return Policy(ConnectorSettings("n", root, tmp_path, **allowed), "default")


def mail(message, not_after=None):
    return Mail(1, "m", Origin("alice"), message, not_after)


def test_a_folder_inside_is_taken_and_the_own_one_by_default(policy, root):
    assert policy.check_cwd(str(root / "inside")) == (root / "inside").resolve()
    assert policy.check_cwd(None) == root.resolve()


@pytest.mark.attack("E13", "a folder outside of the machine's own list")
@pytest.mark.parametrize(
    "cwd",
    ["/", "relative", "..", 5, "/nowhere\0", "inside/../..", "{root}/out", "{root}/../outside"],
)
def test_every_way_out_is_closed(policy, root, cwd):
    given = cwd.replace("{root}", str(root)) if isinstance(cwd, str) else cwd
    with pytest.raises(CwdNotAllowed):
        policy.check_cwd(given)


def test_a_folder_that_is_not_there_is_named(policy, root):
    with pytest.raises(CwdNotAllowed, match="gone is no folder"):
        policy.check_cwd(str(root / "gone"))


def test_modes_that_ask_and_those_the_owner_named_may_be_set(policy):
    offered = ["default", "acceptEdits", "plan", "read-only", "bypassPermissions", "auto"]
    assert policy.modes(offered) == ["default", "acceptEdits", "plan", "read-only"]
    for mode in ("auto", "bypassPermissions", None, 5):
        with pytest.raises(NotAllowed):
            policy.check_mode(mode)


def test_config_options_that_change_no_rights_may_be_set(policy):
    options = [
        {"id": "model", "category": "model"},
        {"id": "m", "category": "mode"},
        {"id": "auto_approve"},
        {"id": "fast"},
        "odd",
    ]
    policy.check_option({"configId": "model", "value": "x"}, options)
    policy.check_option({"configId": "m", "value": "plan"}, options)
    policy.check_option({"configId": "fast", "value": True}, options)
    for params in ({"configId": "m", "value": "auto"}, {"configId": "auto_approve", "value": True}):
        with pytest.raises(NotAllowed):
            policy.check_option(params, options)
    with pytest.raises(InvalidParams, match="no config option"):
        policy.check_option({"configId": "none"}, options)


def test_methods_outside_the_list_and_late_mail_are_refused(policy):
    good = {"method": "session/prompt", "params": {"a": 1}}
    assert policy.check_mail(mail(good, not_after=10), 10) == ("session/prompt", {"a": 1})
    with pytest.raises(MethodNotFound):
        policy.check_mail(mail({"method": "terminal/create", "params": {}}), 0)
    with pytest.raises(InvalidParams):
        policy.check_mail(mail({**good, "params": []}), 0)
    with pytest.raises(Exception, match="too late"):
        policy.check_mail(mail(good, not_after=10), 11)


def test_the_agent_a_new_session_is_for():
    assert named_agent({"_meta": {"chimera.bridge": {"agent": "a1"}}}) == "a1"
    for params in ({}, {"_meta": 5}, {"_meta": {"chimera.bridge": []}}):
        assert named_agent(params) is None
