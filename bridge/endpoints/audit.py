"""The audit over HTTP, for admins: search, export and figures."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from bridge.audit import EVENTS, Search, as_json
from bridge.audit_report import Figures, as_csv, as_jsonl, csv_head
from bridge.endpoints import SIGNED_IN, Admin, TheRelay, shapes
from bridge.endpoints.body import StrictRoute
from bridge.protocol.entry import milliseconds
from bridge.protocol.errors import InvalidParams
from bridge.protocol.jsonrpc import Payload

router = APIRouter(
    prefix="/api/audit",
    route_class=StrictRoute,
    tags=["audit"],
    dependencies=SIGNED_IN,
    responses={
        400: {"model": shapes.Failure, "description": "the request is not well formed"},
        401: {"model": shapes.Failure, "description": "nobody is signed in"},
        403: {"model": shapes.Failure, "description": "only an admin may"},
        **shapes.ANY_FAILURE,
    },
)

Since = Annotated[str | None, Query(description="not before this time, ISO 8601 in UTC")]
Until = Annotated[str | None, Query(description="not after this time, ISO 8601 in UTC")]
_RECORD_ID = re.compile(r"\d{1,16}-\d{1,16}", re.ASCII)


@router.get("", response_model=shapes.AuditPage, response_model_exclude_none=True)
async def search(
    relay: TheRelay,
    admin: Admin,
    event: Annotated[str, Query(description="one of " + ", ".join(EVENTS))] = "",
    subject: Annotated[str, Query(description="who did it", max_length=128)] = "",
    session_id: Annotated[str, Query(alias="sessionId", max_length=64)] = "",
    text: Annotated[str, Query(description="anywhere in the record", max_length=200)] = "",
    since: Since = None,
    until: Until = None,
    before: Annotated[str | None, Query(description="go on from `next`")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> Payload:
    """Find who did what, the newest first."""
    if before is not None and not _RECORD_ID.fullmatch(before):
        raise InvalidParams(f"invalid before {before!r:.80}: give the next of the page before")
    first, last = _times(since, until)
    wanted = Search(event, subject, session_id, text, first, last)
    page = await relay.audit.search(admin.tenant, wanted, before, limit)
    return {"records": [as_json(record) for record in page.records], "next": page.next}


@router.get("/export", response_class=StreamingResponse)
async def export(
    relay: TheRelay,
    admin: Admin,
    format_: Annotated[Literal["jsonl", "csv"], Query(alias="format")] = "jsonl",
    since: Since = None,
    until: Until = None,
) -> StreamingResponse:
    """Give every record of a time, the oldest first, a line each."""
    first, last = _times(since, until)

    async def lines() -> AsyncIterator[bytes]:
        if format_ == "csv":
            yield csv_head()
        write = as_csv if format_ == "csv" else as_jsonl
        async for record in relay.audit.all(admin.tenant, first, last):
            yield write(record)

    media = "text/csv; charset=utf-8" if format_ == "csv" else "application/jsonl"
    name = f"audit-{admin.tenant}.{format_}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(lines(), media_type=media, headers=headers)


@router.get("/figures", response_model=shapes.AuditFigures)
async def figures(
    relay: TheRelay, admin: Admin, since: Since = None, until: Until = None
) -> Payload:
    """Count how the questions of a time ended and how long people took."""
    counted = Figures()
    async for record in relay.audit.all(admin.tenant, *_times(since, until)):
        counted.add(record)
    return counted.as_json()


def _times(since: str | None, until: str | None) -> tuple[int, int]:
    return _time(since, "since"), _time(until, "until")


def _time(text: str | None, what: str) -> int:
    if text is None:
        return 0
    try:
        return milliseconds(text)
    except (ValueError, OverflowError):
        raise InvalidParams(
            f"invalid {what} {text!r:.60}: write ISO 8601 in UTC, 2026-12-01T09:00:00Z"
        ) from None
