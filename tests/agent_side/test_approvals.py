"""What is decided without a person: presets and rules, logged as such."""

import pytest
from fakes.relay import ALICE, FakeRelay
from fakes.running import ANNA, Running, asks, stamp

from agent_side.approvals import WIDTH, Preset
from agent_side.limits import PRESETS
from agent_side.sandbox import SandboxState
from bridge.protocol.errors import InvalidParams

ALWAYS = {"optionId": "yes", "remember": {"decision": "allow"}}
FOUR = [asks(id_=i, wait=False) for i in range(4)] + [{"await": i} for i in range(4)]
READ = {"kind": "read", "rawInput": None, "locations": [{"path": "a"}]}
WRITE = {"kind": "edit", "rawInput": None, "locations": [{"path": "a"}]}
OUTSIDE = {"kind": "edit", "rawInput": None, "locations": [{"path": "/etc/hosts"}]}


def option(answer):
    return answer["outcome"].get("optionId")


def resolved(running, session):
    return [m["params"] for m in running.entries(session, "_bridge/resolved")]


async def answers_of(running, session):
    """Run a prompt that nobody has to answer; give what its agent was told."""
    await running.prompt(session)
    return running.agent.answers()


def test_the_presets_on_the_command_line_are_those_there_are():
    assert [str(one) for one in WIDTH] == list(PRESETS)


async def test_always_decides_the_next_equal_question_at_once_and_is_logged_as_a_rule(tmp_path):
    """A36, A42: by its exact scope; also in another session."""
    turns = [[asks()], [asks()], [asks({"rawInput": {"command": "make all"}})]]
    async with Running(tmp_path, turns=turns) as running:
        first, second = await running.session(), await running.session()
        ended = running.prompt(first)
        [id_] = await running.asked()
        running.connector.answer(id_, ALWAYS, ANNA)
        await ended
        told = await answers_of(running, second)
        assert option(told[0]) == "yes"
        assert told[0]["_meta"]["chimera.bridge"]["reason"] == "rule"
        [said] = resolved(running, second)
        [rule] = running.connector.rules.all()
        assert (said["reason"], said["rule"]["id"], said["asked"]["risk"]) == (
            "rule",
            rule.id,
            "medium",
        )
        assert "by" not in said
        assert running.entries(second, "session/request_permission") == []
        assert len(running.door.asked) == 1
        running.prompt(second)
        await running.asked()  # another command is another question


async def test_never_refuses_the_next_one(tmp_path):
    async with Running(tmp_path, turns=[[asks()], [asks()]]) as running:
        session = await running.session()
        ended = running.prompt(session)
        [id_] = await running.asked()
        never = {"optionId": "no", "remember": {"decision": "deny"}}
        running.connector.answer(id_, never, ANNA)
        await ended
        await answers_of(running, session)
        last = running.agent.lines("in")[-1]["result"]
        assert option(last) == "no"


async def test_always_applies_to_the_open_equal_ones_only_when_the_person_says_so(tmp_path):
    """A13."""
    async with Running(tmp_path, turns=[FOUR]) as running:
        session = await running.session()
        ended = running.prompt(session)
        first, second, *_ = await running.asked(4)
        running.connector.answer(first, ALWAYS, ANNA)
        assert len(running.connector.questions) == 3
        answer = {"optionId": "yes", "remember": {"decision": "allow", "open": True}}
        running.connector.answer(second, answer, ANNA)
        await ended
        told = resolved(running, session)
        assert [one["reason"] for one in told] == ["local", "local", "rule", "rule"]
        assert {option(a) for a in running.agent.answers().values()} == {"yes"}


@pytest.mark.parametrize(
    "answer",
    [
        {"optionId": "no", "remember": {"decision": "allow"}},
        {"optionId": "yes", "remember": {"decision": "deny"}},
        {"optionId": "yes", "remember": {"decision": "maybe"}},
        {"optionId": "yes", "remember": "always"},
        {"optionId": "yes", "remember": {"decision": "allow", "days": -1}},
    ],
)
async def test_what_contradicts_itself_makes_no_rule_and_answers_nothing(tmp_path, answer):
    """A37."""
    async with Running(tmp_path, turns=[[asks()]]) as running:
        running.prompt(await running.session())
        [id_] = await running.asked()
        with pytest.raises(InvalidParams):
            running.connector.answer(id_, answer, ANNA)
        assert id_ in running.connector.questions
        assert running.connector.rules.all() == ()


