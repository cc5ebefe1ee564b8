"""The way to the relay: it comes back from every cut and accepts every last word."""

import json
import logging
import socket
import time
from http import HTTPStatus

import pytest
from fakes.relay import FakeRelay
from fakes.running import Running, asks, stamp

from agent_side import link, uplink
from agent_side.settings import RelayTarget
from agent_side.uplink import Backoff
from bridge.protocol import entry
from bridge.protocol import uplink as wire

ALONE = {"kind": "user_message_chunk"}  # such pieces are never joined


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    """Reconnect soon; the length of the wait has a test of its own."""
    monkeypatch.setattr(uplink, "LONGEST_DELAY_SECONDS", 0.02)


def numbers(relay, session):
    return [stamp(m)["seq"] for m in relay.messages(session)]


async def test_the_greeting_says_who_is_there(tmp_path):
    modes = {"currentModeId": "plan", "availableModes": [{"id": "plan"}, {"id": "yolo"}]}
    async with (
        FakeRelay() as relay,
        Running(tmp_path, relay=relay, new={"modes": modes}) as running,
    ):
        session = await relay.new_session(running.work)
        relay.tear()
        hello = await relay.attached(2)
        [agent], [card] = hello.agents, hello.sessions
        assert (agent.id, agent.title, agent.alive) == (card.agent, "Fake Agent", True)
        assert agent.roots == [str(running.work)]
        assert agent.modes == ["plan"]
        assert (card.session_id, card.modes) == (session, modes)
        assert hello.mail.journaled == 1
        assert hello.epoch == relay.hellos[0].epoch
        assert hello.writer == relay.hellos[0].writer
        assert relay.headers[0]["Authorization"] == "Bearer good"
        assert relay.headers[0]["Sec-WebSocket-Protocol"] == wire.SUBPROTOCOL
        assert "Sec-WebSocket-Extensions" not in relay.headers[0]


async def test_the_first_session_tells_at_once_which_modes_may_be_set(tmp_path):
    modes = {"currentModeId": "plan", "availableModes": [{"id": "plan"}, {"id": "yolo"}]}
    async with (
        FakeRelay() as relay,
        Running(tmp_path, relay=relay, new={"modes": modes}) as running,
    ):
        await relay.new_session(running.work)
        cards = await relay.until(lambda: [p for m, p in relay.told if m == wire.AGENT])
        assert cards[-1]["modes"] == ["plan"]
        assert len(relay.hellos) == 1


async def test_entries_reach_the_relay_as_the_doors_got_them(tmp_path):
    steps = [{"chunks": 20}]
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[steps]) as running:
        session = await relay.new_session(running.work)
        await running.prompt(session)
        await relay.until(lambda: relay.turns(session)[-1:] == ["ended"])
        assert relay.messages(session) == running.entries(session)


async def test_a_huge_output_is_shortened_on_its_way_and_given_when_asked_for(tmp_path):
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawOutput": "x" * 200_000}
    steps = [{"update": update}]
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[steps]) as running:
        session = await relay.new_session(running.work)
        await running.prompt(session)
        await relay.until(lambda: relay.turns(session)[-1:] == ["ended"])
        assert max(len(text) for _, text in relay.entries[session]) < 10_000
        (short,) = [m for m in relay.messages(session) if "full" in stamp(m)]
        text = await full_text(relay, session, stamp(short), limit=50_000)
        assert len(text.encode()) == stamp(short)["full"]["bytes"]
        assert json.loads(text) in running.entries(session)


