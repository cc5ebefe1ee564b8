"""Before a turn a copy is kept, after it a receipt is written, and it can be undone."""

import asyncio
import subprocess

import pytest
from fakes.running import ANNA, Running, asks

from bridge.protocol.entry import RECEIPT, TURN, UNDONE, Origin
from bridge.protocol.errors import EditedLater, NotFound, UndoImpossible

KEPT = {"snapshot_mb": 100}
YES, NO = {"optionId": "yes"}, {"optionId": "no"}
BOB = Origin(subject="bob", tenant="acme", door="page")


def keeping(tmp_path, **more):
    """A connector whose agent asks once a turn, so that a test can act as the agent meanwhile."""
    return Running(tmp_path, settings=KEPT, **{"turns": [[asks()]] * 3, **more})


async def turn(running, session, act=lambda: None, answer=YES):
    """Run a turn in which ``act`` changes the folder; give its receipt."""
    before = len(running.entries(session, RECEIPT))
    ended = running.prompt(session)
    [question] = await running.asked()
    act()
    running.connector.answer(question, answer, ANNA)
    await ended
    await running.until(lambda: len(running.entries(session, RECEIPT)) > before)
    return running.entries(session, RECEIPT)[-1]["params"]


async def test_a_turn_is_undone_and_the_undo_too(tmp_path):
    async with keeping(tmp_path) as running:
        (running.work / "kept").write_text("before\n")
        session = await running.session()

        def act():
            (running.work / "kept").write_text("after\n")
            (running.work / "new").write_text("x")

        receipt = await turn(running, session, act)
        assert receipt["undo"]
        back = running.connector.way_back
        preview = await back.preview(session, receipt["turn"])
        assert [(c["path"], c["does"]) for c in preview["changes"]] == [
            ("kept", "restore"),
            ("new", "remove"),
        ]
        done = await back.undo(session, receipt["turn"], BOB, force=False)
        assert (running.work / "kept").read_text() == "before\n"
        assert not (running.work / "new").exists()
        await back.undo(session, done["undo"], ANNA, force=False)
        assert (running.work / "kept").read_text() == "after\n"
        assert (running.work / "new").read_text() == "x"
        await running.until(lambda: len(running.entries(session, UNDONE)) == 2)
        first = running.entries(session, UNDONE)[0]
        assert first["params"]["restore"] == first["params"]["remove"] == 1
        assert first["params"]["origin"]["subject"] == "bob"


async def test_a_receipt_says_what_changed_who_granted_it_and_what_nobody_asked_about(tmp_path):
    call = {"kind": "edit", "locations": [{"path": str(tmp_path / "work" / "asked")}]}
    async with keeping(tmp_path, turns=[[asks(call)]]) as running:
        (running.work / "old").write_text("1\n2\n")
        session = await running.session()

        def act():
            (running.work / "asked").write_text("a\nb\n")
            (running.work / "unasked").write_bytes(b"\0")
            (running.work / "old").unlink()

        receipt = await turn(running, session, act)
        files = receipt["files"]
        assert (files["created"], files["removed"], files["changed"]) == (2, 1, 0)
        assert files["lines"] == {"added": 2, "removed": 2}
        assert {f["path"]: f["asked"] for f in files["list"]} == {
            "asked": True,
            "old": False,
            "unasked": False,
        }
        [granted] = receipt["granted"]
        assert (granted["option"], granted["reason"]) == ("Yes", "local")
        assert granted["by"]["subject"] == ANNA.subject
        [command] = receipt["commands"]
        assert (command["command"], command["asked"]) == ("make", True)
        unseen = {one["code"]: one["text"] for one in receipt["unseen"]}
        assert unseen["unasked_changes"].startswith("2 files changed without a question")
        assert "outside" in unseen
        assert receipt["cost"] is None


async def test_a_refusal_stands_in_the_receipt(tmp_path):
    async with keeping(tmp_path) as running:
        receipt = await turn(running, await running.session(), answer=NO)
        assert receipt["granted"] == []
        assert [one["option"] for one in receipt["refused"]] == ["No"]
        assert receipt["files"]["list"] == []
        assert not receipt["undo"]


async def test_a_later_edit_is_not_lost_unless_that_is_said(tmp_path):
    async with keeping(tmp_path) as running:
        file = running.work / "file"
        file.write_text("before")
        session = await running.session()
        receipt = await turn(running, session, lambda: file.write_text("by the agent"))
        file.write_text("by a person")
        back = running.connector.way_back
        assert (await back.preview(session, receipt["turn"]))["conflicts"] == ["file"]
        with pytest.raises(EditedLater) as refused:
            await back.undo(session, receipt["turn"], ANNA, force=False)
        assert refused.value.data["conflicts"] == ["file"]
        assert file.read_text() == "by a person"
        done = await back.undo(session, receipt["turn"], ANNA, force=True)
        assert file.read_text() == "before"
        await back.undo(session, done["undo"], ANNA, force=False)
        assert file.read_text() == "by a person"