async def test_answers_for_this_time_store_nothing(tmp_path):
    """A37."""
    async with Running(tmp_path, turns=[[asks(), asks(id_=1)]]) as running:
        ended = running.prompt(await running.session())
        for answer in ({"optionId": "always"}, {"optionId": "no"}):
            [id_] = await running.asked()
            running.connector.answer(id_, answer, ANNA)
            await running.until(lambda id_=id_: id_ not in running.connector.questions)
        await ended
        assert running.connector.rules.all() == ()


@pytest.mark.parametrize(
    ("preset", "call", "expected"),
    [
        (Preset.READ_ONLY, READ, "yes"),
        (Preset.READ_ONLY, WRITE, "no"),
        (Preset.AUTO, READ, "yes"),
        (Preset.AUTO, WRITE, None),
        (Preset.FULL, OUTSIDE, "yes"),
        (Preset.SUGGEST, READ, None),
        (Preset.STRICT, READ, None),
    ],
)
async def test_a_preset_decides_or_leaves_it_to_a_person(tmp_path, preset, call, expected):
    settings = {"approval": str(preset)}
    async with Running(tmp_path, turns=[[asks(call)]], settings=settings) as running:
        session = await running.session()
        if expected is None:
            running.prompt(session)
            await running.asked()
            return
        assert option((await answers_of(running, session))[0]) == expected
        [said] = resolved(running, session)
        assert (said["reason"], said["rule"]["id"]) == ("rule", f"preset-{preset}")
        refused = running.entries(session, "_bridge/sandbox_violation")
        assert [one["params"]["mode"] for one in refused] == (
            ["read-only"] if expected == "no" else []
        )


async def test_where_no_option_says_it_plainly_a_person_is_asked(tmp_path):
    step = asks()
    step["ask"]["options"].append({"optionId": "y2", "name": "Yes too", "kind": "allow_once"})
    async with Running(tmp_path, turns=[[step]], settings={"approval": "full"}) as running:
        running.prompt(await running.session())
        await running.asked()


async def test_strict_lets_no_always_count_but_every_never(tmp_path):
    turns = [[asks()], [asks()], [asks()]]
    async with Running(tmp_path, turns=turns) as running:
        session = await running.session()
        ended = running.prompt(session)
        [id_] = await running.asked()
        running.connector.answer(id_, ALWAYS, ANNA)
        await ended
        running.connector.set_approval(session, "strict", ANNA)
        ended = running.prompt(session)
        [id_] = await running.asked()
        with pytest.raises(InvalidParams, match="strict remembers nothing"):
            running.connector.answer(id_, ALWAYS, ANNA)
        running.connector.rules.add(running.connector.questions[id_].scope, "deny", ANNA)
        running.connector.answer(id_, {"optionId": "yes"}, ANNA)
        await ended
        await answers_of(running, session)
        assert resolved(running, session)[-1]["rule"]["words"].startswith("never run exactly")


async def test_a_change_is_an_entry_with_who_made_it_and_decides_what_is_open(tmp_path):
    async with Running(tmp_path, turns=[[asks()]]) as running:
        session = await running.session()
        ended = running.prompt(session)
        await running.asked()
        changed = running.connector.set_approval(session, "full", ANNA)
        await ended
        assert changed == {"old": "suggest", "new": "full"}
        [entry] = running.entries(session, "_bridge/approval_changed")
        assert (entry["params"]["old"], entry["params"]["new"]) == ("suggest", "full")
        assert stamp(entry)["origin"]["door"] == "terminal"
        assert resolved(running, session)[0]["rule"]["id"] == "preset-full"
        with pytest.raises(InvalidParams, match="read-only, strict, suggest, auto, full"):
            running.connector.set_approval(session, "yolo", ANNA)


async def test_a_sandbox_refuses_what_is_asked_outside_it_before_anybody_is_asked(tmp_path):
    command = {"sandbox": _sandbox("workspace-write")}
    turns = [[asks(OUTSIDE), asks(WRITE, id_=1)]]
    settings = {"approval": "full"}
    async with Running(tmp_path, turns=turns, command=command, settings=settings) as running:
        session = await running.session()
        told = await answers_of(running, session)
        assert (option(told[0]), option(told[1])) == ("no", "yes")
        [said] = running.entries(session, "_bridge/sandbox_violation")
        told = {name: said["params"][name] for name in ("tool", "path", "mode")}
        assert told == {"tool": "edit", "path": "/etc/hosts", "mode": "workspace-write"}


