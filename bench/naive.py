"""The fan-out that anybody would write first with FastAPI: a route, a set, ``send_text``."""

from __future__ import annotations

from fastapi import FastAPI, WebSocket, WebSocketDisconnect

app = FastAPI()
_subscribers: set[WebSocket] = set()


@app.websocket("/sub")
async def subscribe(ws: WebSocket) -> None:
    await ws.accept()
    _subscribers.add(ws)
    try:
        while True:
            await ws.receive_text()
    except WebSocketDisconnect:
        _subscribers.discard(ws)


@app.websocket("/pub")
async def publish(ws: WebSocket) -> None:
    await ws.accept()
    try:
        while True:
            text = await ws.receive_text()
            for subscriber in list(_subscribers):
                await subscriber.send_text(text)
    except WebSocketDisconnect:
        return
