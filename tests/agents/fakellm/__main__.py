"""Serves the scripted LLM on a free port of 127.0.0.1 and prints the address."""

import argparse
import asyncio
import json
import socket

import uvicorn
from agents.fakellm import anthropic, chat, gemini, responses
from agents.fakellm.script import Script, fill, patch
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

MODELS = ("rig-model", "claude-sonnet-4-6", "gpt-5")


def make_app(script):
    app = FastAPI()

    @app.post("/v1/messages/count_tokens")
    async def count_tokens():
        return {"input_tokens": 100}

    @app.post("/v1/messages")
    async def messages(request: Request):
        req = await request.json()
        answer = script.answer(*anthropic.read(req))
        return reply(req, answer, anthropic.FAILURE, *anthropic.write(req, answer))

    @app.post("/v1/chat/completions")
    async def completions(request: Request):
        req = await request.json()
        answer = script.answer(*chat.read(req))
        return reply(req, answer, chat.FAILURE, *chat.write(req, answer))

    @app.post("/v1/responses")
    async def respond(request: Request):
        req = await request.json()
        asked = responses.read(req)
        answer = script.answer(*asked)
        written = responses.write(req, answer, patch(script.of(asked[2])))
        return reply(req, answer, responses.FAILURE, *written)

    @app.post("/{version}/models/{model}:{method}")
    async def generate(model: str, method: str, request: Request):
        req = await request.json()
        if method == "countTokens":
            return {"totalTokens": 100}
        asked = gemini.read(req)
        answer = script.answer(*asked)
        if schema := gemini.wanted_schema(req):
            answer.pieces = [json.dumps(fill(schema, script.of(asked[2])))]
        failure = {"error": {"code": answer.fail, "message": "rig says no", "status": "INTERNAL"}}
        streamed = {"stream": method != "generateContent"}
        return reply(streamed, answer, failure, *gemini.write(model, answer))

    @app.get("/v1/models")
    async def models():
        made = {"object": "model", "type": "model", "created": 0, "owned_by": "rig"}
        return {"object": "list", "data": [{"id": m, **made} for m in MODELS], "has_more": False}

    @app.api_route("/{path:path}", methods=["GET", "POST", "HEAD", "PUT", "DELETE"])
    async def other(path: str, request: Request):
        script.note("unknown", method=request.method, path=path)
        unknown = {"message": f"rig has no {path}", "type": "not_found_error"}
        return JSONResponse({"error": unknown}, 404)

    return app


def reply(req, answer, failure, whole, events):
    if answer.fail:
        return JSONResponse(failure, answer.fail)
    if not req.get("stream"):
        return JSONResponse(whole)
    return StreamingResponse(stream(events, answer.delay), media_type="text/event-stream")


async def stream(events, delay):
    """events: (event name or None, object or text, whether to pause after it)"""
    for name, event, pause in events:
        head = f"event: {name}\n" if name else ""
        yield f"{head}data: {event if isinstance(event, str) else json.dumps(event)}\n\n"
        if pause and delay:
            await asyncio.sleep(delay)


def main():
    parser = argparse.ArgumentParser(prog="fakellm")
    parser.add_argument("--script", default="{}", help="JSON laid over the default script")
    parser.add_argument("--log", help="write one JSON line an answer to this file")
    options = parser.parse_args()
    app = make_app(Script(json.loads(options.script), options.log))
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