@pytest.mark.parametrize("size", [3 << 20, 48 << 20])
async def test_no_line_of_an_agent_is_too_long_for_the_connection(tmp_path, size):
    """B21."""
    huge = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "rawOutput": "é" + "x" * size}
    steps = [{"update": huge}, {"chunks": 1}]
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=[steps]) as running:
        session = await relay.new_session(running.work)
        await running.prompt(session)
        await relay.until(lambda: relay.turns(session)[-1:] == ["ended"])
        (short,) = [m for m in relay.messages(session) if "full" in stamp(m)]
        whole = stamp(short)["full"]["bytes"]
        begun = time.perf_counter()
        piece = await ask_history(relay, session, at=cursor(stamp(short)), offset=whole - 100_001)
        print(f"a line of {whole:,} bytes: its last piece in {time.perf_counter() - begun:.3f} s")
        assert (piece["size"], piece["next"]) == (whole, None)
        assert len(relay.hellos) == 1
        assert relay.repeats == 0


async def test_a_piece_of_what_is_not_there_is_refused(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay) as running:
        session = await relay.new_session(running.work)
        await running.prompt(session)
        await relay.until(lambda: relay.turns(session)[-1:] == ["ended"])
        last = cursor(stamp(relay.messages(session)[-1]))
        for wrong in ({"at": "1:1"}, {"at": last, "offset": -1}, {"at": last, "limit": "x"}):
            relay.request(4, wire.HISTORY, {"sessionId": session, **wrong})
            assert "error" in await relay.until(lambda: relay.answers.pop(4, None))


async def ask_history(relay, session, **params):
    relay.request(9, wire.HISTORY, {"sessionId": session, **params})
    return (await relay.until(lambda: relay.answers.pop(9, None)))["result"]


async def full_text(relay, session, meta, **params):
    """Ask for an entry piece by piece."""
    text, offset = "", 0
    while offset is not None:
        piece = await ask_history(relay, session, at=cursor(meta), offset=offset, **params)
        text += piece["text"]
        offset = piece["next"]
    return text


def cursor(meta):
    return f"{meta['epoch']}:{meta['seq']}"


async def test_older_pages_of_the_journal_are_given(tmp_path):
    async with (
        FakeRelay() as relay,
        Running(tmp_path, relay=relay, turns=[[{"chunks": 9}]]) as running,
    ):
        session = await relay.new_session(running.work)
        await running.prompt(session)
        relay.request(1, wire.HISTORY, {"sessionId": session, "limit": 4})
        page = (await relay.until(lambda: relay.answers.get(1)))["result"]
        assert [stamp(m)["seq"] for m in page["entries"]] == [9, 10, 11, 12]
        assert page["more"] is True
        relay.request(2, wire.HISTORY, {"sessionId": session, "before": page["first"]})
        rest = (await relay.until(lambda: relay.answers.get(2)))["result"]
        assert [stamp(m)["seq"] for m in rest["entries"]] == list(range(1, 9))
        for bad in ({"sessionId": "none"}, {"sessionId": session, "before": "x"}):
            relay.request(3, wire.HISTORY, bad)
            assert "error" in await relay.until(lambda: relay.answers.pop(3, None))


@pytest.mark.parametrize("cut", range(0, 45, 4))
async def test_a_cut_at_any_point_loses_and_doubles_nothing(tmp_path, cut):
    """B01, B02."""
    async with FakeRelay() as relay:
        relay.cut_after = cut
        steps = [{"chunks": 40, **ALONE}]
        async with Running(tmp_path, relay=relay, turns=[steps]) as running:
            session = await relay.new_session(running.work)
            await running.prompt(session)
            await relay.until(lambda: relay.turns(session)[-1:] == ["ended"])
            assert numbers(relay, session) == list(range(1, 44))
            assert relay.messages(session) == running.entries(session)


async def test_a_hole_is_filled_when_the_relay_says_so(tmp_path):
    """B10."""
    async with FakeRelay() as relay:
        relay.loses = {5, 9, 60}
        steps = [{"chunks": 50, **ALONE}]
        async with Running(tmp_path, relay=relay, turns=[steps]) as running:
            session = await relay.new_session(running.work)
            await running.prompt(session)
            await relay.until(lambda: relay.turns(session)[-1:] == ["ended"])
            assert numbers(relay, session) == list(range(1, 54))


