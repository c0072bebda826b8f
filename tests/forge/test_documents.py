"""Persisted shapes of forge: what this version writes, and what it still reads of records of earlier ones."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aop.forge.builds import documents as build_documents
from aop.forge.projects import documents
from aop.kernel.record.documents.base import Document
from tests.world import World, make_repository

GOLDEN = Path(__file__).parents[1] / "golden"
STORED: dict[str, dict[str, Any]] = msgspec.json.decode((GOLDEN / "forge-documents.json").read_bytes())
SHAPES = {
    shape.kind: shape
    for shape in (*vars(documents).values(), *vars(build_documents).values())
    if isinstance(shape, type) and issubclass(shape, Document) and shape is not Document
}


@pytest.mark.req("FORGE-224")
def test_every_document_has_a_golden_one() -> None:
    assert sorted(STORED) == sorted(SHAPES)
    needed = {"forge_user", "forge_project", "contract", "contract_batch", "forge_build", "forge_key", "scout_run"}
    assert needed <= set(SHAPES)


@pytest.mark.parametrize("kind", sorted(STORED))
def test_a_stored_document_is_read_and_written_as_it_was(kind: str) -> None:
    """A change here changes what records hold: give a new field a default, and say so in docs/state-format.md."""
    read = msgspec.convert(STORED[kind], SHAPES[kind])
    written: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(read))
    assert {name: value for name, value in written.items() if name in STORED[kind]} == STORED[kind]


@pytest.mark.req("FORGE-232")
@pytest.mark.req("FORGE-235")
def test_a_record_of_the_first_shape_takes_projects_and_keeps_what_it_had(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repo")
    (root / ".aop").mkdir()
    connection = sqlite3.connect(root / ".aop/record.db")
    connection.executescript((GOLDEN / "record-shape-1.sql").read_text(encoding="utf-8"))
    connection.close()
    # Twice: what is already migrated stays as it is.
    for name in ("Shop", "Blog"):
        world = World(root)
        world.ok("forge.project_new", name=name)
        world.close()
    world = World(root)
    assert [each["project_id"] for each in world.ok("forge.project_list")["projects"]] == ["blog", "shop"]
    with world.app.record.read() as view:
        assert [entry.event.kind for entry in view.journal()] == [
            "feature_initialised",
            "project_begun",
            "project_begun",
        ]
    world.close()
