"""Projection: `Forge/` in the worktree of a build, written from the record.

Git never tracks it: the folder holds a `.gitignore` that covers all of it (FORGE-042, 045, 058).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress

from aop.core.errors import FileNotFound
from aop.core.ids import FeatureId
from aop.core.text.json import pretty_json
from aop.forge.builds.documents import BuildCycle
from aop.forge.contracts.types import file_name
from aop.forge.projects.batches import batch_of, contract_in
from aop.forge.projects.documents import ForgeBuild, ScratchNote
from aop.kernel.gateway.calls import Kernel
from aop.kernel.record.port import Snapshot

SHOWN_FOLDER = "Forge"
"""The folder of a worktree that shows the contracts of a build; no commit may have it (FORGE-042, C-54)."""
MOST_FILES = 10_000


def shown_files(view: Snapshot, build: ForgeBuild) -> Mapping[str, bytes]:
    """Return the files of `Forge/`, by path: the pinned contracts and the scratchpad."""
    batch = batch_of(view, build.project_id, build.batch)
    contracts = {file_name(each): contract_in(view, batch, each).content for each in batch.contracts}
    notes = {note.name: note.value for note in view.all(ScratchNote, f"{build.build_id}/")}
    return {
        f"{SHOWN_FOLDER}/.gitignore": b"*\n",
        f"{SHOWN_FOLDER}/.scratchpad.json": pretty_json(notes),
        **{f"{SHOWN_FOLDER}/Contracts/{name}": content.encode() for name, content in contracts.items()},
    }


def show_contracts(kernel: Kernel, name: FeatureId) -> bool:
    """Write `Forge/` into the worktree of a build; the caller holds the worktree. Tell whether it is a build."""
    with kernel.record.read() as view:
        cycle, build = view.get(BuildCycle, name), view.get(ForgeBuild, name)
        if cycle is None or build is None:
            return False
        files = shown_files(view, build)
    if kernel.git.worktrees.head(name) is None:
        return True
    worktree = kernel.git.worktrees.path(name).relative_to(kernel.files.root).as_posix()
    wanted = {f"{worktree}/{path}": content for path, content in files.items()}
    for path in _present(kernel, f"{worktree}/{SHOWN_FOLDER}"):
        if path not in wanted:
            kernel.files.remove(path)
    for path, content in wanted.items():
        if kernel.files.fingerprint(path) != hashlib.sha256(content).hexdigest():
            kernel.files.write(path, content, durable=False)
    return True


def _present(kernel: Kernel, folder: str) -> tuple[str, ...]:
    with suppress(FileNotFound):
        return kernel.files.below(folder, limit=MOST_FILES)
    # A link or a file has its place.
    kernel.files.remove(folder)
    return ()
