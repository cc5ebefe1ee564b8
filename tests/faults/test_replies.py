"""The reply to a command is lost: it was done, and whoever sent it sends it again."""

import asyncio

from e2e.asking import is_changed, opened_question
from fakes.running import asks
from faults.house import TENANT

from bridge import keys

ROUNDS = 3
EFFECTS = {"append", "decide", "mail", "done"}  # scripts; all that the short form tries
PATIENCE_SECONDS = 3  # what is sent once in a while comes in its time


async def converse(at, alice) -> tuple[str, dict]:
    """One of everything: a session, a prompt, text, a question, its answer, the end."""
    session = await alice.open("stamped", at.relays[0].work)
    turn = alice.prompt(session, "go", echo=True)
    question = await opened_question(alice, session)
    decided = await alice.decide(question["id"], {"optionId": "yes"}, f"d-{question['id']}")
    assert decided["state"] == "recorded"
    assert (await alice.answer(turn))["stopReason"] == "end_turn"
    closed = is_changed("roundTrip", id=question["id"], state="closed")
    await alice.until(closed)
    return session, question


def doubled(at, alice, session, question) -> dict[str, int]:
    """What of it happened more often than once, and what never."""
    seqs = alice.seqs(session)
    said = [m["params"]["update"] for m in alice.entries(session, "session/update")]
    texts = [u["content"]["text"] for u in said if u["sessionUpdate"] == "agent_message_chunk"]
    decisions = [
        fields
        for _, fields in at.redis.call("XRANGE", keys.audit(TENANT), "-", "+")
        if fields.get(b"roundTrip") == question["id"].encode() and fields[b"event"] == b"decided"
    ]
    return {
        "entries": len(seqs) - len(set(seqs)),
        "out of order": int(seqs != sorted(seqs)),
        "texts": abs(len(texts) - 2),
        "decisions": abs(len(decisions) - 1),
    }


async def provoked(at, kind: str) -> bool:
    """Say whether the reply that is to be lost was lost, or does not come by itself any more."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await at.commands.until_lost()
    except TimeoutError:
        at.commands.lose_reply_to("")
    return at.commands.lost == kind


async def test_no_command_whose_reply_is_lost_takes_effect_twice(house, row, length):
    """R08."""
    turn = [{"chunks": 1, "text": "before"}, asks(), {"chunks": 1, "text": "after"}]
    async with house(relays=2) as at:
        await at.connect(turns_by_text={"go": turn}, sessions=[f"s-{n}" for n in range(500)])
        alice = await at.dashboard(1)
        alice.bridge = {"decide": True}
        await alice.leave()
        await alice.come()
        await alice.call("_bridge/watch")
        at.commands.seen.clear()  # what is sent at the start only is left out
        await converse(at, alice)
        kinds = sorted(length(EFFECTS, at.commands.seen))
        conversations, lost, effects = 1, [], {}
        for kind in kinds * length(1, ROUNDS):
            at.commands.lose_reply_to(kind)
            wrong = doubled(at, alice, *await converse(at, alice))
            conversations += 1
            if await provoked(at, kind):
                lost.append(kind)
                effects |= {f"{kind}: {name}": n for name, n in wrong.items() if n}
        prompts = len(at.agent.received("session/prompt"))
        answers = len([m for m in at.agent.lines("in") if "method" not in m])
        row(
            *("R08", "the reply to one of each kind of command is lost"),
            sent=conversations,
            recorded=conversations,
            applied=answers,
            replies_lost=len(lost),
            double_effects=len(effects),
            kinds_of_command=len(set(lost)),
            kinds=" ".join(sorted(set(lost))),
            not_provoked_again=" ".join(sorted(set(kinds) - set(lost))) or "none",
            **await at.left(),
        )
        assert effects == {}
        assert (prompts, answers) == (conversations, conversations)
        assert set(lost) >= EFFECTS