async def test_what_happens_while_the_relay_is_away_follows_when_it_is_back(tmp_path):
    async with FakeRelay() as relay:
        steps = [{"chunks": 30, **ALONE}, asks()]
        async with Running(tmp_path, relay=relay, turns=[steps]) as running:
            session = await relay.new_session(running.work)
            await relay.stop()
            running.prompt(session)
            [id_] = await running.asked()
            status = running.connector.status()
            assert status["state"] in ("attached", "disconnected")
            await relay.start()
            hello = await relay.attached(2)
            assert hello.open == [id_]
            [question] = await relay.until(relay.questions)
            assert question["id"] == id_
            assert numbers(relay, session) == list(range(1, 34))


async def test_nothing_is_sent_beyond_the_window(tmp_path):
    async with FakeRelay() as relay:
        relay.acknowledges = False
        relay.limits = {"windowEntries": 10}
        steps = [{"chunks": 50, **ALONE}]
        async with Running(tmp_path, relay=relay, turns=[steps]) as running:
            session = await relay.new_session(running.work)
            await running.prompt(session)
            await relay.until(lambda: relay.heard == 10)
            relay.notify(wire.ACK, relay._stored(session))
            await relay.until(lambda: relay.heard == 20)


async def test_a_relay_that_lost_everything_is_refilled_over_epochs(tmp_path):
    async with Running(tmp_path / "a", turns=[[{"chunks": 5}]], load=[]) as running:
        session = await running.session()
        await running.prompt(session)
    more = {"state": running.state, "load": [], "turns": [[{"chunks": 5}]]}
    async with FakeRelay() as relay, Running(tmp_path / "b", relay=relay, **more) as again:
        await again.prompt(session)
        await relay.until(lambda: relay.turns(session) == ["started", "ended", *RESUMED])
        cursors = [cursor for cursor, _ in relay.entries[session]]
        assert cursors == [cursor for cursor, _ in again.connector.entries(session)]


RESUMED = ["queued", "started", "ended"]


async def test_questions_of_a_crashed_process_are_closed_at_the_relay_first(tmp_path):
    async with FakeRelay() as relay:
        more = {"relay": relay, "load": []}
        async with Running(tmp_path / "a", turns=[[asks()]], **more) as running:
            session = await relay.new_session(running.work)
            relay.send_mail("session/prompt", prompt(session), "m-1")
            await relay.until(relay.questions)
            image = running.crash_image(tmp_path / "image")
            relay.tear()
            running.connector._envoy.uplink._target = RelayTarget("ws://127.0.0.1:1", token="x")
        async with Running(tmp_path / "b", state=image, **more) as again:
            done = await relay.outcome("m-1")
            assert done.error["data"]["reason"] == "unknown_outcome"
            await relay.until(lambda: relay.questions() == [])
            new = [m for m in relay.messages(session) if stamp(m)["epoch"] == epoch(again)]
            assert new[0]["params"]["reason"] == "restarted"
            assert new[1]["params"]["state"] == "unknown"
            assert again.agent.received("session/prompt") == []


def prompt(session, text="go"):
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


def epoch(running):
    return running.connector._folder.epoch


# Mail.


async def test_a_prompt_by_mail_runs_once_however_often_it_comes(tmp_path):
    """B05, B07."""
    steps = [[{"chunks": 1}], [{"chunks": 1, "text": "twice"}]]
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, turns=steps) as running:
        session = await relay.new_session(running.work)
        relay.send_mail("session/prompt", prompt(session), "m-1")
        relay.send_mail("session/prompt", prompt(session), "m-1")
        relay.resend_mail()
        done = await relay.outcome("m-1")
        relay.resend_mail()
        relay.tear()
        await relay.attached(2)
        relay.send_mail("session/cancel", {"sessionId": session}, "after")
        await relay.outcome("after")
        assert done.result == {"stopReason": "end_turn"}
        assert len(running.agent.received("session/prompt")) == 1
        assert relay.turns(session) == ["started", "ended"]
        [said] = [m for m in relay.messages(session) if "user_message" in json.dumps(m)]
        assert stamp(said)["mailId"] == "m-1"
        assert stamp(said)["origin"]["subject"] == "alice"


