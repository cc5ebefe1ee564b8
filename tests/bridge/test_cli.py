"""The command chimera-relay as a process: what it prints, and how it ends."""

import contextlib
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import NamedTuple

import pytest
from redis import Redis

from bridge.cli import main, seconds
from bridge.protocol.acp import Role
from bridge.tokens import Tokens

RELAY = [sys.executable, "-m", "bridge.cli"]
LISTENING = re.compile(r"relay listening on (http://127\.0\.0\.1:(\d+))\n")


@pytest.fixture
def state(tmp_path_factory):
    return tmp_path_factory.mktemp("s")


def environment(state, **settings):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BRIDGE_")}
    return {**clean, "BRIDGE_STATE_DIR": str(state), **settings}


class Done(NamedTuple):
    """What a command printed and gave."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(monkeypatch, capfd):
    """Run a command in this process, which has everything imported; as a program it takes 1 s."""
    handlers, level = logging.root.handlers[:], logging.root.level

    def run_one(state, *arguments, **settings) -> Done:
        with monkeypatch.context() as patch:
            for name, value in environment(state, **settings).items():
                patch.setenv(name, value)
            try:
                code = main(list(arguments))
            except SystemExit as ended:
                code = ended.code
        return Done(code, *capfd.readouterr())

    yield run_one
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@contextlib.contextmanager
def relay(state, *arguments, **settings):
    """A relay process; gives it with its address."""
    with (state / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [*RELAY, "serve", "--port", "0", *arguments],
            env=environment(state, **settings),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        line = process.stdout.readline()
        match = LISTENING.fullmatch(line)
        assert match, (line, (state / "stderr").read_text())
        process.url = match[1]
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def get(url, token=None, body=None):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if body is not None:
        headers |= {"Content-Type": "application/json", "Origin": url.split("/api")[0]}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data, headers), timeout=10
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


# Serving.


def test_serve_needs_nothing_prints_its_address_and_ends_in_order(state):
    with relay(state) as process:
        assert get(f"{process.url}/readyz")[0] == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    assert not (state / "running.json").exists()
    assert "Traceback" not in (state / "stderr").read_text()


def test_ctrl_c_is_an_orderly_end_too(state):
    with relay(state) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(5) == 0


def test_a_half_sent_request_does_not_hold_up_the_end(state, redis_url):
    with relay(state, BRIDGE_REDIS_URL=redis_url) as process:
        port = int(process.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as half_sent:
            half_sent.sendall(
                b"POST /api/sign-in HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"
            )
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) == 0


def test_what_was_stored_is_there_after_kill_and_start(run, state):
    with relay(state) as process:
        link = run(state, "link", "--subject", "bob").stdout.strip()
        process.kill()
        process.wait()
    with relay(state) as process:
        secret = link.partition("#signin=")[2]
        status, body = get(f"{process.url}/api/sign-in", body={"secret": secret})
    assert (status, json.loads(body)["subject"]) == (200, "bob")


def test_a_busy_port_is_named(run, state):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(state, "serve", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr == (
        f"chimera-relay: port {port} is in use on 127.0.0.1; "
        "choose another with --port or BRIDGE_PORT\n"
    )


def test_an_address_of_another_machine_is_named(run, state):
    done = run(state, "serve", "--host", "192.0.2.1", "--port", "0")
    assert done.returncode == 1
    assert "192.0.2.1 is no address of this machine" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_second_relay_on_the_same_state_is_refused_and_the_first_goes_on(run, state):
    with relay(state) as process:
        done = run(state, "serve", "--port", "0")
        assert done.returncode == 1
        assert "already running" in done.stderr
        assert "BRIDGE_STATE_DIR" in done.stderr
        assert done.stderr.count("\n") == 1
        assert get(f"{process.url}/readyz")[0] == 200


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://127.0.0.1:1/0", "redis is not reachable at redis://127.0.0.1:1/0"),
        ("redis://user:hunter2@no-such-host.invalid:6379/0", "no-such-host.invalid"),
        ("unix:///no/such/socket", "redis is not reachable at unix:///no/such/socket"),
    ],
)
def test_an_absent_redis_is_one_sentence_with_the_remedy(run, state, url, says):
    done = run(state, "serve", "--port", "0", BRIDGE_REDIS_URL=url)
    assert done.returncode == 1
    assert says in done.stderr
    assert "BRIDGE_REDIS_URL" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.stderr


def test_a_server_that_is_no_redis_is_one_sentence(run, state):
    with relay(state) as other:
        port = other.url.rpartition(":")[2]
        done = run(state, "serve", "--port", "0", BRIDGE_REDIS_URL=f"redis://127.0.0.1:{port}/0")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"127.0.0.1:{port}" in done.stderr


def test_a_read_only_redis_is_one_sentence(run, state, own_server):
    url = own_server.start()
    with Redis.from_url(url) as client:
        client.replicaof("127.0.0.1", 1)
    done = run(state, "serve", "--port", "0", BRIDGE_REDIS_URL=url)
    assert done.returncode == 1
    assert "read-only replica" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BRIDGE_PORT", "abc"),
        ("BRIDGE_REDIS_URL", "http://redis"),
        ("BRIDGE_LOG_BYTES", "1"),
        ("BRIDGE_PROT", "1"),
    ],
)
def test_a_bad_setting_stops_every_command_and_is_named(capsys, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    for command in (["serve"], ["token", "--kind", "agent", "--subject", "x"], ["link"]):
        assert main(command) == 2
        shown = capsys.readouterr()
        assert (shown.out, shown.err.count("\n")) == ("", 1)
        assert name in shown.err


@pytest.mark.parametrize(
    "arguments",
    [["serve", "--port", "abc"], ["serve", "--prot", "1"], ["serve", "--por", "1"], [], ["x"]],
    ids=str,
)
def test_a_bad_command_line_is_wrong_use(capsys, arguments):
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    said = capsys.readouterr().err
    assert said.startswith("chimera-relay")
    assert said.count("\n") == 1


def test_a_state_folder_that_cannot_be_written_is_named(run, tmp_path):
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file", "serve", "--port", "0")
    assert done.returncode == 1
    assert f"cannot use {tmp_path}/file" in done.stderr
    assert "BRIDGE_STATE_DIR" in done.stderr
    assert done.stderr.count("\n") == 1


# Tokens.


def test_token_prints_the_token_alone_and_the_relay_takes_it(run, state):
    done = run(
        state,
        *("token", "--kind", "person", "--subject", "alice", "--role", "approver"),
        *("--tenant", "acme", "--ttl", "8h"),
    )
    identity = Tokens(state / "keys").verify(done.stdout.strip(), "person")
    assert (identity.subject, identity.tenant, identity.role) == ("alice", "acme", Role.APPROVER)
    assert done.stdout.count("\n") == 1
    with relay(state) as process:
        status, body = get(f"{process.url}/api/me", done.stdout.strip())
    assert (status, json.loads(body)["role"]) == (200, "approver")


def test_a_token_with_a_refresh_token_is_printed_as_json(run, state, redis_url):
    who = ("--kind", "agent", "--subject", "build-03", "--refresh")
    done = run(state, "token", *who, BRIDGE_REDIS_URL=redis_url)
    printed = json.loads(done.stdout)
    assert Tokens(state / "keys").verify(printed["token"], "agent").subject == "build-03"
    with relay(state, BRIDGE_REDIS_URL=redis_url) as process:
        body = {"refreshToken": printed["refreshToken"]}
        statuses = [get(f"{process.url}/api/tokens/refresh", body=body)[0] for _ in range(2)]
    assert statuses == [200, 401]


def test_a_token_that_was_revoked_on_the_command_line_is_listed_as_that_and_lets_nobody_in(
    run, state, redis_url
):
    store = {"BRIDGE_REDIS_URL": redis_url}
    who = ("--kind", "person", "--subject", "alice", "--tenant", "default")
    token = run(state, "token", *who, **store).stdout.strip()
    with relay(state, **store) as process:
        assert get(f"{process.url}/api/tokens", token)[0] == 200
        id_ = Tokens(state / "keys").verify(token, "person").token_id
        assert f"{id_}  person  alice  until" in run(state, "tokens", "list", **store).stdout
        assert id_ in run(state, "tokens", "revoke", token, **store).stdout
        end = time.monotonic() + 5
        while get(f"{process.url}/api/me", token)[0] == 200:
            assert time.monotonic() < end
    assert f"{id_}  person  alice  revoked" in run(state, "tokens", "list", **store).stdout


def test_an_agents_token_needs_no_role(state, capsys, monkeypatch):
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(state))
    assert main(["token", "--kind", "agent", "--subject", "build-03"]) == 0
    token = capsys.readouterr().out.strip()
    assert Tokens(state / "keys").verify(token, "agent").subject == "build-03"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--kind", "robot", "--subject", "x"], "robot"),
        (["--kind", "agent", "--subject", "x", "--role", "admin"], "an agent has none"),
        (["--kind", "person"], "--subject"),
        (["--kind", "agent", "--subject", "x", "--refresh", "--ttl", "8h"], "without --refresh"),
        (["--kind", "person", "--subject", "x", "--ttl", "8"], "'8' is no lifetime"),
        (["--kind", "person", "--subject", "x", "--ttl", "0s"], "'0s' is no lifetime"),
        (["--kind", "person", "--subject", "x", "--ttl", "500d"], "400 days"),
        (["--kind", "person", "--subject", "x", "--role", "root"], "root"),
        (["--kind", "person", "--subject", "x", "--tenant", "A"], "invalid tenant 'A'"),
        (["--kind", "person", "--subject", "", "--tenant", "a"], "invalid subject"),
    ],
    ids=str,
)
def test_a_token_that_cannot_be_is_wrong_use(state, capsys, monkeypatch, arguments, says):
    monkeypatch.setenv("BRIDGE_STATE_DIR", str(state))
    try:
        code = main(["token", *arguments])
    except SystemExit as ended:
        code = ended.code
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert says in shown.err


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90), ("15m", 900), ("8h", 28_800), ("30d", 2_592_000)]
)
def test_a_lifetime_is_read_with_its_unit(text, expected):
    assert seconds(text) == expected


# Links.


def test_link_signs_in_while_the_relay_runs_with_its_own_store(run, state):
    with relay(state, "--link") as process:
        printed = process.stdout.readline()
        shown = run(state, "link", "--role", "viewer", "--subject", "carol", "--tenant", "acme")
        assert shown.returncode == 0
        links = [printed.split()[-1], shown.stdout.strip()]
        for link, role in zip(links, ("admin", "viewer"), strict=True):
            url, _, secret = link.partition("/#signin=")
            assert url == process.url
            status, body = get(f"{url}/api/sign-in", body={"secret": secret})
            assert (status, json.loads(body)["role"]) == (200, role)


def test_link_works_with_a_redis_elsewhere_and_shows_the_public_address(run, state, redis_url):
    settings = {"BRIDGE_REDIS_URL": redis_url, "BRIDGE_PUBLIC_URL": "https://relay.example"}
    shown = run(state, "link", **settings)
    assert shown.stdout.startswith("https://relay.example/#signin=")


def test_link_without_a_relay_says_what_to_do(run, state):
    done = run(state, "link")
    assert done.returncode == 1
    assert "chimera-relay serve" in done.stderr
    assert done.stderr.count("\n") == 1


# Keys.


def test_keys_rotate_and_retire_while_the_relay_runs(run, state):
    with relay(state) as process:
        old = run(state, "token", "--kind", "person", "--subject", "a", "--role", "viewer").stdout
        assert run(state, "keys", "rotate").returncode == 0
        new = run(state, "token", "--kind", "person", "--subject", "a", "--role", "viewer").stdout
        assert run(state, "keys", "list").stdout == "1\n2 (signs)\n"
        assert run(state, "keys", "retire", "1").returncode == 0
        for token, wanted in ((new, 200), (old, 401)):
            while get(f"{process.url}/api/me", token.strip())[0] != wanted:
                time.sleep(0.02)  # a process looks once a second


@pytest.mark.parametrize("arguments", [("retire",), ("rotate", "1"), ("retire", "1")])
def test_a_wrong_use_of_keys_is_said(run, state, arguments):
    done = run(state, "keys", *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


# The audit.


def test_a_record_removed_by_hand_is_found_by_audit_verify(run, state, redis_url):
    settings = {"BRIDGE_REDIS_URL": redis_url}
    with relay(state, "--link", **settings) as process:
        secret = process.stdout.readline().split()[-1].partition("/#signin=")[2]
        get(f"{process.url}/api/sign-in", body={"secret": secret})
        process.terminate()  # it seals what it wrote before it ends
        process.wait()
    exported = run(state, "audit", "export", **settings)
    assert json.loads(exported.stdout)["event"] == "sign_in"
    fine = run(state, "audit", "verify", **settings)
    assert fine.returncode == 0
    assert "unbroken; records: 1, seals: 1\n" in fine.stdout
    with Redis.from_url(redis_url) as redis:
        redis.delete("b:{default}:audit")
    broken = run(state, "audit", "verify", **settings)
    assert broken.returncode == 1
    assert "is gone" in broken.stdout


def test_audit_names_a_tenant_that_cannot_be_one(run, state, redis_url):
    done = run(state, "audit", "verify", "--tenant", "A B", BRIDGE_REDIS_URL=redis_url)
    assert done.returncode == 2
    assert "invalid tenant 'A B'" in done.stderr


# Doctor.


def test_doctor_is_content_with_a_relay_that_runs_and_with_none(run, state):
    alone = run(state, "doctor", BRIDGE_PORT="0")
    with relay(state) as process:
        port = process.url.rpartition(":")[2]
        beside = run(state, "doctor", BRIDGE_PORT=port)
    for done, port_says in ((alone, "0 is free"), (beside, f"runs at {process.url}")):
        lines = done.stdout.splitlines()
        assert [line.split()[1] for line in lines] == [
            "settings:",
            "keys:",
            "store:",
            "port:",
            "page:",
        ]
        assert all(line.startswith("ok") for line in lines[:4]), done.stdout
        assert port_says in lines[3]
        assert done.returncode == (0 if lines[4].startswith("ok") else 1)


def test_doctor_names_what_fails_with_the_remedy(run, state):
    run(state, "token", "--kind", "agent", "--subject", "x")
    (state / "keys" / "1.pem").chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run(
            state,
            "doctor",
            BRIDGE_PORT=str(taken.getsockname()[1]),
            BRIDGE_REDIS_URL="redis://127.0.0.1:1/0",
        )
    assert done.returncode == 1
    fails = {line.split()[1]: line for line in done.stdout.splitlines() if line.startswith("FAILS")}
    assert "chmod 600" in fails["keys:"]
    assert "BRIDGE_REDIS_URL" in fails["store:"]
    assert "--port" in fails["port:"]


# Logs.


@pytest.mark.parametrize("style", ["plain", "json"])
def test_no_secret_and_no_forged_line_reaches_the_log(state, style):
    planted = []
    with relay(state, BRIDGE_LOG_FORMAT=style, BRIDGE_LOG_LEVEL="debug") as process:
        token = Tokens(state / "keys").issue("person", "alice", "acme", Role.ADMIN)
        planted += [token.split(".")[2], "Sekret-1", "Sekret-2", "Sekret-3", "Sekret-4"]
        get(f"{process.url}/api/me?token={token}")
        get(f"{process.url}/api/me?ticket=Sekret-1")
        get(f"{process.url}/api/sessions/{token}")
        get(f"{process.url}/api/me", "Sekret-2")
        get(f"{process.url}/api/sign-in", body={"secret": "Sekret-3"})
        get(f"{process.url}/api/sessions/a%0d%0a2026%20error%20forged%1b%5b2J%e2%80%a8x")
        get(f"{process.url}/api/sessions/x?password=Sekret-4")
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    log = (state / "stderr").read_text()
    assert [secret for secret in planted if secret in log] == []
    lines = log.splitlines()
    assert len(lines) >= 7
    if style == "json":
        assert all(json.loads(line)["level"] for line in lines)
    else:
        assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z \w+ [\w.]+: ", line) for line in lines)


# Help.


def test_help_lists_only_what_there_is_and_loads_nothing_heavy(run):
    script = (
        "import sys; from bridge.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'fastapi', 'redis', 'pydantic', 'uvicorn', 'jwt', 'msgspec'} & set(sys.modules)\n"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for command in ("serve", "token", "link", "doctor"):
        assert f"  {command} " in done.stdout
