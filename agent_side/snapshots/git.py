"""Git's plumbing on a repository of our own, never on the person's.

Every call names our repository, our index and the folder. Nothing of the person's configuration is
read but which files they ignore everywhere; files are taken and given back byte for byte, whatever
their attributes say.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

CONFIG = """\
[core]
	repositoryformatversion = 0
	bare = false
	autocrlf = false
	safecrlf = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	precomposeUnicode = false
	protectNTFS = false
	protectHFS = false
	fsmonitor = false
	looseCompression = 1
[gc]
	auto = 0
"""
# Above every .gitattributes of the folder: no line ends, keywords, encodings or filters.
ATTRIBUTES = "* -text -eol -crlf -ident -filter -working-tree-encoding\n"


class GitMissing(Exception):
    """Git is not installed here."""


class GitFailed(Exception):
    """A command of git failed; the message is git's own."""


class Interrupted(GitFailed):
    """A command was ended because something more urgent came, or all is over."""


class Git:
    """One repository of ours; may be used from several threads."""

    def __init__(self, repository: Path) -> None:
        """Name the repository; ``open`` makes it."""
        self.repository = repository
        self._program = ""
        self._config: list[str] = []
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._closed = False

    def open(self) -> None:
        """Find git and make the repository where there is none; raises GitMissing, GitFailed."""
        self._program = program()
        self._config = ["-c", f"core.excludesFile={self._ignored_everywhere()}"]
        if not (self.repository / "HEAD").exists():
            self.repository.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.run("init", "--quiet", "--template=", "--object-format=sha1")
        (self.repository / "config").write_text(CONFIG)
        (self.repository / "info").mkdir(exist_ok=True)
        (self.repository / "info" / "attributes").write_text(ATTRIBUTES)

    def run(
        self,
        *arguments: str,
        place: Place | None = None,
        feed: bytes = b"",
        until: float | None = None,
    ) -> bytes:
        """Give what a command writes; ``until``: a time of ``time.monotonic``.

        Raises GitFailed, and Interrupted when it was ended before its end.
        """
        return self._finish(self._spawn(arguments, place), feed, until)

    def run_all(
        self,
        commands: Sequence[Sequence[str]],
        *,
        place: Place | None = None,
        until: float | None = None,
    ) -> list[bytes]:
        """Give what each of several commands writes, run at once; raises as ``run``."""
        children: list[subprocess.Popen[bytes]] = []
        try:
            for arguments in commands:
                children.append(self._spawn(arguments, place))  # noqa: PERF401 (all are ended)
            return [self._finish(child, b"", until) for child in children]
        except BaseException:
            for child in children:
                child.kill()
                with child:  # its pipes are closed, and its end awaited
                    pass
            raise

    def close(self) -> None:
        """End what runs; nothing begins any more."""
        with self._lock:
            self._closed = True
            for child in self._running:
                child.terminate()

    def _finish(self, child: subprocess.Popen[bytes], feed: bytes, until: float | None) -> bytes:
        try:
            left = None if until is None else max(0.0, until - time.monotonic())
            out, err = child.communicate(feed, timeout=left)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise Interrupted("it took too long") from None
        finally:
            with self._lock:
                self._running.discard(child)
        if child.returncode in (-signal.SIGTERM, -signal.SIGKILL):
            raise Interrupted("it was ended")
        if child.returncode:
            said = os.fsdecode(err).strip() or f"exit code {child.returncode}"
            raise GitFailed(f"git: {said}")
        return out

    def _spawn(self, arguments: Sequence[str], place: Place | None) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise Interrupted("the connector ends")
            child = subprocess.Popen(  # noqa: S603
                [self._program, *self._config, *arguments],
                env=self._environment(place),
                cwd=place.folder if place else self.repository,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C at the terminal is not for it
            )
            self._running.add(child)
            return child

    def _environment(self, place: Place | None) -> dict[str, str]:
        ours = {"GIT_DIR": str(self.repository)}
        if place is not None:
            ours |= {"GIT_WORK_TREE": str(place.top), "GIT_INDEX_FILE": str(place.index)}
        return {**bare_environment(os.environ), **ours}

    def _ignored_everywhere(self) -> str:
        """Give the file of what the person ignores in every folder; empty: where git looks."""
        own = subprocess.run(  # noqa: S603
            [self._program, "config", "--global", "--path", "core.excludesFile"],
            env={k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
            capture_output=True,
            check=False,
        )
        named = os.fsdecode(own.stdout).strip()
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return named or str(Path(home) / "git" / "ignore")


class Place:
    """Where a command works: a folder, the top whose ignore rules hold there, and our index."""

    def __init__(self, folder: Path, top: Path, index: Path) -> None:
        """Keep the three."""
        self.folder = folder
        self.top = top
        self.index = index


def program() -> str:
    """Give git's path; raises GitMissing."""
    found = shutil.which("git")
    if found is None:
        raise GitMissing("git is not installed on this machine")
    return found


def bare_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Give an environment in which git reads no configuration but the one it is given."""
    kept = {k: v for k, v in environ.items() if not k.startswith("GIT_")}
    return {
        **kept,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
