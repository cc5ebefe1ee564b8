"""The page: the built files, held in memory, under a strict content security policy."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from bridge.protocol.errors import NotFound

STATIC = Path(__file__).parent.parent / "static"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types default dompurify worker"
)
FOREVER = "public, max-age=31536000, immutable"  # names under assets/ carry a hash
NOT_BUILT = (
    "The page is not built: run ./dev setup in a checkout, or install the wheel. "
    "The relay itself works: see /api/docs."
)
_GZIP_FROM = 1024  # bytes; below it the header costs more than it saves
_TEXTS = ("text/", "application/javascript", "application/json", "image/svg+xml")
_TYPES = {".js": "text/javascript", ".webmanifest": "application/manifest+json"}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class File:
    """One built file with what a browser is told of it."""

    body: bytes
    zipped: bytes | None
    media_type: str
    etag: str
    cache_control: str


@cache
def built_files(folder: Path) -> dict[str, File]:
    """Read the built files by their path; empty when the page is not built."""
    return {path.relative_to(folder).as_posix(): _read(path) for path in _walk(folder)}


@router.api_route("/", methods=["GET", "HEAD"])
async def index(request: Request) -> Response:
    """Serve the page."""
    file = built_files(STATIC).get("index.html")
    if file is None:
        return Response(NOT_BUILT, 503, media_type="text/plain")
    return _respond(file, request)


@router.api_route("/{path:path}", methods=["GET", "HEAD"])
async def asset(path: str, request: Request) -> Response:
    """Serve one file of the page, and 404 for whatever else nobody serves."""
    file = built_files(STATIC).get(path)
    if file is None:
        raise NotFound(f"there is nothing at /{path[:80]}")
    return _respond(file, request)


def _respond(file: File, request: Request) -> Response:
    headers = {
        "content-security-policy": POLICY,
        "cache-control": file.cache_control,
        "etag": file.etag,
    }
    if file.zipped is not None:
        headers["vary"] = "accept-encoding"
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    body = file.body
    if file.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
        body = file.zipped
        headers["content-encoding"] = "gzip"
    return Response(body, headers=headers, media_type=file.media_type)


def _walk(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _read(path: Path) -> File:
    body = path.read_bytes()
    media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0]
    media_type = media_type or "application/octet-stream"
    worth = len(body) >= _GZIP_FROM and media_type.startswith(_TEXTS)
    return File(
        body=body,
        zipped=gzip.compress(body, mtime=0) if worth else None,
        media_type=media_type,
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        cache_control=FOREVER if path.parent.name == "assets" else "no-cache",
    )