async def test_mail_is_acknowledged_and_its_outcome_told_again_after_a_cut(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay) as running:
        session = await relay.new_session(running.work)
        relay.send_mail("session/prompt", prompt(session), "m-1")
        await relay.outcome("m-1")
        assert (wire.MAIL_JOURNALED, {"upTo": 2}) in relay.told
        relay.told.clear()
        relay.tear()
        await relay.outcome("m-1")
        assert relay.hellos[-1].mail.journaled == 2


async def test_a_prompt_that_waited_in_the_mail_runs_after_a_crash(tmp_path):
    turns = {"first": [asks()], "second": [{"chunks": 1, "text": "second"}]}
    async with FakeRelay() as relay:
        more = {"relay": relay, "load": [], "turns_by_text": turns}
        async with Running(tmp_path / "a", **more) as running:
            session = await relay.new_session(running.work)
            relay.send_mail("session/prompt", prompt(session, "first"), "m-1")
            relay.send_mail("session/prompt", prompt(session, "second"), "m-2")
            await relay.until(relay.questions)
            await relay.until(lambda: "queued" in relay.turns(session))
            image = running.crash_image(tmp_path / "image")
            running.connector._envoy.uplink._target = RelayTarget("ws://127.0.0.1:1", token="x")
            relay.tear()
        async with Running(tmp_path / "b", state=image, **more) as again:
            assert (await relay.outcome("m-2")).error is None
            sent = [p["prompt"][0]["text"] for p in again.agent.received("session/prompt")]
            assert sent == ["second"]
            turns = relay.messages(session, entry.TURN)
            mine = [t["params"] for t in turns if t["params"].get("mailId") == "m-2"]
            assert [t["state"] for t in mine] == ["queued", "started", "ended"]
            assert len({t["turn"] for t in mine}) == 1


@pytest.mark.attack("E13", "modes and options that ask less, from afar")
async def test_mail_outside_the_owner_s_limits_is_refused(tmp_path):
    modes = {"currentModeId": "plan", "availableModes": [{"id": "plan"}, {"id": "yolo"}]}
    options = [{"id": "unsafe", "options": [{"value": "on"}]}, {"id": "m", "category": "model"}]
    new = {"modes": modes, "configOptions": options}
    async with FakeRelay() as relay, Running(tmp_path, relay=relay, new=new) as running:
        session = await relay.new_session(running.work)
        mode = {"sessionId": session, "modeId": "yolo"}
        option = {"sessionId": session, "configId": "unsafe", "value": "on"}
        for number, (method, params, reason) in enumerate(
            [
                ("session/set_mode", mode, "not_allowed"),
                ("session/set_config_option", option, "not_allowed"),
                ("session/new", {"cwd": "/"}, "cwd_not_allowed"),
                ("session/new", {"cwd": str(running.work / "..")}, "cwd_not_allowed"),
                ("session/load", {"sessionId": session}, "method_not_found"),
                ("fs/write_text_file", {"path": "/x"}, "method_not_found"),
                ("session/prompt", {"sessionId": "none", "prompt": []}, "not_found"),
                ("session/prompt", {"sessionId": session, "prompt": "text"}, "invalid_params"),
                ("session/prompt", {"prompt": []}, "invalid_params"),
                ("_bridge/decide", {"id": 5}, "invalid_params"),
            ]
        ):
            relay.send_mail(method, params, f"x-{number}")
            done = await relay.outcome(f"x-{number}")
            assert done.error["data"]["reason"] == reason, method
        relay.send_mail("session/set_mode", {**mode, "modeId": "plan"}, "ok")
        assert (await relay.outcome("ok")).error is None
        assert [p["modeId"] for p in running.agent.received("session/set_mode")] == ["plan"]


