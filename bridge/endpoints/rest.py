"""The REST API: what a dashboard shows and does, for scripts and for the page's older pages."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse

from bridge.endpoints import SIGNED_IN, Approver, Operator, TheRelay, Viewer, shapes
from bridge.endpoints.body import StrictRoute
from bridge.history import PAGE_LIMIT
from bridge.mail import message_for
from bridge.protocol.cursor import Cursor
from bridge.protocol.errors import InvalidParams, SignatureRefused
from bridge.protocol.jsonrpc import Payload
from bridge.protocol.round_trip import Decision
from bridge.transcript import MEDIA_TYPES, Form
from bridge.viewer import Reading

SessionId = Annotated[str, Path(alias="id", description="the session's public id")]
RoundTripId = Annotated[str, Path(alias="id", description="the question's id")]

router = APIRouter(
    prefix="/api",
    route_class=StrictRoute,
    tags=["rest"],
    dependencies=SIGNED_IN,
    responses={
        401: {"model": shapes.Failure, "description": "nobody is signed in"},
        403: {"model": shapes.Failure, "description": "the role does not allow it"},
        503: {"model": shapes.Failure, "description": "the store does not answer"},
        **shapes.ANY_FAILURE,
    },
)
_UNNAMED = re.compile(r"[^A-Za-z0-9_-]")  # what a file of anybody's system need not take
_MISSING: shapes.Answers = {
    400: {"model": shapes.Failure, "description": "the request is not well formed"},
    404: {"model": shapes.Failure, "description": "there is no such thing"},
}


@router.get("/agents", response_model=shapes.Agents, response_model_exclude_none=True)
async def agents(relay: TheRelay, viewer: Viewer) -> Payload:
    """List the tenant's agents."""
    return {"agents": [one.as_json() for one in await relay.agents.list(viewer.tenant)]}


@router.get("/sessions", response_model=shapes.Sessions, response_model_exclude_none=True)
async def sessions(relay: TheRelay, viewer: Viewer) -> Payload:
    """List the tenant's sessions, the newest first."""
    return {"sessions": [one.as_json() for one in await relay.sessions.list(viewer.tenant)]}


@router.get(
    "/sessions/{id}",
    response_model=shapes.Session,
    response_model_exclude_none=True,
    responses=_MISSING,
)
async def session(relay: TheRelay, viewer: Viewer, session_id: SessionId) -> Payload:
    """Give one session."""
    return (await relay.sessions.get(viewer.tenant, session_id)).as_json()


@router.get(
    "/sessions/{id}/log",
    response_class=Response,
    responses={200: {"model": shapes.LogPage}, 409: shapes.AWAY, **_MISSING},
)
async def log(
    relay: TheRelay,
    viewer: Viewer,
    session_id: SessionId,
    before: Annotated[str | None, Query(description="give what came before this cursor")] = None,
    after: Annotated[str | None, Query(description="give what came after this cursor")] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_LIMIT)] = 200,
    compact: Annotated[bool, Query(description="join neighbouring pieces of a text")] = False,  # noqa: FBT002 (named in the query)
) -> Response:
    """Give a page of a session's log: the newest one unless a cursor is named."""
    if before is not None and after is not None:
        raise InvalidParams("name before or after, not both")
    record = await relay.sessions.get(viewer.tenant, session_id)
    history, reading = relay.history, Reading(limit, compact)
    if after is not None:
        page = await history.after(viewer.tenant, session_id, Cursor.parse(after), reading)
    else:
        start = Cursor.parse(before) if before else None
        page = await history.before(viewer.tenant, record, start, reading)
    return Response(page, media_type="application/json")


