"""Assembly of the report: everything that follows from an inventory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from aop.core.text.counts import count
from aop.forge.scan.file_facts import UNKNOWN
from aop.forge.scan.findings.architecture import architecture_of
from aop.forge.scan.findings.checks import CheckSubject, run_checks, score_of
from aop.forge.scan.findings.dependencies import lies_of, packages_of, runtimes_of
from aop.forge.scan.findings.dossier import dossier_of, grade_of
from aop.forge.scan.findings.stack import language_shares, stack_of
from aop.forge.scan.imports.import_targets import Imports, TargetFinder, resolve_imports
from aop.forge.scan.inventory import Inventory, ScanWarning
from aop.forge.scan.report import Architecture, Metadata, Metrics, ScanReport
from aop.forge.scan.routes import FoundRoute, FoundTable, routes_of, tables_of
from aop.forge.scan.unread_routes import UnreadRoutes, unread_routes
from aop.forge.scan.unread_tables import unread_tables

MOST_WARNINGS = 100
"""Of one kind; the rest is one line with their number."""
MOST_UNREAD = 20
READ_FRAMEWORKS = frozenset(("django", "express", "fastapi", "flask", "@nestjs/common"))
"""Frameworks whose routes are read, unless code of the repository registers them in its own way."""


def report_of(inventory: Inventory, *, name: str) -> ScanReport:
    """Return the report of a commit; `name` is that of the project."""
    targets = TargetFinder(inventory)
    imports = resolve_imports(inventory, targets)
    routes, tables, packages = routes_of(inventory, targets), tables_of(inventory), packages_of(inventory)
    architecture = architecture_of(inventory, imports)
    metrics = _metrics(inventory, imports, architecture, routes, tables, dependencies=len(packages))
    lies = lies_of(inventory)
    subject = CheckSubject(
        inventory=inventory, architecture=architecture, metrics=metrics, packages=packages, lies=lies
    )
    checks = run_checks(subject)
    score = score_of(checks)
    shares = language_shares(inventory)
    metadata = Metadata(
        name=name,
        description=_description(inventory),
        files=len(inventory.paths),
        bytes=inventory.bytes,
        languages=shares,
    )
    stack = stack_of(inventory, packages, imports, shares)
    return ScanReport(
        head_sha=inventory.commit,
        metadata=metadata,
        stack_profile=stack,
        architecture=architecture,
        dossier=dossier_of(metadata, stack, metrics, checks, score),
        metrics=metrics,
        checks=checks,
        unknown=(
            *_unknown(inventory, imports, routes, unread_routes(inventory, targets)),
            *(f"{each}." for each in unread_tables(inventory, targets)),
        ),
        warnings=tuple(_capped((*inventory.warnings, *lies))),
        files_analysed=len(inventory.sources) + len(inventory.manifests) + len(inventory.locks),
        health_grade=grade_of(score),
        routes=routes,
        tables=tables,
        dependencies=packages,
        runtimes=runtimes_of(inventory),
    )


def _metrics(
    inventory: Inventory,
    imports: Imports,
    architecture: Architecture,
    routes: Sequence[FoundRoute],
    tables: Sequence[FoundTable],
    *,
    dependencies: int,
) -> Metrics:
    sources = inventory.sources
    tests = [each for each in sources if each.is_test]
    largest = sorted(sources, key=lambda each: (-each.facts.lines, each.path))[:5]
    return Metrics(
        source_files=len(sources),
        test_files=len(tests),
        lines=sum(each.facts.lines for each in sources),
        test_lines=sum(each.facts.lines for each in tests),
        functions=sum(each.facts.functions for each in sources),
        classes=sum(each.facts.classes for each in sources),
        packages=len(architecture.packages),
        imports=len(imports.edges),
        cycles=len(architecture.cycles),
        routes=len(routes),
        tables=len({table.name for table in tables}),
        dependencies=dependencies,
        long_functions=sum(len(each.facts.long_functions) for each in sources),
        largest_files=tuple(f"{each.path}:{each.facts.lines}" for each in largest),
        todos=sum(len(each.facts.todos) for each in sources),
        syntax_errors=sum(bool(each.facts.error_line) for each in sources),
    )


def _description(inventory: Inventory) -> str:
    """Return what the manifest nearest to the root says the repository is for, else what its README does."""
    told = [(path.count("/"), path, facts.description) for path, facts in inventory.manifests.items()]
    return next((text for _, _, text in sorted(told) if text), inventory.readme or UNKNOWN)


def _unknown(
    inventory: Inventory, imports: Imports, routes: Sequence[FoundRoute], unread: Sequence[UnreadRoutes]
) -> Iterator[str]:
    yield from (f"{each}." for each in unread[:MOST_UNREAD])
    if len(unread) > MOST_UNREAD:
        yield f"{count(len(unread) - MOST_UNREAD, 'more place')} with routes that are not read."
    named = [each for each in imports.outside if each.package in READ_FRAMEWORKS] if not routes else []
    used = {each.package: f"{each.file}:{each.line}" for each in reversed(named)}
    for package in sorted(used):
        yield f"The routes of `{package}`, imported at {used[package]}: none was found in a form that is read."
    partial = [route for route in routes if not route.complete]
    if partial:
        first = partial[0]
        yield f"The prefix of {count(len(partial), 'route')}, the first at {first.file}:{first.line}, was not found."
    if _description(inventory) == UNKNOWN:
        yield "The purpose of the repository: neither a manifest nor a README says it."


def _capped(warnings: Sequence[ScanWarning]) -> Iterator[ScanWarning]:
    numbers = Counter(each.code for each in warnings)
    shown: Counter[str] = Counter()
    for each in warnings:
        shown[each.code] += 1
        if shown[each.code] <= MOST_WARNINGS:
            yield each
    for code, number in sorted(numbers.items()):
        if number > MOST_WARNINGS:
            more = count(number - MOST_WARNINGS, "more warning")
            yield ScanWarning(code=code, file="", detail=f"{more} of this kind.")