async def test_mcp_servers_from_afar_are_dropped(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay) as running:
        servers = [{"name": "x", "command": "sh", "args": ["-c", "x"]}]
        params = {"cwd": str(running.work), "mcpServers": servers}
        relay.send_mail("session/new", params, "m")
        await relay.outcome("m")
        assert running.agent.received("session/new") == [
            {"cwd": str(running.work), "mcpServers": []}
        ]


async def test_mail_that_comes_too_late_is_refused(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay) as running:
        session = await relay.new_session(running.work)
        relay.send_mail("session/prompt", prompt(session), "m", not_after=1)
        done = await relay.outcome("m")
        assert done.error["data"]["reason"] == "mail_expired"
        assert running.agent.received("session/prompt") == []


@pytest.mark.parametrize("ahead_ms", [3_600_000, -3_600_000])
async def test_a_mail_s_end_is_told_by_the_relay_s_clock(tmp_path, ahead_ms):
    """R21."""
    async with FakeRelay() as relay:
        relay.ahead_ms = ahead_ms
        async with Running(tmp_path, relay=relay, turns=[[{"chunks": 1}]]) as running:
            session = await relay.new_session(running.work)
            now = time.time_ns() // 1_000_000 + ahead_ms
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
            relay.send_mail("session/prompt", prompt, "m-late", not_after=now - 1_000)
            relay.send_mail("session/prompt", prompt, "m-good", not_after=now + 60_000)
            assert (await relay.outcome("m-late")).error is not None
            assert (await relay.outcome("m-good")).error is None
            assert len(running.agent.received("session/prompt")) == 1


async def test_a_cancel_does_not_wait_behind_a_prompt(tmp_path):
    async with (
        FakeRelay() as relay,
        Running(tmp_path, relay=relay, turns=[[{"until_cancel": True}]]) as running,
    ):
        session = await relay.new_session(running.work)
        relay.send_mail("session/prompt", prompt(session), "m-1")
        await relay.until(lambda: relay.turns(session))
        relay.send_mail("session/cancel", {"sessionId": session}, "m-2")
        assert (await relay.outcome("m-1")).result["stopReason"] == "cancelled"


# Status.


async def test_who_watches_is_told_to_the_doors(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay) as running:
        session = await relay.new_session(running.work)
        watcher = {"subject": "alice", "role": "approver", "device": "pixel", "visible": True}
        relay.notify(wire.PRESENCE, {"sessionId": session, "watching": [watcher]})
        await running.until(lambda: running.connector.status()["watching"])
        status = running.connector.status(session)
        assert status["watching"] == [watcher]
        assert (status["state"], status["reason"]) == ("attached", "ok")
        assert status["relay"] == relay.url
        assert isinstance(status["roundTripMs"], int)
        assert status["lastSeen"] >= status["since"]


async def test_a_silent_relay_is_given_up(tmp_path, monkeypatch):
    """C06, C07."""
    monkeypatch.setattr(wire, "PING_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(wire, "DEAD_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(link, "TICK_SECONDS", 0.01)
    async with FakeRelay() as relay:
        relay.answers_pings = False
        async with Running(tmp_path, relay=relay) as running:
            await relay.attached(2)
            assert running.connector.status()["reason"] in ("ok", "pong_missed")


async def test_a_relay_that_answers_pings_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(wire, "PING_AFTER_SECONDS", 0.02)
    monkeypatch.setattr(link, "TICK_SECONDS", 0.01)
    async with FakeRelay() as relay, Running(tmp_path, relay=relay) as running:
        await relay.attached()
        running.connector._status.round_trip_ms = None
        await running.until(lambda: running.connector.status()["roundTripMs"] is not None)
        assert len(relay.hellos) == 1


async def test_goodbye_is_said_after_everything_else(tmp_path):
    async with FakeRelay() as relay:
        async with Running(tmp_path, relay=relay, turns=[[asks()]]) as running:
            session = await relay.new_session(running.work)
            running.prompt(session)
            await relay.until(relay.questions)
        assert relay.told[-1] == (wire.GOODBYE, {"reason": "said_goodbye"})
        assert relay.questions() == []
        assert relay.turns(session)[-1] == "ended"


# Last words.


@pytest.mark.attack("E02", "refused credentials: the connector stops")
@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (HTTPStatus.UNAUTHORIZED, 3, "does not take the token"),
        (HTTPStatus.FORBIDDEN, 3, "does not allow"),
        (HTTPStatus.UPGRADE_REQUIRED, 1, "update chimera-bridge"),
    ],
)
async def test_a_refused_upgrade_ends_the_connector(tmp_path, status, code, words):
    async with FakeRelay() as relay:
        relay.status = status
        async with Running(tmp_path, relay=relay) as running:
            reason = await running.task
    assert (reason.code, words in reason.sentence) == (code, True)
    assert relay.url in reason.sentence


