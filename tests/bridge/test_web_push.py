"""Messages to browsers: what is encrypted, by whom it is said to be, and where it may go."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from fakes.push_service import PushService, bytes64
from hypothesis import given
from hypothesis import strategies as st

from bridge.protocol.errors import InvalidParams
from bridge.web_push import PAYLOAD_LIMIT, Receiver, WebPush, encrypt

# RFC 8291, appendix A.
RECEIVER = Receiver(
    "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
    "BTBZMqHH6r4Tts7J_aSIgg",
)
SENDER = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
TEXT = b"When I grow up, I want to be a watermelon"
SEALED = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmY"
    "WAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexS"
    "gSxsj_Qulcy4a-fN"
)
KNOWN = (
    "https://fcm.googleapis.com/fcm/send/x",
    "https://updates.push.services.mozilla.com/wpush/v2/x",
    "https://web.push.apple.com/x",
    "https://wns2-par02p.notify.windows.com/w/?token=x",
)
FOREIGN = (
    "http://127.0.0.1:6379/",
    "https://127.0.0.1/x",
    "http://169.254.169.254/latest/meta-data",
    "https://metadata.internal/x",
    "http://fcm.googleapis.com/x",
    "https://fcm.googleapis.com:6379/x",
    "https://fcm.googleapis.com@127.0.0.1/x",
    "https://fcm.googleapis.com.evil.example/x",
    "https://evilpush.apple.com.example/x",
    "https://xpush.apple.com/x",
    "https://[::1]/x",
    "file:///etc/passwd",
    "gopher://fcm.googleapis.com/x",
    "",
)


@pytest.fixture
async def service():
    async with PushService() as made:
        yield made


def test_the_examples_of_the_standard_come_out():
    key = ec.derive_private_key(int.from_bytes(bytes64(SENDER)), ec.SECP256R1())
    sealed = encrypt(RECEIVER, TEXT, key=key, salt=bytes64(SALT))
    assert base64.urlsafe_b64encode(sealed).rstrip(b"=").decode() == SEALED


@given(text=st.binary(min_size=1, max_size=PAYLOAD_LIMIT).filter(lambda t: t[-1] not in (0, 2)))
def test_only_the_browser_reads_what_was_sealed_for_it(text):
    class Nowhere:
        url = "https://push.example.net"

    from fakes.push_service import Browser

    browser = Browser(Nowhere, "x")
    receiver = Receiver(browser.endpoint, **browser.as_json()["keys"])
    sealed = encrypt(receiver, text)
    assert browser.read(sealed) == text
    assert len(sealed) <= 4096


@pytest.mark.parametrize("endpoint", KNOWN)
def test_the_makers_services_are_known(tmp_path, endpoint):
    WebPush(tmp_path, "mailto:a@b.c").check(Receiver(endpoint, RECEIVER.p256dh, RECEIVER.auth))


@pytest.mark.attack("S24", "a subscription names an address of the relay's own network")
@pytest.mark.parametrize("endpoint", FOREIGN)
def test_no_other_address_is_ever_called(tmp_path, endpoint):
    with pytest.raises(InvalidParams, match="no push service"):
        WebPush(tmp_path, "mailto:a@b.c").check(Receiver(endpoint, RECEIVER.p256dh, RECEIVER.auth))


@pytest.mark.attack("S24", "a push service redirects to another address")
async def test_no_redirect_is_followed(tmp_path, service):
    browser, service.answer = service.browser("x"), 307
    push = WebPush(tmp_path, "mailto:a@b.c", [service.place])
    receiver = Receiver(browser.endpoint, **browser.as_json()["keys"])
    attempt = await push.send(receiver, b"{}", seconds=60, urgent=True)
    await push.aclose()
    assert attempt.status == 307
    assert service.refused == []  # /elsewhere would be


async def test_the_service_takes_what_two_processes_of_one_relay_send(tmp_path, service):
    browser = service.browser("x")
    receiver = Receiver(browser.endpoint, **browser.as_json()["keys"])
    both = [WebPush(tmp_path, "mailto:a@b.c", [service.place]) for _ in range(2)]
    assert both[0].public_key == both[1].public_key
    for push in both:
        attempt = await push.send(receiver, b'{"kind":"test"}', seconds=60, urgent=False, topic="t")
        assert attempt.is_taken, service.refused
        await push.aclose()
    assert [one["kind"] for one in browser.got] == ["test", "test"]
    assert browser.heads[0]["topic"] == "t"
    assert (tmp_path / "push.pem").stat().st_mode & 0o777 == 0o600


async def test_a_service_that_is_away_is_an_attempt_with_a_reason(tmp_path, service):
    browser = service.browser("x")
    receiver = Receiver(browser.endpoint, **browser.as_json()["keys"])
    place = service.place
    await service.__aexit__()
    push = WebPush(tmp_path, "mailto:a@b.c", [place])
    attempt = await push.send(receiver, b"{}", seconds=60, urgent=False)
    await push.aclose()
    assert (attempt.status, attempt.is_taken) == (0, False)
    assert attempt.reason


@pytest.mark.parametrize(("p256dh", "auth"), [("", ""), ("AAAA", "AAAA"), ("é", RECEIVER.auth)])
def test_keys_that_are_none_are_refused(tmp_path, p256dh, auth):
    with pytest.raises(InvalidParams, match="keys"):
        WebPush(tmp_path, "mailto:a@b.c").check(Receiver(KNOWN[0], p256dh, auth))
