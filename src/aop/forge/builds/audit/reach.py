"""Reach of tests: the files that tests import, and the routes that they name."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping

from aop.core.ids import TreeId
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.check.clauses import Code
from aop.forge.contracts.shapes.physics import Endpoint
from aop.forge.scan.imports.import_targets import Imports

_PARAMETER = re.compile(r"\{[^}]*\}|:\w+|<[^>]*>")
_NO_MODULE = ("sql", "prisma")


def files_reached(subject: AuditSubject, tree: TreeId | None = None) -> Mapping[str, str]:
    """Return each file that a test reaches by imports, with the first test that does."""
    chosen = tree or subject.tree
    return reached_in(subject.code_of(chosen), subject.imports_of(chosen))


def reached_in(code: Code, imports: Imports) -> Mapping[str, str]:
    """Return each file that a test of the code reaches, with the first test that does."""
    targets: dict[str, list[str]] = {}
    for edge in imports.edges:
        targets.setdefault(edge.file, []).append(edge.target)
    found: dict[str, str] = {}
    for source in code.inventory.sources:
        if not source.is_test:
            continue
        waiting = deque([source.path])
        while waiting:
            for target in targets.get(waiting.popleft(), ()):
                if target not in found:
                    found[target] = source.path
                    waiting.append(target)
    return found


def modules_of(code: Code) -> tuple[str, ...]:
    """Return the files that tests should reach: sources that hold a function or a class."""
    return tuple(
        source.path
        for source in code.inventory.sources
        if not source.is_test and source.language not in _NO_MODULE and (source.facts.functions or source.facts.classes)
    )


def naming_test(endpoint: Endpoint, code: Code) -> str:
    """Return `file:line` of the first test that names an endpoint, its path and its method; empty if none does."""
    return _line_naming(endpoint, code, tests=True)


def naming_source(endpoint: Endpoint, code: Code) -> str:
    """Return `file:line` of the first source, not a test, that names an endpoint; empty if none does."""
    return _line_naming(endpoint, code, tests=False)


def _line_naming(endpoint: Endpoint, code: Code, *, tests: bool) -> str:
    path = _path_pattern(endpoint.path)
    method = re.compile(rf"(?<![A-Za-z]){endpoint.method}(?![a-z])", re.IGNORECASE)
    for source in code.inventory.sources:
        if source.is_test is not tests:
            continue
        lines = code.lines(source.path) or ()
        found = next((at for at, line in enumerate(lines, start=1) if path.search(line)), 0)
        # Programs of many kinds ask with GET when nothing else is said.
        if found and (endpoint.method == "get" or any(method.search(line) for line in lines)):
            return f"{source.path}:{found}"
    return ""


def _path_pattern(path: str) -> re.Pattern[str]:
    """Return what a path looks like in code: after a quote, a host or a variable, with any values in it."""
    parts = [re.escape(part) for part in _PARAMETER.split(path.rstrip("/") or "/")]
    value = r"""(?:\{[^}]*\}|[^/\s"'`]+|(?=["'`]))"""
    return re.compile(r"""(?:["'`}\s]|:\d+|^)""" + value.join(parts) + r"""(?=["'`?\s)#,]|/?["'`]|$)""")
