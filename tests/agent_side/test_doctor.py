import asyncio
import json
import os
import ssl
import subprocess
import sys

import pytest

from agent_side import lan
from agent_side.doctor import examine
from agent_side.settings import RelayTarget


def found(findings):
    return {finding.what: finding for finding in findings}


def doctor(*arguments, **env):
    return subprocess.run(
        [sys.executable, "-m", "agent_side.cli", "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **env},
        timeout=60,
    )


def test_agents_are_listed_with_the_line_that_installs_them(tmp_path):
    done = doctor("--json", PATH="/nowhere", CHIMERA_BRIDGE_STATE_DIR=str(tmp_path))
    by_name = {one["what"]: one for one in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0
    assert by_name["agent claude"]["sentence"] == "not installed"
    assert by_name["agent claude"]["remedy"].startswith("install: npm install")
    assert by_name["agent demo"]["remedy"] == ""
    assert str(tmp_path) in by_name["state"]["sentence"]


def test_a_state_folder_that_cannot_be_written_fails():
    done = doctor(CHIMERA_BRIDGE_STATE_DIR="/proc/nothing")
    assert done.returncode == 1
    assert "FAILS state: /proc/nothing" in done.stdout


async def test_a_name_that_does_not_resolve_stops_at_dns():
    findings = found(await examine(RelayTarget("wss://no-such-host.invalid")))
    assert not findings["relay dns"].fine
    assert "relay tcp" not in findings


async def test_a_closed_port_stops_at_tcp():
    findings = found(await examine(RelayTarget("ws://127.0.0.1:1")))
    assert findings["relay dns"].fine
    assert not findings["relay tcp"].fine
    assert "relay tls" not in findings


@pytest.fixture
async def tls_port(tmp_path):
    made = lan.certificate_for("127.0.0.1", tmp_path / "tls")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(made.certificate, made.key)
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

    async def serve(reader, writer):
        if await reader.readline():
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=serving)
    yield server.sockets[0].getsockname()[1], made
    server.close()


async def test_an_unknown_certificate_stops_at_tls_and_names_ca(tls_port):
    port, _ = tls_port
    findings = found(await examine(RelayTarget(f"wss://127.0.0.1:{port}")))
    assert not findings["relay tls"].fine
    assert "--ca" in findings["relay tls"].remedy


async def test_something_that_is_no_relay_stops_at_the_upgrade(tls_port):
    port, made = tls_port
    findings = found(await examine(RelayTarget(f"wss://127.0.0.1:{port}", ca=made.authority)))
    assert findings["relay tls"].fine
    assert findings["relay upgrade"].sentence == "HTTP 404"
