"""Stack profile: known frameworks and tools among the packages and the files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from aop.forge.scan.file_facts import UNKNOWN
from aop.forge.scan.imports.import_targets import Imports, OutsideImport
from aop.forge.scan.inventory import Inventory
from aop.forge.scan.report import LanguageShare, PackageUse, StackPart, StackProfile

_PARTS: Mapping[str, Sequence[str]] = {
    "backend": (
        "fastapi flask django starlette aiohttp tornado sanic bottle pyramid falcon litestar djangorestframework"
        " express fastify koa hono @nestjs/core @hapi/hapi next nuxt"
        " org.springframework.boot:* org.springframework:* io.quarkus:* io.micronaut:*"
        " github.com/gin-gonic/gin github.com/labstack/echo/* github.com/go-chi/chi/* github.com/gofiber/fiber/*"
        " axum actix-web rocket warp"
    ).split(),
    "frontend": "react vue @angular/core svelte solid-js preact next nuxt vite webpack tailwindcss htmx.org".split(),
    "database": (
        "sqlalchemy sqlmodel psycopg psycopg2 psycopg2-binary asyncpg pymysql mysqlclient pymongo redis peewee alembic"
        " pg mysql mysql2 mongodb mongoose prisma @prisma/client typeorm sequelize knex ioredis better-sqlite3"
        " org.hibernate:* org.postgresql:postgresql org.flywaydb:* org.liquibase:* com.h2database:h2"
        " gorm.io/gorm github.com/lib/pq github.com/jackc/pgx/* diesel sqlx sea-orm rusqlite"
    ).split(),
    "testing": (
        "pytest hypothesis tox nox coverage jest vitest mocha ava cypress playwright @playwright/test supertest"
        " junit:junit org.junit.jupiter:* org.mockito:* github.com/stretchr/testify proptest"
    ).split(),
}
_INFRASTRUCTURE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("Docker", re.compile(r"(?:.*/)?(?:Dockerfile|Containerfile)(?:\.\w+)?")),
    ("Docker Compose", re.compile(r"(?:.*/)?(?:docker-)?compose(?:\.\w+)?\.ya?ml")),
    ("GitHub Actions", re.compile(r"\.github/workflows/[^/]+\.ya?ml")),
    ("GitLab CI", re.compile(r"\.gitlab-ci\.ya?ml")),
    ("Jenkins", re.compile(r"(?:.*/)?Jenkinsfile")),
    ("CircleCI", re.compile(r"\.circleci/config\.ya?ml")),
    ("Terraform", re.compile(r".*\.tf")),
    ("Helm", re.compile(r"(?:.*/)?Chart\.ya?ml")),
    ("Make", re.compile(r"Makefile")),
)
_ANY_INFRASTRUCTURE = re.compile("|".join(pattern.pattern for _, pattern in _INFRASTRUCTURE))


def stack_of(
    inventory: Inventory, packages: Sequence[PackageUse], imports: Imports, shares: Iterable[LanguageShare]
) -> StackProfile:
    """Return what the repository is built with: what manifests ask for, and what only imports show."""
    by_code, by_tests = _first_imports(inventory, imports)
    parts = {
        part: _parts(packages, {**by_tests, **by_code} if part == "testing" else by_code, names)
        for part, names in _PARTS.items()
    }
    primary = next((share.language for share in shares if share.language not in ("sql", "prisma")), UNKNOWN)
    return StackProfile(primary_language=primary, infrastructure=_infrastructure(inventory.paths), **parts)


def language_shares(inventory: Inventory) -> tuple[LanguageShare, ...]:
    """Return each language with its files and lines, the one with the most lines first."""
    files: dict[str, int] = {}
    lines: dict[str, int] = {}
    for source in inventory.sources:
        files[source.language] = files.get(source.language, 0) + 1
        lines[source.language] = lines.get(source.language, 0) + source.facts.lines
    ranked = sorted(files, key=lambda language: (-lines[language], language))
    return tuple(LanguageShare(language=each, files=files[each], lines=lines[each]) for each in ranked)


def _first_imports(
    inventory: Inventory, imports: Imports
) -> tuple[Mapping[str, OutsideImport], Mapping[str, OutsideImport]]:
    """Return the first import of each outside package by code, and by tests."""
    tests = {source.path for source in inventory.sources if source.is_test}
    by_code: dict[str, OutsideImport] = {}
    by_tests: dict[str, OutsideImport] = {}
    for each in imports.outside:
        (by_tests if each.file in tests else by_code).setdefault(each.package, each)
    return by_code, by_tests


def _parts(
    packages: Iterable[PackageUse], imported: Mapping[str, OutsideImport], names: Iterable[str]
) -> tuple[StackPart, ...]:
    wanted = [(name.removesuffix("*"), name.endswith("*")) for name in names]
    found: dict[str, StackPart] = {}
    for each in packages:
        if any(each.name.startswith(name) if open_end else each.name.lower() == name for name, open_end in wanted):
            version = each.locked or each.constraint or UNKNOWN
            found.setdefault(each.name, StackPart(name=each.name, version=version, file=each.file, line=each.line))
    for name in (name for name, open_end in wanted if not open_end and name in imported):
        # The manifest may call it otherwise: `psycopg2-binary` is imported as `psycopg2`.
        if not any(known.lower().startswith(name) for known in found):
            place = imported[name]
            found[name] = StackPart(name=name, version=UNKNOWN, file=place.file, line=place.line)
    return tuple(found[name] for name in sorted(found))


def _infrastructure(paths: Iterable[str]) -> tuple[StackPart, ...]:
    found: dict[str, StackPart] = {}
    for path in filter(_ANY_INFRASTRUCTURE.fullmatch, paths):
        for name, pattern in _INFRASTRUCTURE:
            if name not in found and pattern.fullmatch(path):
                found[name] = StackPart(name=name, version=UNKNOWN, file=path, line=1)
    return tuple(found[name] for name in sorted(found))
