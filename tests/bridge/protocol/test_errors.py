"""Every error and close code means one thing."""

import pytest

from bridge.protocol import close_codes, errors
from bridge.protocol.close_codes import CloseCode, is_final
from bridge.protocol.errors import BridgeError


def _all(kind=BridgeError):
    for sub in kind.__subclasses__():
        yield sub
        yield from _all(sub)


ALL = [one for one in _all() if one.__module__ == errors.__name__]


def test_every_error_has_a_reason_of_its_own():
    reasons = [one.reason for one in ALL]
    assert len(set(reasons)) == len(reasons)


def test_errors_share_a_code_only_with_those_they_are_kinds_of():
    for one in ALL:
        for other in ALL:
            if one.code == other.code:
                assert issubclass(one, other) or issubclass(other, one) or siblings(one, other)


def siblings(one, other):
    return one.__base__ is other.__base__ and one.__base__ is not BridgeError


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.__name__)
def test_every_error_is_complete(one):
    assert one.__doc__
    assert one.__name__ in errors.__doc__
    assert -32800 <= one.code <= -32000
    assert 400 <= one.status < 600
    assert CloseCode(one.close_code)
    shown = one("what failed", epoch=7).as_object()
    assert shown == {
        "code": one.code,
        "message": "what failed",
        "data": {"reason": one.reason, "epoch": 7},
    }


def test_every_close_code_has_a_reason_of_its_own_that_fits_a_frame():
    reasons = [code.reason for code in CloseCode]
    assert len(set(reasons)) == len(reasons)
    assert all(0 < len(reason) <= 123 for reason in reasons)


@pytest.mark.parametrize("code", list(CloseCode), ids=lambda code: code.name)
def test_a_close_code_says_whether_to_come_again(code):
    assert is_final(int(code)) is code.final
    assert 1000 <= code <= 1014 or 4400 <= code <= 4499


@pytest.mark.parametrize("code", [1006, 1014, 3000, 4999])
def test_an_unknown_close_code_is_not_final(code):
    assert not is_final(code)
    assert close_codes.__doc__