async def test_nothing_is_undone_while_a_turn_runs_or_twice_or_for_another_session(tmp_path):
    async with keeping(tmp_path) as running:
        session, other = await running.session(), await running.session()
        receipt = await turn(running, session, (running.work / "new").touch)
        back = running.connector.way_back
        ended = running.prompt(other)
        [question] = await running.asked()
        with pytest.raises(UndoImpossible) as refused:
            await back.undo(session, receipt["turn"], ANNA, force=False)
        assert refused.value.data["why"] == "turn_runs"
        assert not (await back.preview(session, receipt["turn"]))["possible"]
        running.connector.answer(question, YES, ANNA)
        await ended
        await running.until(lambda: running.entries(other, RECEIPT))
        for session_id, turn_id in ((other, receipt["turn"]), (session, "../../etc/passwd")):
            with pytest.raises(NotFound):
                await back.undo(session_id, turn_id, ANNA, force=False)
        await back.undo(session, receipt["turn"], ANNA, force=False)
        with pytest.raises(UndoImpossible) as refused:
            await back.undo(session, receipt["turn"], ANNA, force=False)
        assert refused.value.data["why"] == "undone"


async def test_turns_of_two_sessions_in_one_folder_say_that_they_share_it(tmp_path):
    async with keeping(tmp_path) as running:
        one, other = await running.session(), await running.session()
        ends = [running.prompt(one), running.prompt(other)]
        for question in await running.asked(2):
            running.connector.answer(question, YES, ANNA)
        await asyncio.gather(*ends)
        for session in (one, other):
            await running.until(lambda session=session: running.entries(session, RECEIPT))
            [receipt] = running.entries(session, RECEIPT)
            codes = {one["code"] for one in receipt["params"]["unseen"]}
            assert "shared_folder" in codes


async def test_a_turn_that_a_crash_cut_off_is_undone_by_the_next_process(tmp_path):
    async with keeping(tmp_path, capabilities={"loadSession": True}) as running:
        (running.work / "file").write_text("before")
        session = await running.session()
        running.prompt(session)
        await running.asked()
        (running.work / "file").write_text("half")
        state = running.crash_image(tmp_path / "crashed")
        after = Running(tmp_path, state=state, settings=KEPT, capabilities={"loadSession": True})
        async with after:
            await after.until(lambda: after.entries(session, RECEIPT))
            [receipt] = after.entries(session, RECEIPT)
            assert "restarted" in {one["code"] for one in receipt["params"]["unseen"]}
            assert receipt["params"]["granted"] is None
            turn_id = receipt["params"]["turn"]
            await after.connector.way_back.undo(session, turn_id, ANNA, force=False)
            assert (after.work / "file").read_text() == "before"


async def test_a_cancel_while_the_copy_is_made_ends_the_turn_before_the_agent_has_it(tmp_path):
    async with keeping(tmp_path) as running:
        session = await running.session()
        ended = running.prompt(session)
        running.connector.cancel(session, ANNA)
        assert (await ended).stop_reason == "cancelled"
        assert running.agent.received("session/prompt") == []
        states = [m["params"]["state"] for m in running.entries(session, TURN)]
        assert states == ["ended"]
        await turn(running, session)


async def test_without_git_turns_run_and_the_receipt_says_that_none_can_be_undone(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    async with keeping(tmp_path) as running:
        session = await running.session()
        receipt = await turn(running, session, (running.work / "new").touch)
        assert receipt["snapshot"]["reason"] == "git_missing"
        assert receipt["files"] is None
        assert len(receipt["granted"]) == 1
        held = {one.what: one.holds for one in running.connector.agent.guarantees}
        assert held["undo"] == "never"
        with pytest.raises(NotFound):
            await running.connector.way_back.undo(session, receipt["turn"], ANNA, force=False)


async def test_switched_off_there_is_neither_copy_nor_receipt(tmp_path):
    async with Running(tmp_path, turns=[[{"chunks": 1}]]) as running:
        session = await running.session()
        await running.prompt(session)
        assert running.entries(session, RECEIPT) == []
        assert not (running.state / "fake" / "snapshots").exists()


async def test_the_persons_own_repository_is_not_touched(tmp_path):
    def git(*arguments):
        subprocess.run(["git", *arguments], cwd=tmp_path / "work", check=True, capture_output=True)

    def own():
        files = (p for p in (tmp_path / "work" / ".git").rglob("*") if p.is_file())
        return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}

    async with keeping(tmp_path) as running:
        git("init", "--quiet")
        (running.work / "file").write_text("before\n")
        git("add", ".")
        git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "one")
        hook = running.work / ".git" / "hooks" / "post-index-change"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\ntouch ../ran\n")
        hook.chmod(0o755)
        before = own()
        session = await running.session()
        receipt = await turn(running, session, lambda: (running.work / "file").write_text("x"))
        await running.connector.way_back.undo(session, receipt["turn"], ANNA, force=False)
        assert own() == before
        assert (running.work / "file").read_text() == "before\n"
        assert "git_folder" in {one["code"] for one in receipt["unseen"]}


async def test_a_home_folder_is_not_kept_and_the_receipt_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "work"))
    async with keeping(tmp_path) as running:
        receipt = await turn(running, await running.session())
        assert receipt["snapshot"]["state"] == "none"
        assert receipt["snapshot"]["reason"] == "too_large"
        assert "home folder" in receipt["snapshot"]["text"]
