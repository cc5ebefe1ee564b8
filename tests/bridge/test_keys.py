import pytest

from bridge import keys
from bridge.protocol.errors import InvalidParams
from bridge.protocol.uplink import MailDone, SessionCard

NAMED = [
    keys.log,
    keys.meta,
    keys.chunks,
    keys.asked,
    keys.sessions_of,
    keys.round_trip,
    keys.claim,
    keys.mail,
    keys.mailed,
    keys.done,
]
OF_TENANT = [
    keys.sessions,
    keys.open_round_trips,
    keys.closed_round_trips,
    keys.audit,
    keys.agents,
    keys.changes,
]
DIGEST = "a" * 64


@pytest.mark.parametrize("name", NAMED, ids=lambda name: name.__name__)
@pytest.mark.parametrize("id_", ["", "a" * 65, "a:b", "a b", "a}", "ä", "a\n", "../a", 7, None])
def test_an_id_that_cannot_be_part_of_a_key_is_refused_by_name(name, id_):
    with pytest.raises(InvalidParams, match=r"^invalid .* id .*: 1 to 64 of"):
        name("acme", id_)


@pytest.mark.parametrize("name", OF_TENANT, ids=lambda name: name.__name__)
@pytest.mark.parametrize("tenant", ["", "a" * 64, "Acme", "a}:log:{b", "a\n", None])
def test_a_tenant_that_cannot_be_part_of_a_key_is_refused(name, tenant):
    with pytest.raises(InvalidParams, match=r"^invalid tenant"):
        name(tenant)


def test_an_id_of_the_longest_form_is_taken():
    assert keys.log("a" * 63, "A.b_c-9" + "x" * 57).endswith("x" * 57)


@pytest.mark.parametrize("name", NAMED, ids=lambda name: name.__name__)
def test_every_named_key_carries_its_tenants_hash_tag_and_is_known(name):
    key = name("acme", "x")
    assert key.startswith("b:{acme}:")
    assert keys.kind_of(key) is not None


@pytest.mark.parametrize("name", OF_TENANT, ids=lambda name: name.__name__)
def test_every_key_of_a_tenant_is_known(name):
    assert keys.kind_of(name("acme")) is not None


def test_a_watch_lies_beside_its_stream():
    assert keys.watch(keys.log("acme", "s1")) == "b:{acme}:watch:log:s1"
    assert keys.kind_of(keys.watch(keys.mail("acme", "a1"))) == "watch"
    assert keys.kind_of(keys.watch(keys.changes("acme"))) == "watch"


def test_keys_of_no_tenant_carry_no_tag():
    for key in (keys.inbox("n1"), keys.probe(0), keys.link(DIGEST), keys.ticket(DIGEST)):
        assert "{" not in key
        assert keys.kind_of(key) is not None


def test_a_secret_is_never_part_of_a_key():
    with pytest.raises(InvalidParams, match="SHA-256"):
        keys.cookie("hunter2")


@pytest.mark.parametrize("key", ["x", "b:{acme}:foo:1", "b:{acme}:log", "b:log:x", "b:{A}:open"])
def test_other_keys_are_not_ours(key):
    assert keys.kind_of(key) is None


async def test_every_key_in_redis_is_of_these_forms_and_ends_or_is_pinned(store, writer):
    await store.check()
    for stream in (keys.log("acme", "s1"), keys.mail("acme", "a1"), keys.changes("acme")):
        await writer.inbox.follow("acme", stream, "0-0", lambda _: None).ready()
    await writer.append(writer.update(1), writer.question(2), writer.question(3, "rt-2"))
    await writer.sessions.put_card(writer.claim, SessionCard("s1", "a1", 1))
    await writer.sessions.put_card(writer.claim, SessionCard("s2", "a1", 1))
    await writer.decide()
    await writer.send()
    await writer.mailbox.done(writer.claim, MailDone("m-1"))
    await writer.append(writer.resolved(4), writer.update(5))
    await writer.agents.renew(writer.claim, 0)

    found = {key.decode(): await store.commands.pttl(key) for key in await store.commands.keys()}

    kinds = {key: keys.kind_of(key) for key in found}
    assert None not in kinds.values()
    endless = {key for key, left in found.items() if left == -1}
    assert {kinds[key] for key in endless} <= keys.PINNABLE
    pinned = {"log:s1", "meta:s1", "asked:s1", "rt:rt-2", "open", "sessions", "agents"}
    assert endless == {f"b:{{acme}}:{name}" for name in pinned}
