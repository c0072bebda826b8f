"""Facts of sources in each language; comments and strings that look like code are not taken for it."""

from __future__ import annotations

import pytest

from aop.adapters.projects.deep_scan.source_reader import read_source
from aop.forge.scan.file_facts import ImportFact, Language, MountFact, RouteFact, TableFact


def imports_in(language: Language, text: str) -> list[ImportFact]:
    return list(read_source(language, text.encode()).imports)


def routes_in(language: Language, text: str) -> list[tuple[int, str, str, str]]:
    found = read_source(language, text.encode()).routes
    return [(each.line, each.method, each.path, each.framework) for each in found]


def tables_in(language: Language, text: str) -> list[tuple[int, str, str, tuple[str, ...]]]:
    found = read_source(language, text.encode()).tables
    return [(each.line, each.name, each.source, each.columns) for each in found]


def test_imports_of_python_with_their_lines_names_and_whether_they_are_late() -> None:
    text = """\
import os, a.b as c
from ..x import (
    y as z,
    w,
)
from . import q
'''
import never
'''
def f():
    from late import it
# import never
"""
    assert imports_in("python", text) == [
        ImportFact(1, "os"),
        ImportFact(1, "a.b", ("a.b as c",)),
        ImportFact(2, "..x", ("y as z", "w")),
        ImportFact(6, ".", ("q",)),
        ImportFact(11, "late", ("it",), True),
    ]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "javascript",
            "import a from './a';\nexport * from 'b';\nconst c = require('../c');\n"
            "const d = import('d');\n// import 'no'\n",
            [("./a", 1), ("b", 2), ("../c", 3), ("d", 4)],
        ),
        ("typescript", "import type { A } from '@x/y/z';\nimport b = require('b');\n", [("@x/y/z", 1), ("b", 2)]),
        ("java", "package p;\nimport a.b.C;\nimport static d.E.f;\n", [("a.b.C", 2), ("d.E.f", 3)]),
        ("go", 'package m\nimport (\n\t"fmt"\n\tx "a.org/b"\n)\n', [("fmt", 3), ("a.org/b", 4)]),
        (
            "rust",
            "use crate::a::{b, c::d};\nmod e;\nmod own { }\nuse std::io as i;\n",
            [("crate::a::b", 1), ("crate::a::c::d", 1), ("self::e", 2), ("std::io", 4)],
        ),
    ],
)
def test_imports_of_the_other_languages(language: Language, text: str, expected: list[tuple[str, int]]) -> None:
    assert [(each.target, each.line) for each in imports_in(language, text)] == expected


def test_routes_of_flask_with_the_prefix_of_a_blueprint() -> None:
    text = """\
from flask import Blueprint, Flask
app = Flask(__name__)
bp = Blueprint("x", __name__, url_prefix="/x")
@bp.route("/<int:id>", methods=["GET", "PUT"])
def one(id): ...
@app.route("/")
def root(): ...
@app.get(PATH)
def computed(): ...
app.register_blueprint(bp, url_prefix="/api")
"""
    assert routes_in("python", text) == [
        (4, "GET", "/x/{id}", "flask"),
        (4, "PUT", "/x/{id}", "flask"),
        (6, "GET", "/", "flask"),
        (8, "GET", "unknown", "flask"),
    ]
    assert read_source("python", text.encode()).mounts == (MountFact(10, "/api", "bp"),)


def test_routes_of_django_and_what_it_includes() -> None:
    text = """\
urlpatterns = [
    path("", home),
    path("posts/<slug:slug>/", post),
    re_path(r"^old/(?P<year>[0-9]+)/$", old),
    path("shop/", include("shop.urls")),
]
"""
    assert routes_in("python", text) == [
        (2, "ANY", "/", "django"),
        (3, "ANY", "/posts/{slug}/", "django"),
        (4, "ANY", "/old/{year}/", "django"),
    ]
    assert read_source("python", text.encode()).mounts == (MountFact(5, "/shop/", "shop.urls", "urlpatterns"),)


def test_routes_of_express_and_nest() -> None:
    express = """\
import express, { Router } from 'express';
const app = express();
const users = Router();
app.get('setting');
app.get('/a/:id', show);
users.route('/').get(list).post(make);
app.all('*', nothing);
other.get('/not/a/router', x);
"""
    assert [(each.method, each.path, each.router) for each in read_source("typescript", express.encode()).routes] == [
        ("GET", "/a/{id}", ""),
        ("GET", "/", "users"),
        ("POST", "/", "users"),
        ("ANY", "*", ""),
    ]
    nest = """\
import { Controller, Get, Post } from '@nestjs/common';
@Controller('dogs')
export class Dogs {
  @Get(':id') one() {}
  @Post() make() {}
}
"""
    assert routes_in("typescript", nest) == [(4, "GET", "/dogs/{id}", "nestjs"), (5, "POST", "/dogs", "nestjs")]


