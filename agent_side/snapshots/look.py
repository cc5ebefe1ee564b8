"""What is at a path now, as snapshots would keep it; a link is never followed."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from agent_side.snapshots.snapshot import Entry

SPECIAL = "special"  # in the place of a blob: a pipe, a socket, a device
UNREADABLE = "unreadable"
_CHUNK = 1 << 20


def look(folder: Path, path: str) -> Entry | None:
    """Give what is at a path of a folder, None behind what is no folder."""
    if obstacle(folder, path) is not None:
        return None
    there = folder / path
    try:
        seen = there.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    mode = stat.S_IMODE(seen.st_mode)
    if stat.S_ISLNK(seen.st_mode):
        return Entry("link", 0, blob_id(os.fsencode(there.readlink())))
    if stat.S_ISDIR(seen.st_mode):
        return Entry("folder", mode)
    return Entry("file", mode, _id_of(there) if stat.S_ISREG(seen.st_mode) else SPECIAL)


def obstacle(folder: Path, path: str) -> str | None:
    """Give the first part of the way to a path that is there and is no folder."""
    parts = path.split("/")
    for n in range(1, len(parts)):
        part = "/".join(parts[:n])
        try:
            seen = (folder / part).lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not stat.S_ISDIR(seen.st_mode):
            return part
    return None


def blob_id(content: bytes) -> str:
    """Give git's id of some bytes."""
    hashed = hashlib.sha1(b"blob %d\0" % len(content), usedforsecurity=False)
    hashed.update(content)
    return hashed.hexdigest()


def _id_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            hashed = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
            while chunk := file.read(_CHUNK):
                hashed.update(chunk)
    except OSError:
        return UNREADABLE
    return hashed.hexdigest()
