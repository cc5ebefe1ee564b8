"""Links, cookies and tickets: each once or as long as it may be, and only hashes are stored."""

import asyncio

import pytest

from bridge import keys
from bridge.login import LINK_SECONDS, LOGIN_SECONDS, TICKET_SECONDS, Logins
from bridge.protocol.acp import Role
from bridge.protocol.errors import AuthRequired, InvalidParams, StoreUnavailable
from bridge.redis import Store


@pytest.fixture
def logins(store):
    return Logins(store)


async def link(logins, **changed):
    return await logins.make_link(
        **{"tenant": "acme", "subject": "alice", "role": Role.OPERATOR, **changed}
    )


async def test_a_link_signs_its_person_in(logins):
    secret, identity = await logins.sign_in(await link(logins), "Pixel 8")
    assert await logins.find(secret) == identity
    assert (identity.tenant, identity.subject, identity.role) == ("acme", "alice", Role.OPERATOR)
    assert (identity.kind, identity.device, identity.door) == ("person", "Pixel 8", "page")


async def test_a_link_works_once(logins):
    secret = await link(logins)
    await logins.sign_in(secret, "")
    with pytest.raises(AuthRequired, match=r"used already.*chimera-relay link"):
        await logins.sign_in(secret, "")


async def test_of_many_who_race_for_a_link_one_gets_in(logins):
    secret = await link(logins)
    tries = [logins.sign_in(secret, str(n)) for n in range(20)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(result, tuple) for result in results) == 1
    assert sum(isinstance(result, AuthRequired) for result in results) == 19


@pytest.mark.parametrize("command", ["GET", "SET", "DEL"])
async def test_a_lost_reply_locks_nobody_out_and_lets_nobody_in_twice(proxy, logins, command):
    secret = await link(logins)
    lossy = Store.open(proxy.url)
    try:
        await lossy.commands.ping()
        proxy.lose_reply_to(f"\r\n{command}\r\n")
        cookie, _ = await Logins(lossy).sign_in(secret, "")
        assert proxy.lost.is_set()
    finally:
        await lossy.aclose()
    assert (await logins.find(cookie)).subject == "alice"
    with pytest.raises(AuthRequired):
        await logins.sign_in(secret, "")


async def test_an_invented_secret_signs_nobody_in(logins):
    for secret in ("x", "", "a" * 256, "ü\ud800", "taken x"):
        with pytest.raises(AuthRequired):
            await logins.sign_in(secret, "")
        assert await logins.find(secret) is None
        assert await logins.take_ticket(secret, None) is None


async def test_who_signed_out_is_not_found_again(logins):
    secret, _ = await logins.sign_in(await link(logins), "")
    token_id = (await logins.find(secret)).token_id
    assert await logins.end(secret) == token_id
    assert await logins.find(secret) is None


@pytest.mark.attack("S15", "a ticket again, and from another page")
async def test_a_ticket_works_once_and_for_its_origin_alone(logins):
    secret, _ = await logins.sign_in(await link(logins), "Mac")
    identity = await logins.find(secret)
    ticket = await logins.make_ticket(identity, "https://e.org")
    assert await logins.take_ticket(ticket, "https://e.org") == identity
    assert await logins.take_ticket(ticket, "https://e.org") is None
    for foreign in ("https://e.org.evil", "null", None):
        ticket = await logins.make_ticket(identity, "https://e.org")
        assert await logins.take_ticket(ticket, foreign) is None
        assert await logins.take_ticket(ticket, "https://e.org") is None  # spent by the try


async def test_the_store_holds_hashes_that_end_by_themselves(logins, store):
    first = await link(logins)
    secret, _ = await logins.sign_in(await link(logins), "")
    ticket = await logins.make_ticket(await logins.find(secret), "https://e.org")
    lives = {"link": LINK_SECONDS, "cookie": LOGIN_SECONDS, "ticket": TICKET_SECONDS}
    found = [key.decode() for key in await store.commands.keys("*")]
    assert {keys.kind_of(key) for key in found} == set(lives)
    for key in found:
        assert 0 < await store.commands.ttl(key) <= lives[keys.kind_of(key)]
        assert not any(text in key for text in (first, secret, ticket))
        value = await store.commands.get(key)
        assert not any(text.encode() in value for text in (first, secret, ticket))


async def test_using_a_cookie_lengthens_its_life(logins, store):
    secret, _ = await logins.sign_in(await link(logins), "")
    [key] = await store.commands.keys("b:cookie:*")
    await store.commands.expire(key, 100)
    await logins.find(secret)
    assert await store.commands.ttl(key) > 100


@pytest.mark.parametrize("wrong", [{"tenant": "A{}"}, {"subject": ""}, {"subject": "a\nb"}])
async def test_a_link_for_nobody_is_not_made(logins, wrong):
    with pytest.raises(InvalidParams):
        await link(logins, **wrong)


async def test_without_a_store_nobody_signs_in_and_the_error_says_so(tmp_path):
    store = Store.open(f"unix://{tmp_path}/none.sock")
    with pytest.raises(StoreUnavailable):
        await Logins(store).find("x")
    await store.aclose()
