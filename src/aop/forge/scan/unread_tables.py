"""Unread tables: libraries that make tables in a form that no reader finds."""

from __future__ import annotations

from aop.forge.scan.imports.import_targets import TargetFinder
from aop.forge.scan.imports.libraries import LibraryNames, is_outside
from aop.forge.scan.inventory import Inventory

_JAVASCRIPT = tuple(
    "sequelize sequelize-typescript mongoose drizzle-orm knex objection bookshelf @mikro-orm/core waterline".split()
)
_LIBRARIES = LibraryNames(
    {
        "python": tuple("peewee tortoise pony mongoengine beanie odmantic sqlobject gino ormar piccolo orator".split()),
        "javascript": _JAVASCRIPT,
        "typescript": _JAVASCRIPT,
        "java": tuple("org.jooq org.apache.ibatis io.ebean org.springframework.data.mongodb".split()),
        "go": tuple(
            "gorm.io/gorm github.com/jinzhu/gorm entgo.io/ent github.com/uptrace/bun xorm.io/xorm"
            " github.com/go-pg/pg".split()
        ),
        "rust": tuple("diesel sea_orm rbatis".split()),
    }
)


def unread_tables(inventory: Inventory, targets: TargetFinder | None = None) -> tuple[str, ...]:
    """Return a sentence for each library outside of tests whose tables are not read, with its first import."""
    finder: TargetFinder | None = targets
    found: dict[str, str] = {}
    for source in inventory.sources:
        for fact, name in () if source.is_test else _LIBRARIES.taken_by(source):
            finder = finder or TargetFinder(inventory)
            if name not in found and is_outside(source, fact, finder):
                found[name] = f"The tables of `{name}` are not read, at {source.path}:{fact.line}"
    return tuple(found.values())
