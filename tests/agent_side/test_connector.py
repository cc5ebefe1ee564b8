"""The connector at its doors: sessions, numbering, forgery, restarts."""

import asyncio
import json
import os

import pytest
from fakes.door import FakeDoor
from fakes.running import ANNA, Running, asks, stamp

from agent_side.agents.process import AgentError
from agent_side.connector import Connector
from agent_side.settings import ConnectorSettings
from bridge.protocol import entry
from bridge.protocol.cursor import START, Cursor
from bridge.protocol.errors import AgentUnavailable, AuthRequired, InvalidParams, NotFound

EARLY = [{"chunks": 2, "text": "early {i}"}]
META = {"chimera.bridge": {"epoch": 1, "seq": 1, "origin": {"subject": "eve"}}}


def chunk(text, **more):
    content = {"type": "text", "text": text}
    return {"sessionUpdate": "agent_message_chunk", "content": content, **more}


async def test_entries_are_numbered_from_one_without_a_hole(tmp_path):
    async with Running(tmp_path, turns=[[{"chunks": 50}]]) as running:
        session = await running.session()
        await running.prompt(session)
        stamps = [stamp(message) for message in running.entries(session)]
        assert [s["seq"] for s in stamps] == list(range(1, 54))
        assert len({s["epoch"] for s in stamps}) == 1
        assert stamps[0]["prev"] == "0:0"
        assert all("prev" not in s for s in stamps[1:])


async def test_the_agent_s_ids_never_leave(tmp_path):
    async with Running(tmp_path, sessions=["1"], turns=[[{"chunks": 1}, asks()]]) as running:
        opened = await running.connector.new_session(running.work, ANNA)
        session = opened.session.id
        assert opened.result["sessionId"] == session != "1"
        running.prompt(session)
        [id_] = await running.asked()
        assert running.connector.questions[id_].params["sessionId"] == session
        assert all('"1"' not in json.dumps(m) for m in running.entries(session))


async def test_updates_before_the_answer_to_session_new_are_kept(tmp_path):
    async with Running(tmp_path, before_new=EARLY, after_new=EARLY) as running:
        session = await running.session()
        await running.until(lambda: len(running.texts(session)) == 4)
        assert running.texts(session) == ["early 0", "early 1", "early 0", "early 1"]


async def test_no_door_hears_of_a_session_before_its_opener_could_answer(tmp_path):
    async with Running(tmp_path, before_new=EARLY) as running:
        session = await running.session()
        assert running.door.entries == []
        await running.until(lambda: running.texts(session))


@pytest.mark.attack("E14", "an agent forges our own messages and stamps")
async def test_what_the_agent_sends_is_stamped_anew_and_nothing_forged_passes(tmp_path):
    steps = [
        {"notify": ["_bridge/resolved", {"sessionId": "session-1", "id": "x"}]},
        {"notify": ["uplink/goodbye", {"reason": "no"}]},
        {"update": chunk("real", _meta=META)},
        {"raw": json.dumps({
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"sessionId": "session-1", "update": chunk("two"), "_meta": {**META, "k": 1}},
        })},
    ]  # fmt: skip
    async with Running(tmp_path, turns=[steps]) as running:
        session = await running.session()
        await running.prompt(session)
        assert set(running.door.methods()) == {"_bridge/turn", "session/update"}
        one, two = [m for m in running.entries(session) if "agent_message" in json.dumps(m)]
        assert one["params"]["update"]["_meta"] == {}
        assert two["params"]["_meta"]["k"] == 1
        assert "origin" not in stamp(two)
        assert stamp(two)["seq"] == stamp(one)["seq"] + 1


async def test_unknown_requests_are_answered_and_unknown_notifications_go_to_doors_only(tmp_path):
    ask = {"ask": {"path": "/x"}, "method": "fs/read_text_file", "id": 3}
    steps = [ask, {"notify": ["vendor/thing", {"sessionId": "session-1", "x": 1}]}]
    async with Running(tmp_path, turns=[steps]) as running:
        session = await running.session()
        await running.prompt(session)
        assert running.agent.answers()[3]["code"] == -32601
        assert running.door.notifications == [
            (session, "vendor/thing", {"sessionId": session, "x": 1})
        ]
        assert "vendor/thing" not in running.door.methods()


