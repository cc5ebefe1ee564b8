"""Prompts: one at a time, each end said once and after its text."""

from fakes.running import ANNA, Running, asks, stamp

from bridge.protocol.entry import TURN, Origin

BOB = Origin(subject="bob", tenant="acme", door="page")
TOOL = {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "t", "kind": "execute"}


def states(running, session):
    return [m["params"]["state"] for m in running.entries(session, TURN)]


async def test_prompt_text_and_end_come_in_order(tmp_path):
    async with Running(tmp_path, turns=[[{"chunks": 3}]]) as running:
        session = await running.session()
        end = await running.prompt(session, "hello")
        assert end.stop_reason == "end_turn"
        started, said, *parts, ended = running.entries(session)
        assert started["params"]["state"] == "started"
        assert said["params"]["update"]["content"]["text"] == "hello"
        assert stamp(said)["origin"]["door"] == "terminal"
        assert [p["params"]["update"]["content"]["text"] for p in parts] == [
            "part 0 ",
            "part 1 ",
            "part 2 ",
        ]
        assert ended["params"]["stopReason"] == "end_turn"


async def test_prompts_of_a_session_run_one_after_the_other(tmp_path):
    turns = {"first": [asks()], "second": [{"chunks": 1}]}
    async with Running(tmp_path, turns_by_text=turns) as running:
        session = await running.session()
        first = running.prompt(session, "first")
        second = running.prompt(session, "second")
        [question] = await running.asked()
        assert len(running.agent.received("session/prompt")) == 1
        running.connector.answer(question, {"optionId": "yes"}, ANNA)
        await first
        await second
        assert states(running, session) == ["started", "queued", "ended", "started", "ended"]


async def test_text_after_the_result_is_still_in_the_log(tmp_path):
    """B16."""
    steps = [{"chunks": 1, "text": "in time"}, {"late": [{"chunks": 1, "text": "late"}]}]
    async with Running(tmp_path, turns=[steps]) as running:
        session = await running.session()
        await running.prompt(session)
        await running.until(lambda: "late" in running.texts(session))
        kinds = [m["method"] for m in running.entries(session)]
        assert kinds.index(TURN, 1) < len(kinds) - 1


async def test_tool_calls_left_open_are_closed_before_the_end(tmp_path):
    async with Running(tmp_path, turns=[[{"update": TOOL}]]) as running:
        session = await running.session()
        await running.prompt(session)
        *_, closing, ended = running.entries(session)
        assert closing["params"]["update"]["toolCallId"] == "c1"
        assert closing["params"]["update"]["status"] == "failed"
        assert ended["method"] == TURN


async def test_an_error_of_the_agent_ends_the_turn_as_it_is(tmp_path):
    error = {"code": 400, "message": "quota", "data": {"message": "no more"}}
    async with Running(tmp_path, turns=[[{"error": error}]]) as running:
        session = await running.session()
        end = await running.prompt(session)
        assert end.error == error
        assert running.entries(session, TURN)[-1]["params"]["error"] == error


async def test_after_a_turn_that_failed_the_next_gets_its_own_answer(tmp_path):
    """B18."""
    turns = {"bad": [{"error": {"code": 500, "message": "api"}}], "good": [{"chunks": 1}]}
    async with Running(tmp_path, turns_by_text=turns) as running:
        session = await running.session()
        ends = [running.prompt(session, text) for text in ("bad", "good", "bad", "good")]
        reasons = [
            (end.error or {}).get("code", end.stop_reason) for end in [await e for e in ends]
        ]
        assert reasons == [500, "end_turn", 500, "end_turn"]


async def test_cancel_answers_both_open_questions_and_withdraws_them(tmp_path):
    """A24."""
    steps = [asks(id_=0, wait=False), asks(id_=1, wait=False), {"await": 0}, {"await": 1}]
    async with Running(tmp_path, turns=[steps], cancel="wait") as running:
        session = await running.session()
        ended = running.prompt(session)
        both = await running.asked(2)
        running.connector.cancel(session, ANNA)
        assert not running.connector.questions
        assert (await ended).stop_reason == "cancelled"
        assert running.agent.answers() == {
            0: {"outcome": {"outcome": "cancelled"}},
            1: {"outcome": {"outcome": "cancelled"}},
        }
        assert [(r.id, r.result, r.reason) for r in running.door.withdrawn] == [
            (id_, "void", "cancelled") for id_ in both
        ]


async def test_cancel_drops_the_canceller_s_waiting_prompts_only(tmp_path):
    turns = {"first": [{"until_cancel": True}], "bobs": [{"chunks": 1}]}
    async with Running(tmp_path, turns_by_text=turns) as running:
        session = await running.session()
        first = running.prompt(session, "first")
        second = running.prompt(session, "mine")
        bobs = []
        block = {"type": "text", "text": "bobs"}
        running.connector.prompt(session, [block], BOB, None, bobs.append)
        await running.until(lambda: running.agent.received("session/prompt"))
        running.connector.cancel(session, ANNA)
        assert (await second).stop_reason == "cancelled"
        assert (await first).stop_reason == "cancelled"
        await running.until(lambda: bobs)
        assert bobs[0].stop_reason == "end_turn"
        sent = [p["prompt"][0]["text"] for p in running.agent.received("session/prompt")]
        assert sent == ["first", "bobs"]


async def test_an_agent_that_dies_ends_the_turn_and_its_questions(tmp_path):
    steps = [{"update": TOOL}, asks(wait=False), {"die": 7}]
    async with Running(tmp_path, turns=[steps]) as running:
        session = await running.session()
        end = await running.prompt(session)
        assert "exit code 7" in end.error["message"]
        assert [r.reason for r in running.door.withdrawn] == ["agent_exited"]
        assert running.connector.agent.alive is False
        assert not running.connector.questions


async def test_the_next_prompt_starts_a_dead_agent_and_loads_the_session(tmp_path):
    turns = {"die": [{"die": 1}], "again": [{"chunks": 1, "text": "alive"}]}
    replay = [{"chunks": 2, "text": "replayed"}]
    async with Running(tmp_path, turns_by_text=turns, load=replay) as running:
        session = await running.session()
        await running.prompt(session, "die")
        end = await running.prompt(session, "again")
        assert end.stop_reason == "end_turn"
        assert running.texts(session) == ["alive"]
        assert states(running, session) == ["started", "ended", "queued", "started", "ended"]


async def test_an_agent_that_cannot_load_ends_its_sessions_when_it_dies(tmp_path):
    async with Running(tmp_path, turns=[[{"die": 1}]]) as running:
        session = await running.session()
        await running.prompt(session)
        await running.until(lambda: running.connector.sessions[session].state == "ended")
        assert len(list(running.connector.entries(session))) > 0
