"""`aop evidence verify` proves contracts, batches and builds: a byte that was changed in the database is named."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from aop.forge.contracts.types import ContractType
from tests.forge.projects import NINE, stored
from tests.world import Ran, World, make_repository, run_aop

UI = ContractType.UI


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_repository(tmp_path_factory.mktemp("template") / "repo")
    world = World(root)
    world.ok("forge.project_new", name="Shop")
    stored(world, "shop")
    world.ok("forge.pin", project_id="shop")
    stored(world, "shop", {UI: NINE[UI] + "\nMore.\n"})
    world.close()
    return root


@pytest.fixture
def repository(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "repo", symlinks=True)


def verify(root: Path) -> Ran:
    return run_aop(root, "evidence", "verify")


def change(root: Path, sql: str) -> None:
    with sqlite3.connect(root / ".aop/record.db") as connection:
        assert connection.execute(sql).rowcount == 1
    connection.close()


def body(kind: str, key: str, old: str, new: str) -> str:
    return f"UPDATE documents SET body = replace(body, '{old}', '{new}') WHERE kind = '{kind}' AND key = '{key}'"


def test_contracts_batches_and_builds_are_proven(repository: Path) -> None:
    ran = verify(repository)
    assert ran.code == 0
    assert ran.err.startswith("Intact: 6 journal entries, 0 gate runs, 0 logs, 0 approvals, ")
    assert ", 10 contract versions, 2 batches, 1 pinned build.\n" in ran.err


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            body("contract", "shop/ui/000001", "TaskFlow", "TaskFl0w"),
            "The contract `shop/ui/000001` is not the one that the journal recorded.",
        ),
        (
            body("contract", "shop/ui/000002", '"author":"generated"', '"author":"person:eve"'),
            "The contract `shop/ui/000002` is not the one that the journal recorded.",
        ),
        (
            body("contract_batch", "shop/000001", '"number":1', '"number":2'),
            "The contract_batch `shop/000002` is not the one that the journal recorded.",
        ),
        (
            body("contract_batch", "shop/000001", '"sha256":"', '"sha256":"0'),
            "The contract_batch `shop/000001` is not the one that the journal recorded.",
        ),
        (
            body("forge_build", "shop-b1", '"batch":1', '"batch":2'),
            "The forge_build `shop-b1` is not the one that the journal recorded.",
        ),
        (
            body("forge_project", "shop", '"batch":2', '"batch":1'),
            "The project `shop` does not have the owner and the batch of the journal.",
        ),
        (
            body("forge_project", "shop", '"owner":"local"', '"owner":"eve"'),
            "The project `shop` does not have the owner and the batch of the journal.",
        ),
        (
            "DELETE FROM documents WHERE kind = 'contract' AND key = 'shop/ui/000001'",
            "The contract `shop/ui/000001` is missing from the record.",
        ),
        (
            "INSERT INTO documents SELECT kind, 'shop/ui/000003', version,"
            " replace(body, '\"number\":2', '\"number\":3') FROM documents"
            " WHERE kind = 'contract' AND key = 'shop/ui/000002'",
            "The journal has no entry for the contract `shop/ui/000003`.",
        ),
        ("DELETE FROM documents WHERE kind = 'forge_project'", "The project `shop` is missing from the record."),
        (
            "INSERT INTO documents SELECT kind, 'blog', version, replace(body, 'shop', 'blog') FROM documents"
            " WHERE kind = 'forge_project'",
            "The journal has no entry for the project `blog`.",
        ),
        (
            body("contract", "shop/ui/000001", '"content":', '"c0ntent":'),
            "The contract `shop/ui/000001` in the record does not have its shape",
        ),
        (
            body("contract", "shop/ui/000001", '"content":', '"content"'),
            "The contract `shop/ui/000001` in the record does not have its shape",
        ),
    ],
    ids=[
        *("content", "author", "batch number", "batch digest", "pin", "newest batch", "owner", "removed version"),
        *("added version", "removed project", "added project", "shape", "no JSON"),
    ],
)
def test_a_change_of_the_database_is_found_and_named(repository: Path, sql: str, said: str) -> None:
    change(repository, sql)
    ran = verify(repository)
    assert (ran.code, ran.out) == (4, "")
    assert said in ran.err
    assert "[evidence_broken]" in ran.err


def test_a_digest_that_fits_a_changed_content_does_not_help(repository: Path) -> None:
    """The document is consistent with itself, and still not the one that the journal holds."""
    import hashlib

    new = NINE[UI] + "\nMore!\n"
    old = NINE[UI] + "\nMore.\n"
    change(
        repository,
        body("contract", "shop/ui/000002", "More.", "More!").replace(
            "replace(body",
            f"replace(replace(body, '{hashlib.sha256(old.encode()).hexdigest()}',"
            f" '{hashlib.sha256(new.encode()).hexdigest()}')",
        ),
    )
    assert "The contract `shop/ui/000002` is not the one that the journal recorded." in verify(repository).err
