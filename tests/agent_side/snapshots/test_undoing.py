"""A turn, whatever it did to a folder, can be undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_side.snapshots import undoing
from agent_side.snapshots.snapshot import Change
from agent_side.snapshots.store import Begun, Kept, Store
from bench.trees import Tree, differences, state_of

SECONDS = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "state" / "snapshots", tmp_path / "state")
    made.open()
    return made


class Turns:
    """Turns in one folder, each with its number."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder = store, folder
        self.count = 0

    def begin(self) -> Begun:
        self.count += 1
        before = self.store.take(self.folder, SECONDS)
        begun = Begun(f"turn-{self.count:016x}", "s", str(self.folder), before)
        self.store.begin(begun)
        return begun

    def end(self, begun: Begun) -> Kept:
        return self.store.finish(begun, self.store.take(self.folder, SECONDS), shared=False)

    def undo(self, kept: Kept) -> list[Change]:
        planned = undoing.plan(self.store.git, self.folder, kept.changes, kept.protected)
        assert not planned.conflicts
        done, failed = undoing.carry_out(self.store.git, self.folder, planned)
        assert not failed
        return done


@pytest.mark.parametrize("seed", range(10))
def test_random_turns_are_undone_byte_for_byte(store: Store, tmp_path: Path, seed: int) -> None:
    tree = Tree(tmp_path / "folder", seed)
    tree.fill(40, repository=seed % 2 == 0)
    turns = Turns(store, tree.folder)
    for _ in range(2):
        before = state_of(tree.folder)
        begun = turns.begin()
        tree.turn(12)
        kept = turns.end(begun)
        changed = state_of(tree.folder)
        done = turns.undo(kept)
        assert differences(state_of(tree.folder), before) == []
        again = Kept("undo-0000000000000000", "s", str(tree.folder), 0, done)
        store.keep(again)
        turns.undo(again)
        assert differences(state_of(tree.folder), changed) == []
