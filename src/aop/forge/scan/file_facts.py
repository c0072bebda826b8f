"""File facts: all that a scan knows of one file, from its content alone.

They depend on nothing but the bytes and the language, so they are kept by the id of the blob.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

Language = Literal["python", "javascript", "typescript", "java", "go", "rust", "sql", "prisma", "settings", "env"]
"""The last two are settings, in which only secrets are looked for."""
Ecosystem = Literal["python", "node", "maven", "go", "rust"]
Group = Literal["runtime", "development", "optional"]

UNKNOWN = "unknown"
"""The word for what a scan could not find out."""
ANY_METHOD = "ANY"
"""The method of a route that takes every one, or whose method its file does not name."""


_SEPARATORS = re.compile(r"[-_.]+")


def normal_name(ecosystem: Ecosystem, name: str) -> str:
    """Return the one spelling of a package's name."""
    return _SEPARATORS.sub("-", name).lower() if ecosystem == "python" else name


def path_below(prefix: str, path: str) -> str:
    """Return a route below a prefix, with one slash between them; unknown if either is."""
    if UNKNOWN in (prefix, path):
        return UNKNOWN
    if not prefix:
        return path
    return f"{prefix.rstrip('/')}/{path.lstrip('/')}" if path.strip("/") else prefix


class ImportFact(Struct, frozen=True, array_like=True, gc=False):
    """One import as the file spells it."""

    line: int
    target: str
    """The module: `a.b`, `..x`, `./y`, `crate::z`."""
    names: tuple[str, ...] = ()
    """The names it takes from the module, which may be modules themselves; `x as y` where the file calls it y."""
    late: bool = False
    """Inside a function or a condition: carried out later, or never."""


class RouteFact(Struct, frozen=True, array_like=True, gc=False):
    """One HTTP route."""

    line: int
    method: str
    """In capitals; `ANY_METHOD` where the file names none."""
    path: str
    """With parameters as `{name}`, and with the prefix that the same file gives to its router."""
    framework: str
    router: str = ""
    """The name of the router that another file may put under a prefix; empty for the application itself."""


class MountFact(Struct, frozen=True, array_like=True, gc=False):
    """A prefix that a file gives to the routes of another."""

    line: int
    prefix: str
    target: str
    """The router as the file names it: `users.router`, `users_router`, or a module such as `blog.urls`."""
    owner: str = ""
    """The router that gets them; empty for the application."""


class TableFact(Struct, frozen=True, array_like=True, gc=False):
    """One table of a database."""

    line: int
    name: str
    """Empty where the name follows from the path of the file, as Django's do."""
    source: str
    """`sql`, `sqlalchemy`, `django`, `alembic`, `prisma`, `typeorm` or `jpa`."""
    columns: tuple[str, ...] = ()
    model: str = ""
    """The class that stands for it; empty if none does."""


class FunctionFact(Struct, frozen=True, array_like=True, gc=False):
    """A function that is longer than most."""

    line: int
    name: str
    lines: int


class SecretFact(Struct, frozen=True, array_like=True, gc=False):
    """Where a secret stands, and which rule says so; never the secret."""

    line: int
    rule: str


class SourceFacts(Struct, frozen=True, array_like=True, gc=False):
    """What one source file holds."""

    lines: int
    functions: int = 0
    classes: int = 0
    imports: tuple[ImportFact, ...] = ()
    routes: tuple[RouteFact, ...] = ()
    mounts: tuple[MountFact, ...] = ()
    tables: tuple[TableFact, ...] = ()
    long_functions: tuple[FunctionFact, ...] = ()
    secrets: tuple[SecretFact, ...] = ()
    todos: tuple[int, ...] = ()
    """The lines that say TODO or FIXME."""
    error_line: int = 0
    """The first line that does not parse; 0 if all do."""
    problem: str = ""
    """Why it was not read; empty if it was."""
    unread_routes: tuple[int, ...] = ()
    """The lines that register a route in a form that is not read."""


class Dependency(Struct, frozen=True, kw_only=True, gc=False):
    """A package that a manifest asks for."""

    name: str
    constraint: str
    """As the manifest writes it; empty if it takes any version."""
    ecosystem: Ecosystem
    group: Group = "runtime"
    line: int = 0


class ManifestFacts(Struct, frozen=True, kw_only=True, gc=False):
    """What one manifest asks for."""

    ecosystem: Ecosystem
    name: str = ""
    """The name of the package itself."""
    description: str = ""
    dependencies: tuple[Dependency, ...] = ()
    runtime: str = ""
    """The version of the language that it asks for; empty if it does not say."""
    scripts: tuple[str, ...] = ()
    problem: str = ""


class LockFacts(Struct, frozen=True, kw_only=True, gc=False):
    """What one lock file pins."""

    ecosystem: Ecosystem
    versions: dict[str, tuple[str, ...]] = {}
    """The versions of each package, by its normalized name."""
    claims: dict[str, str] = {}
    """What the lock says that the manifest asks for, where it does."""
    problem: str = ""