async def test_a_variant_that_nobody_knows_passes_as_it_is(tmp_path):
    update = {"sessionUpdate": "brand_new", "deep": [{"x": None}]}
    odd = {"raw": json.dumps({
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {"sessionId": "session-1", "update": 5, "extra": [1]},
    })}  # fmt: skip
    async with Running(tmp_path, turns=[[{"update": update}, odd]]) as running:
        session = await running.session()
        await running.prompt(session)
        updates = running.updates(session)
        assert update in updates
        assert 5 in updates


async def test_broken_lines_disturb_nothing(tmp_path):
    deep = '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"session-1","update":'
    steps = [
        {"raw": "noise"},
        {"raw": '{"jsonrpc":"2.0","method":"session/update","params":[]}'},
        {"raw": '{"jsonrpc":"2.0","method":"session/update","params":{"update":{}}}'},
        {"raw": '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":7,"update":{}}}'},
        {"raw": deep + "[" * 10_000 + "]" * 10_000 + "}}"},
        {"raw": '{"jsonrpc":"2.0","id":1.5,"method":"session/request_permission","params":{}}'},
        {"chunks": 1, "text": "after"},
    ]
    async with Running(tmp_path, turns=[steps]) as running:
        session = await running.session()
        end = await running.prompt(session)
        assert end.stop_reason == "end_turn"
        assert running.texts(session) == ["after"]


async def test_huge_outputs_are_full_at_the_door_and_in_the_journal(tmp_path):
    big = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawOutput": "x" * 600_000}
    async with Running(tmp_path, turns=[[{"update": {**big, "status": "completed"}}]]) as running:
        session = await running.session()
        await running.prompt(session)
        assert any(u.get("rawOutput") == big["rawOutput"] for u in running.updates(session))
        full = [t for _, t in running.connector.entries(session)]
        assert max(map(len, full)) > 600_000


async def test_entries_give_what_doors_were_told_and_the_rest_comes_live(tmp_path):
    async with Running(tmp_path, turns=[[{"chunks": 300, "every": 0.0005}]]) as running:
        session = await running.session()
        ended = running.prompt(session)
        await running.until(lambda: len(running.texts(session)) > 20)
        late = FakeDoor("editor")
        replayed = [json.loads(t) for _, t in running.connector.entries(session)]
        running.connector.open_door(late)
        await ended
        seqs = [stamp(m)["seq"] for m in replayed + [m for _, m in late.entries]]
        assert seqs == list(range(1, len(seqs) + 1))
        assert late.entries


async def test_cards_follow_what_the_agent_says(tmp_path):
    modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
    steps = [
        {"update": {"sessionUpdate": "session_info_update", "title": "A title"}},
        {"update": {"sessionUpdate": "current_mode_update", "currentModeId": "plan"}},
        {"update": {"sessionUpdate": "usage_update", "used": 5, "size": 9}},
        asks(),
    ]
    async with Running(tmp_path, new={"modes": modes}, turns=[steps]) as running:
        session = running.connector.sessions[await running.session()]
        assert session.state == "idle"
        running.prompt(session.id, "the prompt is the first title")
        await running.asked()
        assert (session.title, session.state, session.mode) == ("A title", "waiting", "plan")
        assert session.facts.usage == {"used": 5, "size": 9}


async def test_the_mode_in_which_the_agent_asks_is_set_when_it_is_offered(tmp_path):
    modes = {
        "currentModeId": "auto",
        "availableModes": [{"id": "auto", "name": "A"}, {"id": "default", "name": "D"}],
    }
    more = {"command": {"ask_mode": "default"}, "new": {"modes": modes}}
    async with Running(tmp_path, **more) as running:
        opened = await running.connector.new_session(running.work, ANNA)
        [call] = running.agent.received("session/set_mode")
        assert call["modeId"] == "default"
        assert opened.result["modes"]["currentModeId"] == "default"


