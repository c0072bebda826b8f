"""Route checks: each route that is due has a handler and a test."""

from __future__ import annotations

import re
from collections.abc import Sequence

from aop.forge.builds.audit.audit_verdicts import AuditCheck, judged
from aop.forge.builds.audit.reach import naming_source, naming_test
from aop.forge.builds.audit.subject import AuditSubject
from aop.forge.contracts.consistency import same_path
from aop.forge.contracts.shapes.physics import Endpoint
from aop.forge.scan.file_facts import ANY_METHOD, UNKNOWN
from aop.forge.scan.routes import FoundRoute, routes_of

_ROUTE = re.compile(r"`(?:(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) +)?(/[^`\s]*)`")


def check_routes(subject: AuditSubject) -> AuditCheck:
    """W3: each route of physics up to this phase has a handler, and a test that names it."""
    due = due_endpoints(subject)
    routes = routes_of(subject.code.inventory)
    failures, doubts, facts = [], [], []
    for endpoint in due:
        shown = f"{endpoint.method.upper()} {endpoint.path}"
        handler, test = handler_of(endpoint, routes, subject), naming_test(endpoint, subject.code)
        if not handler:
            failures.append(f"{shown} has no handler")
        elif not test:
            doubts.append(f"{shown}, handled at {handler}, is named by no test")
        else:
            facts.append(f"{shown}: {handler}, tested at {test}")
    phases = f"the phases 0 to {subject.cycle.current.number}"
    covered = f"Routes of {phases} with a handler and a test: {len(facts)} of {len(due)}"
    return judged("W3", failures=failures, doubts=doubts, facts=[covered, *facts[:20]])


def due_endpoints(subject: AuditSubject) -> tuple[Endpoint, ...]:
    """Return the endpoints that the deliverables so far name; at the last phase, all of them."""
    physics = subject.contracts.physics
    if physics is None:
        return ()
    if subject.is_last_phase:
        return physics.endpoints
    named = [found for each in subject.deliverables for found in _ROUTE.findall(each.text)]
    return tuple(each for each in physics.endpoints if _is_named(each, named))


def handler_of(endpoint: Endpoint, routes: Sequence[FoundRoute], subject: AuditSubject) -> str:
    """Return `file:line` of a handler: a route of a framework that is read, else a line that names its path."""
    for route in routes:
        if route.method not in (ANY_METHOD, endpoint.method.upper()) or route.path == UNKNOWN:
            continue
        if same_path(route.path) == same_path(endpoint.path):
            return f"{route.file}:{route.line}"
    # A framework whose routes are read would have been found above, unless its prefix is not known.
    if routes and all(route.complete for route in routes):
        return ""
    return naming_source(endpoint, subject.code)


def _is_named(endpoint: Endpoint, named: Sequence[tuple[str, str]]) -> bool:
    return any(
        same_path(path) == same_path(endpoint.path) and method.lower() in ("", endpoint.method)
        for method, path in named
    )
