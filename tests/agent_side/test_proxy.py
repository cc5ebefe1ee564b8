"""The way to a relay through a company's proxy, with a certificate of its own authority (E12)."""

import asyncio
import base64
import contextlib
import ssl

import pytest
from fakes.relay import FakeRelay
from fakes.running import Running

from agent_side import lan

AWAY = "192.0.2.7"  # no address of this machine, nor of any: the proxy knows the way
LOGIN = "alice:hunter2"


async def pipe(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def join(reader, writer, port):
    there, away = await asyncio.open_connection("127.0.0.1", port)
    await asyncio.gather(pipe(reader, away), pipe(there, writer))


class Way:
    """A proxy that asks for a login, and behind it a server with TLS before a relay."""

    def __init__(self, relay, made) -> None:
        self.asked: list[tuple[str, str]] = []
        self._relay = relay
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(made.certificate, made.key)

    async def __aenter__(self):
        self._server = await asyncio.start_server(
            lambda r, w: join(r, w, self._relay.port), "127.0.0.1", 0, ssl=self._tls
        )
        self._proxy = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._proxy.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        for server in (self._proxy, self._server):
            server.close()

    async def _connect(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        named = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        login = named.get("Proxy-Authorization", "").removeprefix("Basic ")
        self.asked.append((lines[0], base64.b64decode(login).decode()))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await join(reader, writer, self._server.sockets[0].getsockname()[1])


@pytest.mark.attack("E12", "a proxy with a login on the way, TLS by an authority of one's own")
@pytest.mark.parametrize("how", ["SSL_CERT_FILE", "--ca"])
async def test_the_relay_is_reached_through_a_proxy_and_checked_by_its_authority(
    tmp_path, monkeypatch, how
):
    """E12."""
    made = lan.certificate_for(AWAY, tmp_path / "tls")
    async with FakeRelay() as relay, Way(relay, made) as way:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{LOGIN}@127.0.0.1:{way.port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        target = {"ca": made.authority} if how == "--ca" else {}
        if not target:
            monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
        place = type("Place", (), {"url": f"wss://{AWAY}:8443"})
        async with Running(tmp_path, relay=place, target=target) as running:
            await relay.attached()
            await running.until(lambda: running.connector.status()["state"] == "attached")
    assert way.asked == [(f"CONNECT {AWAY}:8443 HTTP/1.1", LOGIN)]


async def test_a_server_of_another_authority_is_not_told_the_token(tmp_path, monkeypatch):
    made = lan.certificate_for(AWAY, tmp_path / "tls")
    async with FakeRelay() as relay, Way(relay, made) as way:
        monkeypatch.setenv("HTTPS_PROXY", f"http://{LOGIN}@127.0.0.1:{way.port}")
        place = type("Place", (), {"url": f"wss://{AWAY}:8443"})
        async with Running(tmp_path, relay=place) as running:
            await running.until(lambda: way.asked)
            await running.until(lambda: running.connector.status()["state"] != "starting")
            assert relay.headers == []