async def test_a_session_that_does_not_go_into_that_mode_is_not_used(tmp_path):
    modes = {"currentModeId": "auto", "availableModes": [{"id": "default", "name": "D"}]}
    more = {"command": {"ask_mode": "default"}, "new": {"modes": modes}}
    errors = {"session/set_mode": {"code": -32603, "message": "no"}}
    async with Running(tmp_path, errors=errors, **more) as running:
        with pytest.raises(AgentUnavailable, match="'default'"):
            await running.session()
        [session] = running.connector.sessions.values()
        assert session.state == "ended"


async def test_an_agent_that_is_not_logged_in_says_what_to_run(tmp_path):
    errors = {"session/new": {"code": -32000, "message": "Authentication required"}}
    async with Running(tmp_path, errors=errors) as running:
        with pytest.raises(AuthRequired, match="`fake login`"):
            await running.session()
        assert running.connector.agent.login == "fake login"


async def test_another_refusal_of_a_session_is_passed_on(tmp_path):
    errors = {"session/new": {"code": -32603, "message": "no such folder"}}
    async with Running(tmp_path, errors=errors) as running:
        with pytest.raises(AgentError, match="no such folder"):
            await running.session()


async def test_unknown_sessions_and_empty_prompts_are_refused(tmp_path):
    async with Running(tmp_path) as running:
        with pytest.raises(NotFound):
            running.prompt("none")
        session = await running.session()
        for bad in ([], ["text"], [{"no": "type"}]):
            with pytest.raises(InvalidParams):
                running.connector.prompt(session, bad, ANNA, None, print)
        with pytest.raises(NotFound):
            running.connector.cancel("none", ANNA)


async def test_status_without_a_relay_says_so(tmp_path):
    async with Running(tmp_path, turns=[[asks()]]) as running:
        session = await running.session()
        running.prompt(session)
        [id_] = await running.asked()
        status = running.connector.status(session)
        assert (status["state"], status["reason"]) == ("detached", "never_connected")
        assert status["relay"] is None
        assert status["open"] == [id_]


async def test_a_door_that_fails_disturbs_no_other(tmp_path):
    class Broken(FakeDoor):
        def entry(self, *_):
            raise RuntimeError("broken")

    async with Running(tmp_path, turns=[[{"chunks": 1}]]) as running:
        running.connector.open_door(Broken("editor"))
        session = await running.session()
        await running.prompt(session)
        assert running.texts(session) == ["part 0 "]


# Ends.


async def test_an_agent_that_dies_at_start_ends_the_connector_with_code_5(tmp_path):
    async with Running(tmp_path, start=[{"stderr": "no key"}, {"die": 3}]) as running:
        reason = await running.task
    assert reason.code == 5
    assert "exit code 3" in reason.sentence
    assert "no key" in reason.sentence


async def test_an_agent_that_is_not_installed_ends_the_connector_with_code_5(tmp_path):
    async with Running(tmp_path, command={"argv": ("no-such-program",)}) as running:
        reason = await running.task
    assert (reason.code, "no-such-program" in reason.sentence) == (5, True)


async def test_a_second_process_on_the_same_state_ends_with_code_4(tmp_path):
    async with Running(tmp_path) as running:
        settings = ConnectorSettings("fake", running.work, running.state)
        second = Connector(settings, running.agent.command(running.work), relay=None)
        reason = await second.run()
        assert reason.code == 4
        assert "--name" in reason.sentence


async def test_a_state_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "state").write_text("a file")
    async with Running(tmp_path) as running:
        reason = await running.task
    assert reason.code == 1
    assert str(tmp_path / "state") in reason.sentence


async def test_stopping_while_the_agent_starts_ends_it_at_once(tmp_path):
    never = [{"delay_until_file": str(tmp_path / "never")}]
    running = Running(tmp_path, start=never)
    running.task = asyncio.create_task(running.connector.run())
    await running.until(lambda: running.state.exists() and running.connector._host.agent._starter)
    assert (await running.stop()).code == 0


