"""Facts of ACP that both programs need."""

import pytest

from bridge.protocol import acp
from bridge.protocol.acp import Role


@pytest.mark.parametrize("role", list(Role), ids=str)
def test_a_role_is_read_as_it_is_written(role):
    assert Role.parse(str(role)) is role


def test_each_role_includes_the_ones_before_it():
    assert list(Role) == sorted(Role)
    assert Role.VIEWER < Role.APPROVER < Role.OPERATOR < Role.ADMIN


def test_an_unknown_role_is_none():
    with pytest.raises(KeyError):
        Role.parse("owner")


def test_what_goes_down_to_an_agent_needs_more_than_looking():
    for method in acp.MAIL_METHODS:
        assert acp.NEEDED_ROLE[method] > Role.VIEWER


def test_deciding_needs_an_approver_and_prompting_an_operator():
    assert acp.NEEDED_ROLE[acp.DECIDE] is Role.APPROVER
    assert acp.NEEDED_ROLE[acp.PROMPT] is Role.OPERATOR
