"""Scan report: everything that a deep scan says of a commit (FORGE-226)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from aop.forge.scan.file_facts import UNKNOWN
from aop.forge.scan.inventory import ScanWarning
from aop.forge.scan.routes import FoundRoute, FoundTable

Result = Literal["pass", "fail", "warn"]
Severity = Literal["high", "medium", "low"]
Grade = Literal["A", "B", "C", "D", "F"]


class LanguageShare(Struct, frozen=True, kw_only=True):
    """How much of a repository is written in a language."""

    language: str
    files: int
    lines: int


class Metadata(Struct, frozen=True, kw_only=True):
    """The repository as a whole."""

    name: str
    description: str
    """From its manifest or its README; `unknown` if neither says."""
    files: int
    bytes: int
    languages: tuple[LanguageShare, ...]
    """The one with the most lines first."""


class StackPart(Struct, frozen=True, kw_only=True):
    """A framework, library or tool, and the place that shows it."""

    name: str
    version: str
    """As locked, else as asked for; `unknown` if neither says."""
    file: str
    line: int


class StackProfile(Struct, frozen=True, kw_only=True):
    """What the repository is built with (FORGE-128); an empty list is something that was not found."""

    primary_language: str = UNKNOWN
    backend: tuple[StackPart, ...] = ()
    frontend: tuple[StackPart, ...] = ()
    database: tuple[StackPart, ...] = ()
    testing: tuple[StackPart, ...] = ()
    infrastructure: tuple[StackPart, ...] = ()


class Module(Struct, frozen=True, kw_only=True, gc=False):
    """A source file of a package."""

    name: str
    lines: int
    functions: int
    classes: int


class Package(Struct, frozen=True, kw_only=True, gc=False):
    """A folder with source files."""

    path: str
    """`.` is the root."""
    lines: int
    functions: int
    classes: int
    layer: int
    """0 imports no other package of the repository."""
    imports: tuple[str, ...]
    """The packages that it imports."""
    modules: tuple[Module, ...]


class Cycle(Struct, frozen=True, kw_only=True):
    """Files that import each other."""

    files: int
    """How many files can reach each other."""
    path: tuple[str, ...]
    """One shortest way round, as `file:line` of each import."""


class Architecture(Struct, frozen=True, kw_only=True):
    """The map of a repository (FORGE-133)."""

    packages: tuple[Package, ...] = ()
    layers: tuple[tuple[str, ...], ...] = ()
    """The packages, the lowest layer first."""
    cycles: tuple[Cycle, ...] = ()
    entry_points: tuple[str, ...] = ()
    """`file:line` of what starts a program."""


class Check(Struct, frozen=True, kw_only=True):
    """One compliance check (FORGE-132)."""

    code: str
    """Its stable code, such as `S05`."""
    name: str
    result: Result
    """`pass`, `fail`, or `warn` for something in between."""
    detail: str
    places: tuple[str, ...] = ()
    """`file:line` of the first findings."""


class QualityAssessment(Struct, frozen=True, kw_only=True):
    """The score, and what speaks for and against it."""

    score: int
    strengths: tuple[str, ...]
    weaknesses: tuple[str, ...]


class RiskArea(Struct, frozen=True, kw_only=True):
    """Something that may hurt."""

    area: str
    severity: Severity
    detail: str


class Recommendation(Struct, frozen=True, kw_only=True):
    """Something to do."""

    priority: Severity
    suggestion: str


class Dossier(Struct, frozen=True, kw_only=True):
    """The repository in sentences that follow from what was read (FORGE-131)."""

    executive_summary: str
    intent: str
    quality_assessment: QualityAssessment
    risk_areas: tuple[RiskArea, ...]
    recommendations: tuple[Recommendation, ...]


class Metrics(Struct, frozen=True, kw_only=True):
    """Figures, each counted."""

    source_files: int
    test_files: int
    lines: int
    test_lines: int
    functions: int
    classes: int
    packages: int
    imports: int
    cycles: int
    routes: int
    tables: int
    dependencies: int
    long_functions: int
    largest_files: tuple[str, ...]
    """The five longest, as `file:lines`."""
    todos: int
    syntax_errors: int


class PackageUse(Struct, frozen=True, kw_only=True, gc=False):
    """A package that a manifest asks for, and what is locked."""

    name: str
    ecosystem: str
    constraint: str
    locked: str
    """Empty if no lock file pins it."""
    group: str
    file: str
    line: int


class ScanReport(Struct, frozen=True, kw_only=True):
    """The result of a deep scan."""

    head_sha: str
    metadata: Metadata
    stack_profile: StackProfile
    architecture: Architecture
    dossier: Dossier
    metrics: Metrics
    checks: tuple[Check, ...]
    unknown: tuple[str, ...]
    """What the scan could not find out, and why."""
    warnings: tuple[ScanWarning, ...]
    files_analysed: int
    health_grade: Grade
    routes: tuple[FoundRoute, ...]
    tables: tuple[FoundTable, ...]
    dependencies: tuple[PackageUse, ...]
    runtimes: tuple[PackageUse, ...] = ()
    """The versions of languages that manifests ask for."""