@router.get(
    "/sessions/{id}/log/{cursor}",
    response_class=Response,
    responses={200: {"model": shapes.Piece}, 409: shapes.AWAY, **_MISSING},
)
async def entry(
    relay: TheRelay,
    viewer: Viewer,
    session_id: SessionId,
    cursor: Annotated[str, Path(description="the entry's cursor")],
    offset: Annotated[int, Query(ge=0, description="where the piece begins, in bytes")] = 0,
    limit: Annotated[int | None, Query(ge=4, description="its most bytes")] = None,
) -> Response:
    """Give a piece of an entry in full, as its connector keeps it."""
    record = await relay.sessions.get(viewer.tenant, session_id)
    at = Cursor.parse(cursor)
    piece = await relay.history.piece(viewer.tenant, record, at, offset, limit)
    return Response(bytes(piece), media_type="application/json")


@router.get(
    "/sessions/{id}/transcript",
    response_class=Response,
    responses={200: {"content": {kind: {} for kind in MEDIA_TYPES.values()}}, **_MISSING},
)
async def transcript(
    relay: TheRelay,
    viewer: Viewer,
    session_id: SessionId,
    form: Annotated[Form, Query(alias="as", description="Markdown, a page, the entries")] = "md",
) -> StreamingResponse:
    """Give a session as a file: what the relay keeps of it, and where that begins."""
    record = await relay.sessions.get(viewer.tenant, session_id)
    text = relay.transcripts.write(viewer.tenant, record, form)
    name = f"session-{_UNNAMED.sub('', session_id)}.{form}"
    headers = {
        "content-disposition": f'attachment; filename="{name}"',
        "content-security-policy": "default-src 'none'; sandbox",
    }
    return StreamingResponse(text, media_type=MEDIA_TYPES[form], headers=headers)


@router.post(
    "/sessions/{id}/mail", status_code=202, response_model=shapes.MailSent, responses=_MISSING
)
async def send_mail(
    relay: TheRelay, operator: Operator, session_id: SessionId, body: shapes.SendMail
) -> Payload:
    """Send a prompt, a cancel or a setting to a session's agent."""
    found = await relay.sessions.get(operator.tenant, session_id)
    message = message_for(body.method, session_id, body.params)
    await relay.buckets.take("mail", operator)
    place = (operator.tenant, found.agent, body.mail_id)
    await relay.signatures.mail(*place, message, body.signature)
    n = await relay.mailbox.send(*place, operator.origin, message, None, body.signature)
    relay.metrics.count("mail_total", method=body.method)
    return {"mailId": body.mail_id, "n": n}


@router.get("/mail/{id}", response_model=shapes.MailOutcome, response_model_exclude_none=True)
async def mail(
    relay: TheRelay, viewer: Viewer, mail_id: Annotated[str, Path(alias="id")]
) -> Payload:
    """Tell what became of a message; kept for ten minutes after it was done."""
    done = await relay.mailbox.outcome(viewer.tenant, mail_id)
    if done is None:
        return {"state": "queued"}
    return {"state": "done", "result": done.result, "error": done.error}


@router.get("/round-trips", response_model=shapes.RoundTrips, response_model_exclude_none=True)
async def round_trips(
    relay: TheRelay,
    viewer: Viewer,
    state: Literal["open", "all"] = "open",
    session_id: Annotated[str | None, Query(alias="sessionId")] = None,
) -> Payload:
    """List the questions that are open, or all that are still known."""
    found = await relay.round_trips.list(
        viewer.tenant, open_only=state == "open", session_id=session_id
    )
    return {"roundTrips": [one.as_json() for one in found]}


@router.post(
    "/round-trips/{id}/decision",
    response_model=shapes.Decided,
    response_model_exclude_none=True,
    responses=_MISSING,
)
async def decide(
    relay: TheRelay, approver: Approver, round_trip_id: RoundTripId, body: shapes.Decide
) -> Payload:
    """Answer a question; the first answer is recorded, later ones are told who won."""
    await relay.buckets.take("decisions", approver)
    decision = Decision(round_trip_id, body.hash, body.answer, body.decision_id)
    if body.jws is not None and decision != await relay.signatures.decision(
        approver.tenant, body.jws
    ):
        raise SignatureRefused("the signature is for another answer")
    decided = await relay.round_trips.decide(approver.tenant, decision, approver.origin, body.jws)
    relay.metrics.count("decisions_total", state=decided.state.value)
    return decided.as_json()
