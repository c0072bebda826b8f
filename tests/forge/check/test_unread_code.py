"""Code that nothing reads makes a clause unknown: it neither holds nor is violated by what was not looked at."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from aop.adapters.projects.deep_scan.commit_scanner import CommitScanner
from aop.adapters.projects.deep_scan.folder_commit import committed_folder
from aop.forge.check.clauses import contracts_to_check
from aop.forge.check.code_files import code_at
from aop.forge.check.verdicts import clauses_of
from tests.cli.forge.test_check import CODE
from tests.forge import sample_contracts as sample

APP = CODE["birdlog/app.py"]
SIGHTINGS = CODE["birdlog/routers/sightings.py"]


def verdicts(folder: Path, files: Mapping[str, str], links: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the verdict of each clause, and the reason where it is unknown, on the sample with these files."""
    for name, text in {**CODE, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for name, target in (links or {}).items():
        (folder / name).symlink_to(target)
    with committed_folder(folder, os.environ) as (repository, commit):
        code = code_at(commit, CommitScanner(repository), repository.objects, lambda _line: None)
        clauses = clauses_of(contracts_to_check(sample.CONTRACTS, "full"), code)
    return {
        each.clause: f"unknown: {each.detail}" if each.verdict == "unknown" else each.verdict
        for each in clauses
        if each.verdict != "holds"
    }


def test_the_sample_holds(tmp_path: Path) -> None:
    assert verdicts(tmp_path, {}) == {}


def test_an_import_of_a_vendored_file_of_another_layer_is_unknown(tmp_path: Path) -> None:
    found = verdicts(
        tmp_path,
        {
            "birdlog/repos/vendor/__init__.py": "",
            "birdlog/repos/vendor/store.py": "def save(count):\n    return count\n",
            "birdlog/routers/sightings.py": f"from birdlog.repos.vendor.store import save\n{SIGHTINGS}",
        },
    )
    why = "`birdlog/repos/vendor/__init__.py` is not read, nor an import of it, and 1 more file."
    assert found["boundaries.routers.imports.repos"] == f"unknown: {why}"
    assert found["physics.undeclared"].startswith("unknown: `birdlog/repos/vendor/__init__.py` cannot be parsed")


def test_a_source_that_is_too_large_hides_no_route_and_no_table(tmp_path: Path) -> None:
    found = verdicts(tmp_path, {"birdlog/big.py": "x = 1\n" * 200_000})
    why = "unknown: `birdlog/big.py` cannot be parsed."
    assert found == {"physics.undeclared": why, "schema.undeclared": why}


def test_a_table_or_route_that_may_be_in_an_unread_source_is_not_called_missing(tmp_path: Path) -> None:
    found = verdicts(
        tmp_path,
        {
            "birdlog/broken.py": "def (:\n",
            "birdlog/routers/sightings.py": SIGHTINGS.split('@router.post("/members")')[0],
            "migrations/1.sql": CODE["migrations/1.sql"].split("\n")[0] + "\n",
        },
    )
    why = "unknown: `birdlog/broken.py` cannot be parsed."
    assert {name: found[name] for name in ("physics.post./members", "schema.sightings")} == {
        "physics.post./members": why,
        "schema.sightings": why,
    }


@pytest.mark.parametrize(
    ("link", "target", "clauses"),
    [
        ("birdlog/repos/extra.py", "../../other/evil.py", ["boundaries.repos.pattern-", "boundaries.repos.imports."]),
        ("birdlog/routers/inner", "../repos", ["boundaries.routers.imports."]),
        ("birdlog/repos/away", "/tmp", ["boundaries.repos.pattern-", "boundaries.routers.imports.repos"]),
    ],
)
def test_a_link_in_a_layer_is_not_followed_and_hides_nothing(
    tmp_path: Path, link: str, target: str, clauses: list[str]
) -> None:
    found = verdicts(tmp_path, {"other/evil.py": "print(1)\n"}, {link: target})
    for name in clauses:
        assert [each for each in found if each.startswith(name)], found
    assert {each.partition(":")[0] for each in found.values()} == {"unknown"}
    assert all(f"`{link}`" in each for each in found.values())


def test_a_link_outside_of_every_layer_changes_nothing(tmp_path: Path) -> None:
    assert verdicts(tmp_path, {"docs/a.md": "A\n"}, {"README": "docs/a.md", "docs/latest": "."}) == {}


UNREAD = [
    ("drf", "from rest_framework.routers import DefaultRouter\n\nr = DefaultRouter()\n", 1,
     "The routes of `rest_framework.routers` are not read"),
    ("drf-names", "from rest_framework import routers\n", 1, "The routes of `rest_framework.routers` are not read"),
    ("included", 'from django.urls import include, path\n\nurlpatterns = [path("x/", include(router.urls))]\n', 3,
     "The routes that are mounted here are not read"),
    ("package", 'from django.urls import include, path\n\nurlpatterns = [path("x/", include("oauth.urls"))]\n', 3,
     "The routes that are mounted here are not read"),
    ("computed-url", "from django.urls import path\n\nurlpatterns = [path(PLACE, view)]\n", 3,
     "A route is registered in a form that is not read"),
    ("rule", 'def add(app):\n    app.add_url_rule("/x", view_func=x)\n', 2,
     "A route is registered in a form that is not read"),
    ("foreign-owner", 'from other import thing\n\n\n@thing.get("/x")\ndef x():\n    return 1\n', 4,
     "A route is registered in a form that is not read"),
    ("sub-application", 'def add(app):\n    app.mount("/sub", other)\n', 2,
     "A route is registered in a form that is not read"),
    ("handed-over", "", 1, "A route is registered in a form that is not read"),
    ("go", "", 2, "The routes of `net/http` are not read"),
]  # fmt: skip
OTHERS = {
    "handed-over": ("web/users.js", "module.exports = (app) => app.get('/x', (q, r) => r.send(1));\n"),
    "go": ("main.go", 'package main\nimport "net/http"\n'),
}


@pytest.mark.parametrize(("name", "text", "line", "reason"), UNREAD, ids=[each[0] for each in UNREAD])
def test_routes_in_a_form_that_is_not_read_are_unknown_and_not_missing(
    tmp_path: Path, name: str, text: str, line: int, reason: str
) -> None:
    file, content = OTHERS.get(name, ("birdlog/more.py", text))
    missing = SIGHTINGS.split('@router.post("/members")')[0]
    found = verdicts(tmp_path, {file: content, "birdlog/routers/sightings.py": missing})
    why = f"unknown: {reason}, at {file}:{line}."
    assert found == {"physics.post./members": why, "physics.undeclared": why}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("birdlog/more.py", 'def f(app):\n    app.mount("/s", StaticFiles(directory="s"))\n'),
        ("birdlog/more.py", 'from unittest import mock\n\n\n@mock.patch("birdlog.app")\ndef f():\n    return 1\n'),
        ("birdlog/more.py", "from starlette.responses import JSONResponse\n"),
        ("tests/test_more.py", "from aiohttp import web\n"),
        ("web/client.js", "api.get('/members', { params });\nclient.post('/members', body);\n"),
    ],
)  # fmt: skip
def test_what_registers_no_route_makes_nothing_unknown(tmp_path: Path, file: str, text: str) -> None:
    assert verdicts(tmp_path, {file: text}) == {}


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("birdlog/models.py", "from peewee import Model\n", "peewee"),
        ("birdlog/models.py", "import tortoise.models as models\n", "tortoise"),
        ("web/models.js", "const { DataTypes } = require('sequelize');\n", "sequelize"),
        ("web/models.ts", "import { pgTable } from 'drizzle-orm/pg-core';\n", "drizzle-orm"),
        ("models.go", 'package main; import "gorm.io/gorm"\n', "gorm.io/gorm"),
        ("src/models.rs", "use diesel::prelude::*;\n", "diesel"),
        ("src/Models.java", "import org.jooq.DSLContext;\n", "org.jooq"),
    ],
)
def test_a_table_of_a_library_that_is_not_read_is_unknown_and_not_missing(
    tmp_path: Path, file: str, text: str, name: str
) -> None:
    members = CODE["migrations/1.sql"].splitlines(keepends=True)[0]
    found = verdicts(tmp_path, {file: text, "migrations/1.sql": members})
    why = f"unknown: The tables of `{name}` are not read, at {file}:1."
    assert found == {"schema.sightings": why, "schema.undeclared": why}


def test_a_module_of_the_project_with_the_name_of_such_a_library_makes_nothing_unknown(tmp_path: Path) -> None:
    assert verdicts(tmp_path, {"peewee.py": "", "birdlog/more.py": "import peewee\n"}) == {}


def test_a_route_that_is_never_mounted_does_not_prove_a_path(tmp_path: Path) -> None:
    found = verdicts(tmp_path, {"birdlog/app.py": APP.replace("app.include_router(router)\n", "")})
    why = "unknown: The prefix of 3 routes is not known, the first at birdlog/routers/sightings.py:18."
    assert found == {
        "physics.get./sightings": why,
        "physics.post./sightings": why,
        "physics.post./members": why,
        "physics.undeclared": why,
    }
