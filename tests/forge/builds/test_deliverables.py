"""Deliverables: the paths and subjects that a phase names, and the files that belong to them."""

from __future__ import annotations

import pytest

from aop.forge.builds.audit.deliverables import Deliverable, deliverables_of, files_of, missing_paths, owner_of
from aop.forge.contracts.shapes.phases import Phase


def _one(text: str) -> Deliverable:
    phase = Phase(
        number=1, name="P", line=1, objective="o", deliverables=(text,), schema_coverage=(), exit_criteria=("c",)
    )
    (found,) = deliverables_of([phase])
    return found


@pytest.mark.parametrize(
    ("text", "paths", "subjects"),
    [
        ("`app/main.py`, `./tests/test_health.py`", ("app/main.py", "tests/test_health.py"), ()),
        ("migration of `users`", (), ("user",)),
        ("`POST /tasks/{id}/comments` with its service", (), ("task", "comment")),
        ("`Dockerfile` and `deploy/`", ("Dockerfile", "deploy/"), ()),
        ("`src/**/*.ts`", ("src/**/*.ts",), ()),
        ("the Overview page", (), ()),
        ("`/etc/passwd` is a route, `../out.py` is not a file", (), ("etc", "passwd", "out")),
    ],
)
def test_names_in_backticks_are_paths_or_subjects(text: str, paths: tuple[str, ...], subjects: tuple[str, ...]) -> None:
    found = _one(text)
    assert (found.paths, found.subjects) == (paths, subjects)


@pytest.mark.parametrize(
    ("path", "belongs"),
    [
        ("app/store.py", True),
        ("app/__init__.py", True),
        ("pyproject.toml", True),
        ("tests/test_store.py", True),
        ("app/routers/members.py", True),
        ("app/other.py", False),
        ("tests/test_other.py", False),
        ("other/__init__.py", False),
        ("secret/notes.txt", False),
    ],
)
def test_a_file_belongs_to_what_names_it_or_needs_it(path: str, belongs: bool) -> None:  # noqa: FBT001 - a table's column
    deliverables = (_one("`app/store.py`"), _one("`/members` with its repo"))
    assert (owner_of(path, deliverables) is not None) is belongs


def test_a_deliverable_is_shown_by_its_files_and_lacks_the_others() -> None:
    found = _one("`app/a.py`, `app/b.py`")
    assert (files_of(found, ["app/a.py", "x.py"]), missing_paths(found, ["app/a.py", "x.py"])) == (
        ("app/a.py",),
        ("app/b.py",),
    )