def test_routes_of_spring_below_the_path_of_their_class() -> None:
    text = """\
@RestController
@RequestMapping("/api")
class C {
    @GetMapping("/u/{id:[0-9]+}") String a() { return ""; }
    @RequestMapping(value = {"/p", "/q"}, method = RequestMethod.POST) void b() {}
    @DeleteMapping(PATH) void c() {}
}
"""
    assert routes_in("java", text) == [
        (4, "GET", "/api/u/{id}", "spring"),
        (5, "POST", "/api/p", "spring"),
        (5, "POST", "/api/q", "spring"),
        (6, "DELETE", "unknown", "spring"),
    ]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "sql",
            'CREATE TABLE public."Users" (id int, "n a" text DEFAULT \',\', CHECK (id IN (1, 2)), z numeric(1,2));\n',
            [(1, "public.Users", "sql", ("id", "n a", "z"))],
        ),
        ("sql", "-- CREATE TABLE a (b int);\n/* create table c (d int); */\n", []),
        (
            "python",
            'SQL = """\ncreate table if not exists t (a int)"""\n# CREATE TABLE no (a int)\n',
            [(2, "t", "sql", ("a",))],
        ),
        (
            "python",
            "class P(models.Model):\n    t = models.CharField()\n    m = models.ManyToManyField(Q)\n"
            "    class Meta:\n        db_table = 'p'\n",
            [(1, "p", "django", ("t",))],
        ),
        (
            "python",
            "class A(models.Model):\n    t = models.CharField()\n    class Meta:\n        abstract = True\n",
            [],
        ),
        ("python", "op.create_table('t', sa.Column('id', sa.Integer()))\n", [(1, "t", "alembic", ("id",))]),
        ("python", "class H(SQLModel, table=True):\n    id: int\n", [(1, "h", "sqlalchemy", ("id",))]),
        (
            "prisma",
            'model User {\n  id Int @id\n  posts Post[]\n  @@map("users")\n}\nmodel Post {\n  id Int\n  by User\n}\n',
            [(1, "users", "prisma", ("id",)), (6, "Post", "prisma", ("id",))],
        ),
        (
            "typescript",
            "@Entity('cats')\nclass Cat {\n  @PrimaryGeneratedColumn() id: number;\n  @Column() name: string;\n}\n",
            [(1, "cats", "typeorm", ("id", "name"))],
        ),
        (
            "java",
            '@Entity @Table(name = "t_u")\nclass U { private Long id; static int X; @Transient int y; }\n',
            [(1, "t_u", "jpa", ("id",))],
        ),
    ],
)
def test_tables_with_their_columns(
    language: Language, text: str, expected: list[tuple[int, str, str, tuple[str, ...]]]
) -> None:
    assert tables_in(language, text) == expected


def test_a_line_that_does_not_parse_is_named_and_the_rest_is_read() -> None:
    facts = read_source("python", b"import a\n\ndef f():\n    return ((\n\nimport b\n")
    assert facts.error_line > 0
    assert ImportFact(1, "a") in facts.imports


def test_functions_classes_long_functions_and_notes_are_counted() -> None:
    body = "".join(f"    x{number} = {number}\n" for number in range(70))
    facts = read_source("python", f"class A:\n    def m(self): ...  # TODO\n\n\nasync def long():\n{body}".encode())
    assert (facts.functions, facts.classes, facts.todos) == (2, 1, (2,))
    [long] = facts.long_functions
    assert (long.line, long.name, long.lines) == (5, "long", 71)


@pytest.mark.parametrize("language", ["python", "javascript", "typescript", "java", "go", "rust", "sql", "prisma"])
def test_nothing_empty_broken_or_foreign_raises(language: Language) -> None:
    for content in (b"", b"\n", b"\xff\xfe\xfa" * 50, b"}{)(][" * 500, b"@" * 500, b"import", b"\r\n" * 10):
        read_source(language, content)


def test_routes_and_tables_are_whole_values() -> None:
    facts = read_source("python", b"app = FastAPI()\n@app.get('/a')\ndef a(): ...\nt = Table('t', m, Column('c'))\n")
    assert facts.routes == (RouteFact(2, "GET", "/a", "fastapi"),)
    assert facts.tables == (TableFact(4, "t", "sqlalchemy", ("c",)),)
