"""FoundRoute clauses: the routes of the code against the physics contract."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from aop.core.text.counts import count
from aop.forge.check.clauses import CheckedContracts, Clause, Code, decided
from aop.forge.check.unread_code import unread_for_routes
from aop.forge.contracts.consistency import same_path
from aop.forge.contracts.shapes.physics import Endpoint, Physics
from aop.forge.contracts.types import ContractType
from aop.forge.scan.file_facts import ANY_METHOD, UNKNOWN
from aop.forge.scan.routes import FoundRoute, routes_of
from aop.forge.scan.unread_routes import unread_routes

_NAMED_PATH = re.compile(r"`(?:[A-Z]+ )?(/[^`\s]*)`")
_IMPLIED = frozenset({"HEAD", "OPTIONS"})


def route_clauses(physics: Physics, contracts: CheckedContracts, code: Code) -> Iterator[Clause]:
    """Judge each path of the contract, and the routes that it does not name."""
    routes = routes_of(code.inventory)
    unread = _unread(routes, contracts, code)
    for endpoint in physics.endpoints:
        yield _declared(endpoint, routes, unread, contracts, code)
    yield _undeclared(physics, routes, unread, contracts, code)


def _unread(routes: Sequence[FoundRoute], contracts: CheckedContracts, code: Code) -> str:
    """Return why the code may serve more routes than were found; empty if it cannot."""
    if partial := [route for route in routes if not route.complete]:
        first = partial[0]
        return f"The prefix of {count(len(partial), 'route')} is not known, the first at {first.file}:{first.line}."
    if unread := unread_routes(code.inventory):
        more = f", and {count(len(unread) - 1, 'more place')}" if len(unread) > 1 else ""
        return f"{unread[0]}{more}."
    if not routes:
        return "No route was found in the code; its framework may not be one that is read."
    return unread_for_routes(code, contracts.boundaries)


def _declared(
    endpoint: Endpoint, routes: Sequence[FoundRoute], unread: str, contracts: CheckedContracts, code: Code
) -> Clause:
    found = [route for route in routes if route.complete and _serves(route, endpoint)]
    unknown = "" if found else unread
    missing = [] if found or unknown else [contracts.proof_of(ContractType.PHYSICS, endpoint.line)]
    return Clause(
        clause=f"physics.{endpoint.method}.{endpoint.path}",
        kind="route",
        statement=f"{endpoint.method.upper()} {endpoint.path} has a handler",
        verdict=decided(missing, unknown=unknown),
        proofs=tuple(missing) or tuple(code.proof(route.file, route.line) for route in found),
        detail=unknown,
    )


def _undeclared(
    physics: Physics, routes: Sequence[FoundRoute], unread: str, contracts: CheckedContracts, code: Code
) -> Clause:
    """Judge the routes that no contract names; pages are named by the UI, and a health check by a phase."""
    texts = [contracts.texts.get(each, "") for each in (ContractType.UI, ContractType.PHASES)]
    pages = {same_path(path) for text in texts for path in _NAMED_PATH.findall(text)}
    foreign = [
        route
        for route in routes
        if route.complete and route.method not in _IMPLIED and same_path(route.path) not in pages
        if not any(_serves(route, endpoint) for endpoint in physics.endpoints)
    ]
    return Clause(
        clause="physics.undeclared",
        kind="route",
        statement="Every route of the code is in physics, or is a page of the UI",
        verdict=decided([code.proof(route.file, route.line) for route in foreign], unknown=unread),
        proofs=tuple(code.proof(route.file, route.line) for route in foreign),
        detail=", ".join(f"{route.method} {route.path}" for route in foreign[:10]) or unread,
    )


def _serves(route: FoundRoute, endpoint: Endpoint) -> bool:
    is_method = route.method == ANY_METHOD or route.method.lower() == endpoint.method
    return is_method and route.path != UNKNOWN and same_path(route.path) == same_path(endpoint.path)