def _sandbox(mode):
    from agent_side.sandbox import Mode, Sandbox

    return Sandbox(SandboxState(Mode(mode), why="told, not enforced"))


# From afar.


@pytest.mark.parametrize(
    ("allowed", "preset", "is_set"),
    [
        ("", "read-only", False),
        ("", "full", False),
        ("suggest", "strict", True),
        ("suggest", "auto", False),
        ("auto", "auto", True),
        ("auto", "full", False),
        ("full", "yolo", False),
    ],
)
async def test_remote_clients_set_no_wider_preset_than_the_owner_allowed(
    tmp_path, allowed, preset, is_set
):
    """E13."""
    async with FakeRelay() as relay:
        settings = {"remote_approval": allowed}
        async with Running(tmp_path, relay=relay, settings=settings) as running:
            await relay.attached()
            session = await running.session()
            params = {"sessionId": session, "preset": preset}
            relay.send_mail("_bridge/set_approval", params, "m1")
            done = await relay.outcome("m1")
            assert (done.error is None) == is_set
            assert running.connector.approval(session) == (preset if is_set else "suggest")
            changes = running.entries(session, "_bridge/approval_changed")
            assert [stamp(one)["origin"]["subject"] for one in changes] == (
                [ALICE.subject] if is_set else []
            )


@pytest.mark.attack("E13", "a remote party makes the agent stop asking")
@pytest.mark.attack("E14", "a mode in the fields of a prompt")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("session/set_mode", {"modeId": "bypassPermissions"}),
        ("session/set_mode", {"modeId": "yolo"}),
        ("session/set_mode", {"modeId": "full-access"}),
        ("session/set_config_option", {"configId": "mode", "value": "bypassPermissions"}),
        ("session/set_config_option", {"configId": "autonomy", "value": "yolo"}),
        ("session/set_config_option", {"configId": "sandbox", "value": "danger-full-access"}),
        ("session/setSandbox", {"sandbox": "off"}),
        ("session/prompt", {"prompt": [], "_meta": {"mode": "bypassPermissions"}}),
    ],
)
async def test_nothing_from_afar_makes_the_agent_stop_asking(tmp_path, method, params, figure):
    """E13, E14."""
    options = [{"id": id_, "type": "select", "options": []} for id_ in ("autonomy", "sandbox")]
    options.append({"id": "mode", "category": "mode", "type": "select", "options": []})
    async with FakeRelay() as relay:
        new = {"configOptions": options}
        async with Running(tmp_path, relay=relay, new=new) as running:
            await relay.attached()
            session = await running.session()
            relay.send_mail(method, {"sessionId": session, **params}, "m1")
            done = await relay.outcome("m1")
            assert done.error is not None
            for reached in ("session/set_mode", "session/set_config_option", "session/prompt"):
                assert running.agent.received(reached) == []
            figure("carried out 0")


async def test_a_mode_that_the_owner_named_may_be_set_from_afar(tmp_path):
    async with FakeRelay() as relay:
        settings = {"allow_modes": frozenset({"bypassPermissions"})}
        async with Running(tmp_path, relay=relay, settings=settings) as running:
            await relay.attached()
            params = {"sessionId": await running.session(), "modeId": "bypassPermissions"}
            relay.send_mail("session/set_mode", params, "m1")
            await relay.outcome("m1")
            assert len(running.agent.received("session/set_mode")) == 1


async def test_the_cards_tell_the_preset_the_sandbox_and_what_may_be_set(tmp_path):
    async with FakeRelay() as relay:
        settings = {"approval": "auto", "remote_approval": "strict"}
        async with Running(tmp_path, relay=relay, settings=settings) as running:
            hello = await relay.attached()
            card = hello.agents[0]
            assert card.approvals == {"offered": list(PRESETS), "remote": ["read-only", "strict"]}
            assert card.sandbox["mode"] == "off"
            assert card.relay_rules
            session = await running.session()
            cards = await relay.until(lambda: [p for m, p in relay.told if m == "uplink/session"])
            assert (cards[0]["sessionId"], cards[0]["approval"]) == (session, "auto")
