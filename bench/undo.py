"""Random turns in random folders, each undone and compared; times beside git stash."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TypeVar

from agent_side.snapshots import undoing
from agent_side.snapshots.store import Begun, Kept, Store
from bench.report import Section, save
from bench.trees import Tree, differences, state_of

SIZES = {100: 150, 1_000: 40, 10_000: 10}  # files in a folder, and turns in folders of that size
SECONDS = 600.0
STEPS = 20  # of one random turn
EDITS = 20  # of each kind, in the turn that is timed
PUSH, POP = ("stash", "push", "--quiet", "--include-untracked"), ("stash", "pop", "--quiet")

Found = TypeVar("Found")


def main(arguments: list[str]) -> int:
    """Run it; 1 when a folder differs after its undo."""
    parser = argparse.ArgumentParser(prog="./dev bench undo", description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the 200 turns")
    chosen = parser.parse_args(arguments)
    rows, wrong, turns = [], 0, 0
    for files, count in SIZES.items():
        played = max(1, round(count * chosen.share))
        found = sum(_random_turn(files, seed) for seed in range(played))
        wrong, turns = wrong + found, turns + played
        rows.append([f"{files:,}", str(played), str(found), *map(_ms, _timed(files))])
    text = _table(rows)
    says = f"folders that differ after the undo: {wrong} of {turns} (wanted: 0)"
    print(f"\n{text}\n\n{says}")
    title = "Undo: random turns, and the time beside git stash"
    how = (
        "Random turns create, edit, rename and remove files, links, modes, folders and nested "
        f"repositories. The timed turn edits, adds and removes {EDITS} files each."
    )
    save(Section("undo", title, f"{text}\n\n{how}\n\n- {says}"))
    return 1 if wrong else 0


def _random_turn(files: int, seed: int) -> int:
    """Play a turn and undo it, and undo the undo; 1 when something differs."""
    with tempfile.TemporaryDirectory(prefix="bench-undo-") as home:
        tree, store = _ready(Path(home), seed, files)
        before, begun = state_of(tree.folder), _begin(store, tree.folder)
        tree.turn(STEPS)
        after, kept = state_of(tree.folder), _finish(store, begun)
        undone = _undo(store, kept)
        found = differences(state_of(tree.folder), before)
        _undo(store, undone)
        found += differences(state_of(tree.folder), after)
        if found:
            print(f"seed {seed}, {files} files: {found[:5]}")
        return 1 if found else 0


def _timed(files: int) -> list[float]:
    """Time a plain turn: the snapshot before, the receipt's after, the undo; then git's stash."""
    with tempfile.TemporaryDirectory(prefix="bench-undo-") as home:
        tree, store = _ready(Path(home), files, files, nested=0)
        first = _timing(partial(store.take, tree.folder, SECONDS))[0]
        before, after, undo = [], [], []
        for _ in range(5):
            took, begun = _timing(partial(_begin, store, tree.folder))
            before.append(took)
            tree.edit(EDITS)
            took, kept = _timing(partial(_finish, store, begun))
            after.append(took)
            undo.append(_timing(partial(_undo, store, kept))[0])
        stash, pop = _stash(tree)
        return [first, median(before), median(after), median(undo), stash, pop]


def _stash(tree: Tree) -> tuple[float, float]:
    """Time what keeps and brings back the same by hand: stash with untracked files, and pop."""

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
        subprocess.run(["git", *who, *arguments], cwd=tree.folder, check=True, capture_output=True)

    git("init", "--quiet")
    git("add", "--all")
    git("commit", "--quiet", "--message", "all")
    pushed, popped = [], []
    for _ in range(5):
        tree.edit(EDITS)
        pushed.append(_timing(partial(git, *PUSH))[0])
        popped.append(_timing(partial(git, *POP))[0])
    return median(pushed), median(popped)


def _ready(home: Path, seed: int, files: int, nested: int = 2) -> tuple[Tree, Store]:
    tree = Tree(home / "folder", seed)
    tree.fill(files, repository=seed % 2 == 0 and nested > 0, nested=nested)
    store = Store(home / "state" / "snapshots", home / "state")
    store.open()
    return tree, store


def _begin(store: Store, folder: Path) -> Begun:
    begun = Begun("turn-0000000000000000", "s", str(folder), store.take(folder, SECONDS))
    store.begin(begun)
    return begun


def _finish(store: Store, begun: Begun) -> Kept:
    return store.finish(begun, store.take(Path(begun.folder), SECONDS), shared=False)


def _undo(store: Store, kept: Kept) -> Kept:
    folder = Path(kept.folder)
    planned = undoing.plan(store.git, folder, kept.changes, kept.protected)
    done, failed = undoing.carry_out(store.git, folder, planned)
    if planned.conflicts or failed:
        print(f"conflicts {sorted(planned.conflicts)[:5]}, failed {failed}")
    undone = Kept("undo-0000000000000000", "s", kept.folder, 0, done)
    store.keep(undone)
    return undone


def _timing(step: Callable[[], Found]) -> tuple[float, Found]:
    began = time.perf_counter()
    found = step()
    return time.perf_counter() - began, found


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.0f}"


def _table(rows: list[list[str]]) -> str:
    titles = ["files", "turns", "wrong", "first look ms", "before a turn ms", "after it ms"]
    titles += ["undo ms", "git stash push ms", "git stash pop ms"]
    lines = [titles, ["---:"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