@pytest.mark.parametrize(("close", "code"), [(4401, 3), (4403, 3), (4409, 4), (4426, 1), (4400, 1)])
async def test_a_final_close_ends_the_connector(tmp_path, close, code):
    async with FakeRelay() as relay:
        relay.closes_with = (close, "as told")
        async with Running(tmp_path, relay=relay) as running:
            assert (await running.task).code == code


async def test_an_expired_token_is_named_and_a_renewed_one_is_tried(tmp_path):
    token = tmp_path / "token"
    token.write_text("old\n")
    async with FakeRelay() as relay:
        target = {"token": "", "token_file": token}
        async with Running(tmp_path, relay=relay, target=target) as running:
            reason = await running.task
        assert "expired 4 minutes ago" in reason.sentence
        token.write_text("good\n")
        async with Running(tmp_path, relay=relay, target=target) as running:
            await relay.attached()
            relay.token = "newer"
            token.write_text("newer\n")
            await relay.close(4401, "token expired")
            await relay.attached(2)
            assert relay.headers[-1]["Authorization"] == "Bearer newer"


@pytest.mark.attack("E02", "a token that ended: no loop")
async def test_who_was_let_in_once_waits_for_another_token_and_comes_at_once(tmp_path):
    """B22, E01, E02."""
    token = tmp_path / "token"
    token.write_text("good\n")
    async with FakeRelay() as relay:
        target = {"token": "", "token_file": token}
        async with Running(tmp_path, relay=relay, target=target) as running:
            await relay.attached()
            relay.token = "newer"
            await relay.close(4401, "token expired")
            await running.until(lambda: "expired" in running.connector.status().get("detail", ""))
            token.write_text("")  # as it is for a moment where it is written in place
            token.write_text("wrong\n")
            await running.until(lambda: len(relay.headers) == 2)
            token.unlink()
            token.write_text("newer\n")
            await relay.attached(2)
            assert not running.task.done()
            sent = [h["Authorization"] for h in relay.headers]
            assert sent == [f"Bearer {t}" for t in ("good", "wrong", "newer")]


@pytest.mark.attack("E01", "a token that is renewed while it streams")
async def test_a_token_that_is_renewed_ahead_is_shown_on_the_open_connection(tmp_path):
    """E01."""
    token = tmp_path / "token"
    token.write_text("good\n")
    async with FakeRelay() as relay:
        target = {"token": "", "token_file": token}
        async with Running(tmp_path, relay=relay, target=target):
            await relay.attached()
            token.write_text("newer\n")
            await relay.until(lambda: ("uplink/token", {"token": "newer"}) in relay.told)
            assert len(relay.hellos) == 1


async def test_a_missing_token_file_is_named(tmp_path):
    async with FakeRelay() as relay:
        target = {"token_file": tmp_path / "none"}
        async with Running(tmp_path, relay=relay, target=target) as running:
            reason = await running.task
    assert (reason.code, str(tmp_path / "none") in reason.sentence) == (3, True)


