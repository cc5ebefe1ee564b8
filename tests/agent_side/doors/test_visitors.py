import contextlib
import signal

from fakes.running import Running

from agent_side import visitors
from agent_side.folder import StateFolder
from agent_side.side_door import knock

SAYS = {
    "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}
}


async def test_a_second_editor_is_served_by_the_connector_that_runs(start, tmp_path):
    async with start(turns=[[SAYS]]) as first:
        await first.hello()
        session = await first.new(tmp_path)
        async with start() as second:
            await second.hello()
            listed = await second.call("session/list")
            await second.call("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            await second.answer(second.prompt(session, "hi"))
            assert [one["sessionId"] for one in listed["sessions"]] == [session]
            assert second.text() == "hello"
            await first.until(lambda m: "hello" in str(m))
            assert await second.leave() == 0
        assert (await first.call("session/list"))["sessions"]


async def test_an_editor_that_started_the_connector_may_leave_before_the_others(start, tmp_path):
    async with start() as first:
        await first.hello()
        async with start() as second:
            await second.hello()
            first.process.stdin.close()
            session = await second.new(tmp_path)
            await second.answer(second.prompt(session, "hi"))
            assert second.text() == "done"
            assert first.process.returncode is None
            await second.leave()


async def test_an_editor_whose_process_is_killed_ends_its_prompts_alone(start, tmp_path):
    waits = [{"until_cancel": True}]
    async with start(turns=[waits]) as first:
        await first.hello()
        session = await first.new(tmp_path)
        async with start() as second:
            await second.hello()
            await second.call("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            second.prompt(session, "hi")
            await first.until(lambda m: "hi" in str(m))
            second.process.send_signal(signal.SIGKILL)
            await second.process.wait()
        again = first.prompt(session, "more")
        assert (await first.answer(again))["stopReason"] == "end_turn"


async def test_a_ninth_editor_is_told_that_there_are_too_many(tmp_path):
    async with Running(tmp_path) as running, contextlib.AsyncExitStack() as stack:
        folder = running.state / "fake"
        await running.until((folder / "side_door.json").exists)
        for _ in range(visitors.AT_MOST - 1):
            talk = await stack.enter_async_context(knock(folder, visitors.WISH))
            assert await talk.heard() == {"serving": True}
        one_more = await stack.enter_async_context(knock(folder, visitors.WISH))
        assert "8 editors" in (await one_more.heard())["error"]


async def test_a_folder_that_is_let_go_in_time_is_taken(tmp_path):
    holder = StateFolder(tmp_path / "t")
    holder.open()
    assert StateFolder(tmp_path / "t").is_held()
    holder.close()
    assert not StateFolder(tmp_path / "t").is_held()
    assert await visitors.visit(tmp_path / "t", None) is None
