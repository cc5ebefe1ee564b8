"""The fan-out that anybody would write first with FastAPI: a route, a set, ``send_text``."""

from __future__ import annotations

from collections import defaultdict

from fastapi import FastAPI, WebSocket, WebSocketDisconnect

app = FastAPI()
_subscribers: defaultdict[str, set[WebSocket]] = defaultdict(set)


@app.websocket("/sub/{channel}")
async def subscribe(ws: WebSocket, channel: str) -> None:
    await ws.accept()
    _subscribers[channel].add(ws)
    try:
        while True:
            await ws.receive_text()
    except WebSocketDisconnect:
        _subscribers[channel].discard(ws)


@app.websocket("/pub/{channel}")
async def publish(ws: WebSocket, channel: str) -> None:
    await ws.accept()
    try:
        while True:
            text = await ws.receive_text()
            for subscriber in list(_subscribers[channel]):
                await subscriber.send_text(text)
    except WebSocketDisconnect:
        return