async def test_a_full_disk_ends_the_connector_and_shows_nothing_unwritten(tmp_path):
    async with Running(tmp_path, turns=[[{"chunks": 3}]]) as running:
        session = await running.session()
        await running.until(lambda: not running.connector._journal._touched)
        journal = running.connector._journal.sessions[session]
        journal.close()
        read_only = os.open(journal._path, os.O_RDONLY)
        journal._fd = read_only
        running.prompt(session)
        reason = await running.task
        assert reason.code == 1
        assert "cannot be written" in reason.sentence
        assert running.entries(session) == []


# The next process.


async def test_the_next_process_has_the_sessions_and_a_newer_epoch(tmp_path):
    async with Running(tmp_path / "a", turns=[[{"chunks": 1}]], load=[]) as running:
        session = await running.session()
        await running.prompt(session, "name me")
        last = list(running.connector.entries(session))[-1][0]
        agent = running.connector.agent.id
    more = {"state": running.state, "turns": [[{"chunks": 1, "text": "again"}]]}
    replay = [{"chunks": 3, "text": "replayed"}]
    async with Running(tmp_path / "b", load=replay, **more) as again:
        assert again.connector.agent.id == agent
        assert again.connector.sessions[session].title == "name me"
        await again.prompt(session)
        assert again.texts(session) == ["again"]
        first = stamp(again.entries(session)[0])
        assert first["epoch"] > last.epoch
        assert (first["seq"], first["prev"]) == (1, str(last))
        assert again.agent.received("session/load")[0]["sessionId"] == "session-1"


async def test_a_question_left_open_by_a_crash_ends_as_restarted(tmp_path):
    async with Running(tmp_path / "a", turns=[[asks()]], load=[]) as running:
        session = await running.session()
        running.prompt(session)
        [id_] = await running.asked()
        await running.until(lambda: running.door.asked)
        image = running.crash_image(tmp_path / "image")
    async with Running(tmp_path / "b", state=image, load=[]) as again:
        new = [json.loads(t) for c, t in again.connector.entries(session)]
        resolved, turn = [m for m in new if stamp(m)["epoch"] == again.connector._log.epoch]
        assert resolved["params"]["id"] == id_
        assert resolved["params"]["reason"] == "restarted"
        assert (turn["method"], turn["params"]["state"]) == (entry.TURN, "unknown")
        assert again.agent.received("session/prompt") == []


async def test_an_agent_that_cannot_load_ends_its_old_sessions_and_keeps_their_logs(tmp_path):
    async with Running(tmp_path / "a", turns=[[{"chunks": 1}]]) as running:
        session = await running.session()
        await running.prompt(session)
    async with Running(tmp_path / "b", state=running.state) as again:
        assert again.connector.sessions[session].state == "ended"
        assert len(list(again.connector.entries(session))) == 4
        with pytest.raises(AgentUnavailable):
            again.prompt(session)


async def test_an_agent_that_lost_the_session_ends_it(tmp_path):
    async with Running(tmp_path / "a", load=[]) as running:
        session = await running.session()
    errors = {"session/load": {"code": -32002, "message": "not found"}}
    async with Running(tmp_path / "b", state=running.state, load=[], errors=errors) as again:
        end = await again.prompt(session)
        assert end.error["code"] == -32002
        assert again.connector.sessions[session].state == "ended"


async def test_entries_after_a_cursor_of_the_old_process(tmp_path):
    async with Running(tmp_path / "a", turns=[[{"chunks": 1}]], load=[]) as running:
        session = await running.session()
        await running.prompt(session)
        cursors = [cursor for cursor, _ in running.connector.entries(session)]
    async with Running(tmp_path / "b", state=running.state, load=[]) as again:
        assert [c for c, _ in again.connector.entries(session, START)] == cursors
        assert [c for c, _ in again.connector.entries(session, cursors[1])] == cursors[2:]
        beyond = Cursor(cursors[-1].epoch, cursors[-1].seq + 5)
        assert list(again.connector.entries(session, beyond)) == []