async def test_an_epoch_below_the_held_one_is_raised_once(tmp_path):
    async with FakeRelay() as relay:
        held = 9_000_000_000_000
        relay.hello_error = {"code": -32015, "message": "held", "data": {"epoch": held}}
        async with Running(tmp_path, relay=relay, turns=[[{"chunks": 1}]]) as running:
            hello = await relay.attached()
            assert hello.epoch == held + 1
            session = await running.session()
            await running.prompt(session)
            await relay.until(lambda: relay.turns(session) == ["started", "ended"])
            assert {c.epoch for c, _ in relay.entries[session]} == {held + 1}
            relay.hello_error = {"code": -32015, "message": "held", "data": {"epoch": held + 5}}
            relay.tear()
            assert (await running.task).code == 4


async def test_an_unreachable_relay_is_tried_again_with_one_line(tmp_path, caplog):
    """C14, C15."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    relay = FakeRelay()
    relay.port = port
    with caplog.at_level(logging.WARNING):
        async with Running(tmp_path, relay=relay) as running:
            await running.until(lambda: running.connector.status().get("detail"))
            status = running.connector.status()
            assert (status["state"], status["reason"]) == ("disconnected", "relay_unreachable")
            await relay.start()
            await relay.attached()
            await running.until(lambda: running.connector.status()["state"] == "attached")
        await relay.stop()
    lines = [r.getMessage() for r in caplog.records if r.name == "agent_side.uplink"]
    assert len(lines) == 1
    assert "trying again" in lines[0]


async def test_an_address_that_is_no_relay_is_tried_again_and_named(tmp_path, caplog):
    async with FakeRelay() as relay:
        relay.status = HTTPStatus.NOT_FOUND
        async with Running(tmp_path, relay=relay) as running:
            await running.until(lambda: running.connector.status().get("detail"))
            relay.status = None
            await relay.attached()
    assert "HTTP 404" in caplog.text


async def test_a_hello_that_the_store_could_not_take_is_tried_again(tmp_path):
    async with FakeRelay() as relay:
        relay.hello_error = {"code": -32013, "message": "redis is not reachable"}
        async with Running(tmp_path, relay=relay):
            await relay.attached()


async def test_what_the_relay_says_wrongly_breaks_one_connection_only(tmp_path):
    async with FakeRelay() as relay, Running(tmp_path, relay=relay):
        await relay.attached()
        relay._send(b"no json")
        await relay.attached(2)
        relay.notify(wire.MAIL, {"n": "x"})
        await relay.attached(3)


def test_waits_are_at_most_as_long_as_the_relay_was_away_and_no_longer_than_a_bound(monkeypatch):
    monkeypatch.setattr(uplink, "LONGEST_DELAY_SECONDS", 30.0)
    monkeypatch.setattr(uplink.random, "uniform", lambda _low, high: high)
    times = iter([100.0, 100.2, 101.0, 104.0, 128.0, 190.0, 200.0])
    backoff = Backoff(lambda: next(times))
    assert [backoff.next() for _ in range(6)] == [0.5, 0.5, 1, 4, 28, 30]
    backoff.reset()
    assert backoff.next() == 0.5


def test_a_relay_that_greeted_and_lived_a_moment_is_tried_soon_again(monkeypatch):
    monkeypatch.setattr(uplink, "LONGEST_DELAY_SECONDS", 30.0)
    monkeypatch.setattr(uplink.random, "uniform", lambda _low, high: high)
    times = iter([100.0, 110.0, 120.0, 121.0])
    backoff = Backoff(lambda: next(times))
    assert [backoff.next(), backoff.next()] == [0.5, 10]
    backoff.lived(0.2)  # one that greets and breaks at once is no relay that works
    assert backoff.next() == 20
    backoff.lived(1.5)
    assert backoff.next() == 0.5


def test_a_full_relay_is_tried_after_what_it_says_but_not_in_step():
    backoff = Backoff()
    waits = [backoff.next(told=2.0) for _ in range(200)]
    assert min(waits) >= 2.0
    assert max(waits) <= 3.0
    assert len({round(wait, 1) for wait in waits}) > 5
